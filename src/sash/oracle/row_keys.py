"""Keys by which rows and values compare, and the total order of a stream's rows that follows from them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, cast

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

    The same value has the same key, also where it does not equal itself, as NaN does not. Lists, and the entries of
    maps, go by their values; so do structs, and they keep the names of their fields.
    """
    if value is None:
        return (0,)
    if isinstance(value, float):
        (bits,) = struct.unpack(">q", struct.pack(">d", value))
        return (1, bits if bits >= 0 else bits ^ NEVER, repr(value))
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return (1, row_key(fields.values()), tuple(fields))
    if type(value) is tuple:
        return (1, row_key(value), None)
    return (1, row_key(value)) if isinstance(value, list) else (1, value)


def value_of(key: tuple) -> Any:
    """The value that a `value_key` was made of."""
    if not key[0]:
        return None
    if is_float_key(key):
        return float(key[2])
    if not is_nested_key(key):
        return key[1]
    values = list(map(value_of, key[1]))
    if len(key) == 2:
        return values
    return tuple(values) if key[2] is None else dict(zip(key[2], values))


def is_nested_key(key: tuple) -> bool:
    """Whether a `value_key` is that of a list, a struct or an entry of a map: `key[1]` has the keys of its values."""
    return len(key) > 1 and type(key[1]) is tuple


def is_float_key(key: tuple) -> bool:
    """Whether a `value_key` is that of a float; beside structs, only those tell how they are written."""
    return len(key) == 3 and not is_nested_key(key)


def _one_of_equals(value: Any) -> Any:
    return math.nan if isinstance(value, float) and math.isnan(value) else positive_zero(value)


def positive_zero(value: Any) -> Any:
    """Zeros of either sign are equal, so they are in one partition; also those within lists, maps and structs."""
    if isinstance(value, dict):
        return {name: positive_zero(each) for name, each in cast(dict[str, Any], value).items()}
    if type(value) in (list, tuple):
        return type(value)(map(positive_zero, value))
    return value + 0.0 if isinstance(value, float) else value
