"""STDDEV, STDDEV_POP, VAR_SAMP and VAR_POP: of a sample, NULL below two values, or of a whole population.

NaN if a value is NaN or infinite; for all others the result is within a few units in the last place, whatever their
size, and 0.0 exactly when they are equal.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels import running_deviations
from sash.kernels.running_deviations import Spread
from sash.kernels.running_sums import N_TALLIES, IntegerWords
from sash.kernels.wide_integers import N_WORDS
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import both, doubles, integer_words, unit_of, valid_flags
from sash.operators.accumulators.tallies import Tallies
from sash.store.group_array import GroupArray
from sash.store.vector import Arena

FIRST_PARTS = 4
MEASURES = {
    "stddev": Spread(is_sample=True, is_root=True),
    "stddev_pop": Spread(is_sample=False, is_root=True),
    "var_samp": Spread(is_sample=True, is_root=False),
    "var_pop": Spread(is_sample=False, is_root=False),
}


class IntegerDeviation(Tallies):
    """Of integers, booleans and decimals of up to 64 bits."""

    def __init__(self, function: str, type: pa.DataType, result: pa.DataType, arena: Arena):
        self._measure = MEASURES[function]._replace(unit=unit_of(type))
        self._result = result
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        self._counts = GroupArray(np.int64, arena)
        self._sums = GroupArray(np.uint64, arena, (N_WORDS,))
        self._squares = GroupArray(np.uint64, arena, (N_WORDS,))
        self._results = GroupArray(np.float64, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._reserve(runs.n_groups)
        given, out = runs.for_kernels(valid_flags(values)), runs.room_for_doubles()
        words = IntegerWords(*integer_words(values))
        state = self._counts.array, self._sums.array, self._squares.array, self._results.array
        running_deviations.deviate_integers(given, words, *state, self._measure, out)
        return both(*out, self._result)

    def _arrays(self) -> tuple[GroupArray, ...]:
        return self._counts, self._sums, self._squares, self._results


class DoubleDeviation(Tallies):
    """Of floating-point numbers, and of decimals beyond 64 bits as such."""

    def __init__(self, function: str, result: pa.DataType, arena: Arena):
        self._measure = MEASURES[function]
        self._result = result
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        self._tallies = GroupArray(np.int64, arena, (N_TALLIES,))
        self._parts = GroupArray(np.float64, arena, (running_deviations.N_BANDS, 2, FIRST_PARTS))
        self._results = GroupArray(np.float64, arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._reserve(runs.n_groups)
        given, numbers, out = runs.for_kernels(valid_flags(values)), doubles(values), runs.room_for_doubles()
        at = 0, 0
        while at[0] < len(runs.groups):
            state = self._tallies.array, self._parts.array, self._results.array
            at = running_deviations.deviate_doubles(at, given, numbers, *state, self._measure, out)
            if at[0] < len(runs.groups):
                self._parts.widen()
        return both(*out, self._result)

    def _arrays(self) -> tuple[GroupArray, ...]:
        return self._tallies, self._parts, self._results
