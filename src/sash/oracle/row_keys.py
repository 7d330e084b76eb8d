"""Keys by which rows and values compare, and the total order of a stream's rows that follows from them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sash.store.batch import NEVER


def total_order(table: pa.Table, ts: Sequence[int], tie: tuple[str, ...]) -> list[int]:
    """Row numbers in the stream's total order: by time, tie-breakers, then content; arrival never counts.

    Zeros of either sign are equal there, and so are all NaN; rows that are equal in all columns go by their bits.
    """
    columns = [column.to_pylist() for column in table.select([*tie, *table.column_names]).columns]
    content = [row_key(list(map(_one_of_equals, row))) for row in zip(*columns)]
    bits = row_keys(table)
    return sorted(range(len(ts)), key=lambda number: (ts[number], content[number], bits[number]))


def row_keys(table: pa.Table) -> list[tuple]:
    """The key of every row; see `value_key`."""
    columns = [column.to_pylist() for column in table.columns]
    return [row_key(row) for row in zip(*columns)] if columns else [()] * table.num_rows


def row_key(values: Iterable[Any]) -> tuple:
    return tuple(map(value_key, values))


def value_key(value: Any) -> tuple:
    """A key by which values of a column compare: NULL first, floats by their bits, so that -0.0 comes before 0.0.

    The same value has the same key, also where it does not equal itself, as NaN does not.
    """
    if value is None:
        return (0,)
    if isinstance(value, float):
        (bits,) = struct.unpack(">q", struct.pack(">d", value))
        return (1, bits if bits >= 0 else bits ^ NEVER, repr(value))
    return (1, tuple(map(value_key, value))) if isinstance(value, list) else (1, value)


def value_of(key: tuple) -> Any:
    """The value that a `value_key` was made of."""
    if not key[0]:
        return None
    if isinstance(key[1], tuple):
        return list(map(value_of, key[1]))
    return key[1] if len(key) == 2 else float(key[2])


def _one_of_equals(value: Any) -> Any:
    return math.nan if isinstance(value, float) and math.isnan(value) else positive_zero(value)


def positive_zero(value: Any) -> Any:
    """Zeros of either sign are equal, so they are in one partition."""
    return value + 0.0 if isinstance(value, float) else value
