"""MIN, MAX, BOOL_AND, BOOL_OR, MEDIAN, COUNT(DISTINCT), ARG_MIN, ARG_MAX, FIRST and LAST.

They are read off the ordered values of a group. An event costs a walk down a balanced tree, never a look at all values
of the group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.ordered_aggregates import DISTINCT, GREATEST, LEAST, MIDDLE, follow
from sash.kernels.running_sums import BeforeAfter
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import as_type, both, unit_of
from sash.operators.accumulators.in_order import InOrder
from sash.operators.accumulators.members import Members
from sash.operators.accumulators.ranked import RankedMembers
from sash.operators.accumulators.sortable import to_doubles
from sash.store.vector import Arena

WHAT = {
    "min": LEAST,
    "max": GREATEST,
    "bool_and": LEAST,
    "bool_or": GREATEST,
    "median": MIDDLE,
    "count_distinct": DISTINCT,
    "first": LEAST,
    "last": GREATEST,
    "arg_min": LEAST,
    "arg_max": GREATEST,
}


class Ordered(InOrder):
    """An aggregate of values in their order; of the tuples in order of time, then value, for FIRST and LAST."""

    def __init__(
        self,
        function: str,
        members: Members | RankedMembers,
        type: pa.DataType,
        result: pa.DataType,
        arena: Arena,
    ):
        self._function = function
        self._type = type
        self._result = result
        super().__init__(members, 2, arena, holds_members=function != "count_distinct")

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._forget_members()
        members, valid = self._members.encode(runs, values)
        self._reserve(runs.n_groups, len(members))
        n_runs, treaps = len(runs.groups), self._ordered.treaps(self._members.words)
        out = BeforeAfter(np.empty((2, n_runs, 2), np.int64), np.empty((2, n_runs), np.bool_))
        follow(runs.for_kernels(valid), members, WHAT[self._function], treaps, self._results.array, out)
        return self._read(*out)

    def _read(self, out: np.ndarray, valid: np.ndarray) -> tuple[pa.Array, pa.Array]:
        if self._function == "count_distinct":
            return both(out[:, :, 0], np.ones_like(valid), self._result)
        read = self._read_middle if self._function == "median" else self._read_value
        before, after = (as_type(read(out[side], valid[side]), self._result) for side in range(2))
        return before, after

    def _read_value(self, out: np.ndarray, valid: np.ndarray, column: int = 0) -> pa.Array:
        return self._members.decode(out[:, column], valid)

    def _read_middle(self, out: np.ndarray, valid: np.ndarray) -> pa.Array:
        if pa.types.is_floating(self._type):
            numbers = _mean_of_doubles(to_doubles(out[:, 0]), to_doubles(out[:, 1]))
        elif self._members.are_words:
            numbers = _mean_of_integers(out, pa.types.is_uint64(self._type)) / unit_of(self._type)
        else:
            sides = (self._read_value(out, valid, column).cast(pa.float64()).fill_null(0.0) for column in range(2))
            numbers = _mean_of_doubles(*(side.to_numpy() for side in sides))
        return pa.array(numbers, mask=~valid)


def _mean_of_doubles(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Without an overflow on the way."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = low + high
        return np.where(np.isinf(total), low / 2 + high / 2, total / 2)


def _mean_of_integers(pairs: np.ndarray, is_unsigned: bool) -> np.ndarray:
    """The nearest doubles to the means of pairs of words."""
    low, high = pairs[:, 0], pairs[:, 1]
    half = (low ^ high) & 1
    floor = (low & high) + ((low ^ high) >> 1)
    if is_unsigned:
        floor, half = floor.view(np.uint64) ^ np.uint64(1 << 63), half.view(np.uint64)
    # Far beyond 54 bits, one half only says on which side of a tie the mean lies: the lowest bit can say so as well.
    is_small = floor < 1 << 60 if is_unsigned else np.abs(floor >> 1) < 1 << 60
    return np.where(is_small, (2 * floor + half).astype(np.float64) / 2, (floor | half).astype(np.float64))
