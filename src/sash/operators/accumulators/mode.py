"""MODE: the most frequent value of a group, the least of them if there are several."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.modes import follow_mode
from sash.kernels.running_sums import BeforeAfter
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import as_type
from sash.operators.accumulators.in_order import InOrder
from sash.operators.accumulators.members import Members
from sash.store.vector import Arena, Vector


class Mode(InOrder):
    """Of values of any order. An event costs two walks down a balanced tree."""

    def __init__(self, type: pa.DataType, result: pa.DataType, arena: Arena):
        self._result = result
        super().__init__(Members(type, False, arena), 1, arena)

    def _start(self, arena: Arena) -> None:
        super()._start(arena)
        self._most = Vector(np.int64, arena)
        """Of each node of the trees, how often the most frequent value below or in it occurs."""
        self._most.array[0] = 0

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._forget_members()
        members, valid = self._members.encode(runs, values)
        self._reserve(runs.n_groups, len(members))
        n_runs, treaps = len(runs.groups), self._ordered.treaps(self._members.words)
        self._most.reserve(len(treaps.nodes))
        out = BeforeAfter(np.empty((2, n_runs, 1), np.int64), np.empty((2, n_runs), np.bool_))
        room = np.empty(len(treaps.nodes), np.int64)
        follow_mode(runs.for_kernels(valid), members, treaps, self._most.array, room, self._results.array, out)
        before, after = (self._members.decode(out.values[side, :, 0], out.valid[side]) for side in range(2))
        return as_type(before, self._result), as_type(after, self._result)
