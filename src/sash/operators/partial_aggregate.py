"""The part of a global aggregate that every partition group computes for itself: what each instant adds to the sums.

    Law:  the rows up to T add up to COUNT and SUM of the tuples in the group's windows at T.

    in     5 [1, 4)   7 [1, 4)   2 [3, 6)             out    at 1: n +2, sum +12    at 3: +1, +2    at 4: -2, -12

However many tuples come or go at an instant, one row leaves the group. A running aggregate over the rows of all groups
is the answer. State: the arguments of the tuples in the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators.accumulators.argument_columns import integer_words, is_integral
from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, NEVER, OP, SIGNED_FIELDS, TS
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory

ROWS = "_part.rows"
LOW = np.int64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class PartialAggregateSpec:
    """`arguments` are columns of integers or of decimals of up to 18 digits.

    Of each, how many values are not NULL is counted in `count_name`, and their sum in `sum_name`; `ROWS` counts tuples.
    """

    arguments: tuple[str, ...]
    window_us: int | None
    expires_by_negatives: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """What its rows hold."""
        return (ROWS, *(name for each in self.arguments for name in (count_name(each), sum_name(each))))


def count_name(argument: str) -> str:
    return f"_part.count{argument}"


def sum_name(argument: str) -> str:
    return f"_part.sum{argument}"


def can_add_up(type: pa.DataType) -> bool:
    """Whether sums of values of this type can be put together from parts without rounding."""
    return is_integral(type) and not pa.types.is_uint64(type) and not pa.types.is_boolean(type)


class PartialAggregate(Traced):
    """Runs a `PartialAggregateSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace",)

    def __init__(self, spec: PartialAggregateSpec, input: pa.Schema):
        self.spec = spec
        self._input = pa.schema([*(input.field(name) for name in spec.arguments), *SIGNED_FIELDS])
        fields = [pa.field(ROWS, pa.int64())]
        for name in spec.arguments:
            type = input.field(name).type
            assert can_add_up(type)
            scale = type.scale if pa.types.is_decimal(type) else 0
            fields += [pa.field(count_name(name), pa.int64()), pa.field(sum_name(name), pa.decimal128(38, scale))]
        self.schema = pa.schema([*fields, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._trace = Trace(self._input, self.spec.window_us, self.spec.expires_by_negatives, arena)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        tuples = batch.select(self._input.names)
        events = self._trace.step(tuples, _no_keys(tuples), clock)
        changes = self._add_up(events) if len(events) else self.schema.empty_table()
        self._trace.evict()
        return changes

    def traces(self) -> dict[str, Trace]:
        return {"window": self._trace}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._trace.restore(entries["window"], registers["window"], registers["clock"], _no_keys)

    def _add_up(self, events: Events) -> pa.Table:
        """What each instant adds; an instant that adds nothing has no row."""
        starts, signs = events.starts[:-1], events.signs.astype(np.int64)
        n_rows = np.add.reduceat(signs, starts)
        adds, columns = n_rows != 0, {ROWS: pa.array(n_rows)}
        for name in self.spec.arguments:
            values = events.column(name)
            weights = signs * values.is_valid().to_numpy(zero_copy_only=False)
            counts, words = np.add.reduceat(weights, starts), _sums(values, weights, starts)
            adds |= (counts != 0) | words.any(axis=1)
            type = self.schema.field(sum_name(name)).type
            columns[count_name(name)] = pa.array(counts)
            columns[sum_name(name)] = pa.Array.from_buffers(type, len(words), [None, pa.py_buffer(words)])
        columns |= {TS: pa.array(events.run_times), EXPIRES: pa.array(np.full(len(starts), NEVER))}
        columns[OP] = pa.array(np.ones(len(starts), np.int8))
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema).filter(pa.array(adds))


def _no_keys(tuples: pa.Table) -> np.ndarray:
    return np.zeros(tuples.num_rows, np.int64)


def _sums(values: pa.Array, weights: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of weighted values, by run, as 128-bit words: the upper and the lower half of values are added apart."""
    whole = integer_words(values)[0].view(np.int64)
    high = np.add.reduceat((whole >> 32) * weights, starts)
    low = np.add.reduceat((whole & LOW) * weights, starts)
    high += low >> 32
    words = np.empty((len(starts), 2), np.int64)
    words[:, 0] = (high << 32) | (low & LOW)
    words[:, 1] = high >> 32
    return words
