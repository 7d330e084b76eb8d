"""COUNT, SUM and AVG.

Integers and decimals are summed as integers of 192 bits, doubles as expansions (`kernels/expansions.py`): both are
exact, so a value that leaves takes away just what it brought. A result is rounded once, when it is read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.errors import SourceError
from sash.kernels import running_sums
from sash.kernels.running_sums import BeforeAfter, IntegerWords
from sash.kernels.wide_integers import N_WORDS
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import (
    as_type,
    both,
    doubles,
    from_decimal_words,
    integer_words,
    parts_of_unit,
    valid_flags,
)
from sash.operators.accumulators.tallies import Tallies
from sash.store.group_array import GroupArray
from sash.store.vector import Arena

FIRST_PARTS = 4


class Count(Tallies):
    """COUNT(*) without an argument, else how many values are not NULL."""

    def __init__(self, result: pa.DataType, arena: Arena):
        self._result = result
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        self._counts = GroupArray(np.int64, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        self._reserve(runs.n_groups)
        out = np.empty((2, len(runs.groups)), np.int64)
        running_sums.count(runs.for_kernels(valid_flags(values)), self._counts.array, out)
        return as_type(pa.array(out[0]), self._result), as_type(pa.array(out[1]), self._result)

    def _arrays(self) -> tuple[GroupArray, ...]:
        return (self._counts,)


class IntegerSum(Tallies):
    """SUM and AVG of integers, booleans and decimals."""

    def __init__(self, type: pa.DataType, result: pa.DataType, is_mean: bool, arena: Arena):
        self._type = type
        self._result = result
        self._is_mean = is_mean
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        self._counts = GroupArray(np.int64, arena)
        self._sums = GroupArray(np.uint64, arena, (N_WORDS,))

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._reserve(runs.n_groups)
        return self._average(runs, values) if self._is_mean else self._sum(runs, values)

    def _arrays(self) -> tuple[GroupArray, ...]:
        return self._counts, self._sums

    def _sum(self, runs: AggregateRuns, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        n_runs, given = len(runs.groups), runs.for_kernels(valid_flags(values))
        out, valid = results = BeforeAfter(np.empty((2, n_runs, 2), np.uint64), np.empty((2, n_runs), np.bool_))
        words = IntegerWords(*integer_words(values))
        beyond = running_sums.sum_integers(given, words, self._counts.array, self._sums.array, results)
        if beyond >= 0:
            raise SourceError(
                "a `SUM` is beyond 38 digits, which is more than its type can hold; cast the argument to `DOUBLE`"
            )
        scale = self._type.scale if pa.types.is_decimal(self._type) else 0
        before, after = (as_type(from_decimal_words(out[side], valid[side], scale), self._result) for side in range(2))
        return before, after

    def _average(self, runs: AggregateRuns, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        given, out = runs.for_kernels(valid_flags(values)), runs.room_for_doubles()
        words, unit = IntegerWords(*integer_words(values)), parts_of_unit(self._type)
        running_sums.average_integers(given, words, self._counts.array, self._sums.array, unit, out)
        return both(*out, self._result)


class DoubleSum(Tallies):
    """SUM and AVG of floating-point numbers."""

    def __init__(self, result: pa.DataType, is_mean: bool, arena: Arena):
        self._result = result
        self._is_mean = is_mean
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        self._tallies = GroupArray(np.int64, arena, (running_sums.N_TALLIES,))
        self._parts = GroupArray(np.float64, arena, (running_sums.N_SUM_BANDS, FIRST_PARTS))
        self._results = GroupArray(np.float64, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._reserve(runs.n_groups)
        given, numbers, out = runs.for_kernels(valid_flags(values)), doubles(values), runs.room_for_doubles()
        at = 0, 0
        while at[0] < len(runs.groups):
            state = self._tallies.array, self._parts.array, self._results.array
            at = running_sums.sum_doubles(at, given, numbers, *state, self._is_mean, out)
            if at[0] < len(runs.groups):
                self._parts.widen()
        return both(*out, self._result)

    def _arrays(self) -> tuple[GroupArray, ...]:
        return self._tallies, self._parts, self._results
