"""QUANTILE_CONT and QUANTILE_DISC: read off the ordered values of a group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.quantile_places import Quantile, follow_quantile, interpolate
from sash.kernels.running_sums import BeforeAfter
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import as_type
from sash.operators.accumulators.in_order import InOrder
from sash.operators.accumulators.members import Members
from sash.operators.accumulators.sortable import SIGN_BIT, to_doubles
from sash.store.group_array import GroupArray
from sash.store.vector import Arena

LOW_HALF = 0xFFFFFFFF


class OrderedQuantile(InOrder):
    """Of values of any order, or, if it is continuous, of numbers, between which it is exact and rounded once."""

    def __init__(self, quantile: Quantile, type: pa.DataType, result: pa.DataType, arena: Arena):
        self._quantile = quantile
        self._type = type
        self._result = result
        super().__init__(Members(type, False, arena), 2, arena)

    def _start(self, arena: Arena) -> None:
        super()._start(arena)
        self._rests = GroupArray(np.int64, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._forget_members()
        members, valid = self._members.encode(runs, values)
        self._reserve(runs.n_groups, len(members))
        self._rests.reserve(runs.n_groups)
        n_runs, treaps = len(runs.groups), self._ordered.treaps(self._members.words)
        out = BeforeAfter(np.empty((2, n_runs, 3), np.int64), np.empty((2, n_runs), np.bool_))
        state = self._results.array, self._rests.array
        follow_quantile(runs.for_kernels(valid), members, self._quantile, treaps, *state, out)
        before, after = (self._read(out.values[side], out.valid[side]) for side in range(2))
        return before, after

    def compact(self, mapping: np.ndarray) -> None:
        super().compact(mapping)
        self._rests.compact(mapping)

    def _read(self, found: np.ndarray, valid: np.ndarray) -> pa.Array:
        if not self._quantile.is_continuous:
            return as_type(self._members.decode(found[:, 0], valid), self._result)
        low, high = (self._numbers(found[:, column], valid) for column in range(2))
        out = np.empty(len(found))
        interpolate(low, high, np.where(valid, found[:, 2], 0), self._quantile.denominator, out)
        return as_type(pa.array(out, mask=~valid), self._result)

    def _numbers(self, members: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Rows of two doubles that add up to the members; integers beyond 64 bits are rounded."""
        numbers = np.zeros((len(members), 2))
        if pa.types.is_floating(self._type):
            numbers[:, 0] = to_doubles(members)
        elif not self._members.are_words:
            numbers[:, 0] = self._members.decode(members, valid).cast(pa.float64()).fill_null(0.0).to_numpy()
        else:
            whole = members.view(np.uint64) ^ SIGN_BIT if pa.types.is_uint64(self._type) else members
            numbers[:, 0], numbers[:, 1] = (whole >> 32).astype(np.float64) * 2.0**32, whole & LOW_HALF
        numbers[~valid] = 0.0
        return numbers


def quantile_of(function: str, fraction: tuple[int, int], is_descending: bool) -> Quantile:
    """As kernels are given it."""
    (numerator, denominator), is_continuous = fraction, function == "quantile_cont"
    if is_continuous and is_descending:
        numerator, is_descending = denominator - numerator, False
    return Quantile(numerator, denominator, is_continuous, is_descending)
