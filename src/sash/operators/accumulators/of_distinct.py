"""Aggregates of DISTINCT values: of equal values in a group, the aggregate hears of one.

It hears of a value when the first of its kind enters, and again when the last one leaves.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.value_counts import find_first_and_last
from sash.operators.accumulators.aggregate_runs import Accumulator, AggregateRuns
from sash.operators.accumulators.in_order import InOrder
from sash.operators.accumulators.members import Members
from sash.store.vector import Arena


class OfDistinct(InOrder):
    """An accumulator over the different values of a group; NULL is none of them."""

    def __init__(self, accumulator: Accumulator, type: pa.DataType, arena: Arena):
        self._accumulator = accumulator
        super().__init__(Members(type, False, arena), 0, arena)

    def reset(self, arena: Arena) -> None:
        super().reset(arena)
        self._accumulator.reset(arena)

    def apply(self, runs: AggregateRuns, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        self._forget_members()
        members, valid = self._members.encode(runs, values)
        self._reserve(runs.n_groups, len(members))
        passes = np.zeros(len(members), np.bool_)
        treaps = self._ordered.treaps(self._members.words)
        find_first_and_last(runs.for_kernels(valid), members, treaps, passes)
        return self._accumulator.apply(runs.only(passes), values.filter(pa.array(passes)))

    def compact(self, mapping: np.ndarray) -> None:
        super().compact(mapping)
        self._accumulator.compact(mapping)
