"""MIN, MAX, BOOL_AND, BOOL_OR, ARG_MIN, ARG_MAX, FIRST and LAST where no value leaves.

Of a group only the present extreme is kept.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.ordered_aggregates import LEAST, follow_extreme
from sash.kernels.running_sums import BeforeAfter
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import as_type
from sash.operators.accumulators.members import Members
from sash.operators.accumulators.ordered import WHAT
from sash.operators.accumulators.ranked import RankedMembers
from sash.store.group_array import GroupArray
from sash.store.vector import Arena


class Extreme:
    """The least or greatest value; of the tuples in order of time, then value, for FIRST and LAST."""

    def __init__(self, function: str, members: Members | RankedMembers, result: pa.DataType, arena: Arena):
        self._is_least = WHAT[function] == LEAST
        self._members = members
        self._result = result
        self._has_time = isinstance(members, Members) and members.has_time
        self._start(arena)

    def reset(self, arena: Arena) -> None:
        self._members.reset(arena)
        self._start(arena)

    def _start(self, arena: Arena) -> None:
        self._extremes = GroupArray(np.int64, arena)
        self._is_there = GroupArray(np.bool_, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        assert np.all(runs.signs > 0), "a value leaves"
        self._forget_members()
        self._extremes.reserve(runs.n_groups)
        self._is_there.reserve(runs.n_groups)
        touched = np.unique(runs.groups)
        self._members.use(self._held(touched), -1)
        members, valid = self._members.encode(runs, values)
        shape = 2, len(runs.groups)
        out, out_valid = results = BeforeAfter(np.empty(shape, np.int64), np.empty(shape, np.bool_))
        state = self._members.words, self._extremes.array, self._is_there.array
        follow_extreme(runs.for_kernels(valid), members, self._is_least, *state, results)
        self._members.use(members, -1)
        self._members.use(self._held(touched), +1)
        before, after = (as_type(self._members.decode(out[side], out_valid[side]), self._result) for side in range(2))
        return before, after

    def compact(self, mapping: np.ndarray) -> None:
        self._extremes.compact(mapping)
        self._is_there.compact(mapping)

    def dump(self, groups: np.ndarray) -> list[pa.Array]:
        """The values; of FIRST and LAST with their times, which tell a value that is NULL from none; or with keys."""
        extremes, is_there = self._extremes.array[groups], self._is_there.array[groups]
        if isinstance(self._members, RankedMembers):
            return [self._members.written(extremes, is_there)]
        values = self._members.decode(extremes, is_there)
        return [values, self._members.times(extremes, is_there)] if self._has_time else [values]

    def load(self, groups: np.ndarray, columns: list[pa.Array]) -> None:
        """As if each value entered."""
        n_groups, counts = int(groups.max(initial=-1)) + 1, columns[-1].is_valid()
        groups, columns = groups[counts.to_numpy(zero_copy_only=False)], [each.filter(counts) for each in columns]
        ones = np.ones(len(groups), np.int8)
        ts = columns[1].to_numpy() if self._has_time else np.zeros(len(groups), np.int64)
        self.apply(AggregateRuns(np.arange(len(groups) + 1), groups, n_groups, ones, ts), columns[0])

    def _held(self, groups: np.ndarray) -> np.ndarray:
        """The extremes of groups; -1 where there is none."""
        return np.where(self._is_there.array[groups], self._extremes.array[groups], -1)

    def _forget_members(self) -> None:
        """A group without values keeps a member of the past, which nobody reads."""
        renumbered = self._members.forget()
        if renumbered is not None:
            extremes = self._extremes.array
            extremes[:] = renumbered[np.minimum(extremes, len(renumbered) - 1)]
