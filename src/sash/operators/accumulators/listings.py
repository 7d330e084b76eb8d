"""LIST and STRING_AGG: all values of a group, one after the other.

A change of a group costs a look at all its values, as the result holds them all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.listed_values import Listed, follow_list
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import as_type
from sash.operators.accumulators.in_order import InOrder
from sash.operators.accumulators.members import Members
from sash.operators.accumulators.ranked import RankedMembers
from sash.store.vector import Arena

FIRST_ROOM = 1024


class Listing(InOrder):
    """The values as a list, NULL over none; or, with a separator, as one string."""

    def __init__(
        self,
        members: Members | RankedMembers,
        result: pa.DataType,
        is_distinct: bool,
        separator: str | None,
        arena: Arena,
    ):
        self._result = result
        self._is_distinct = is_distinct
        self._separator = separator
        super().__init__(members, 0, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._forget_members()
        members, valid = self._members.encode(runs, values)
        self._reserve(runs.n_groups, len(members))
        ends = np.zeros(2 * len(runs.groups) + 1, np.int64)
        listed = self._follow(runs, members, valid, ends)
        lists = self._read(listed, ends)
        return lists.take(pa.array(np.arange(0, len(lists), 2))), lists.take(pa.array(np.arange(1, len(lists), 2)))

    def _follow(self, runs: AggregateRuns, members: np.ndarray, valid: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The members of all lists; with more room each time that it is too little."""
        given, treaps = runs.for_kernels(valid), self._ordered.treaps(self._members.words)
        room, listed, run = np.empty(len(treaps.nodes), np.int64), np.empty(FIRST_ROOM, np.int64), 0
        while True:
            run = follow_list(run, given, members, self._is_distinct, treaps, room, Listed(listed, ends))
            if run == len(runs.groups):
                return listed[: ends[-1]]
            more = np.empty(2 * len(listed), np.int64)
            more[: len(listed)] = listed
            listed = more

    def _read(self, listed: np.ndarray, ends: np.ndarray) -> pa.Array:
        values = self._members.decode(listed, np.ones(len(listed), np.bool_))
        is_empty = pa.array(ends[1:] == ends[:-1])
        lists: pa.Array = pa.LargeListArray.from_arrays(pa.array(ends), values)
        if self._separator is not None:
            lists = pc.binary_join(lists, self._separator)
        return as_type(pc.if_else(is_empty, pa.scalar(None, lists.type), lists), self._result)
