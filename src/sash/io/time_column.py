"""The time column of a stream: what it counts, and which rows have a time at all.

    declared                          the query sees
    TIMESTAMP, BIGINT                 what it is; a BIGINT counts microseconds
    an integer with a unit, a date    a TIMESTAMP

A row has no time if that is NULL, the least or the greatest of all 64-bit integers, which stand for "before" and "after
everything", or so far away that it cannot be counted in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.sql.catalog import StreamInfo
from sash.sql.declared_times import UNIT_NAMES, UNITS
from sash.store.batch import BEGINNING, NEVER

_FACTORS = {**{UNIT_NAMES[unit]: factor for unit, factor in UNITS.items()}, "days": 86_400_000_000}
TIMESTAMP = pa.timestamp("us")
_LIKELY = {"s": (1.0e9, 2.5e9), "ms": (1.0e12, 2.5e12), "ns": (1.0e18, 2.5e18)}
"""How integers look that count these units since 1970, at some time from 2001 to 2049."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Rows with their time column as the query sees it. What has no time is there too, with a reason each."""

    rows: pa.Table
    is_timed: np.ndarray | None
    """Which rows have a time; None if all have."""
    reasons: list[str]
    """Of each row that has none."""

    @property
    def good(self) -> pa.Table:
        return self.rows if self.is_timed is None else self.rows.filter(pa.array(self.is_timed))


def tell_times(rows: pa.Table, time: str, unit: str | None = None) -> Timed:
    """Rows whose time column `time` counts `unit`, or is what it is."""
    given = rows.column(time)
    column = _convert(given, unit)
    if column is not given:
        rows = rows.set_column(rows.schema.get_field_index(time), time, column)
    if _are_plain(column):
        return Timed(rows, None, [])
    has_none = _has_no_time(column)
    if not has_none.any():
        return Timed(rows, None, [])
    seen, name = _counts(given.filter(pa.array(has_none)), unit)
    return Timed(rows, ~has_none, [_reason(time, value, name) for value in seen.to_pylist()])


def time_type(type: pa.DataType, unit: str | None) -> pa.DataType:
    """The type of a time column as the query sees it."""
    return TIMESTAMP if unit is not None or pa.types.is_date(type) else type


def likely_unit(first: int, info: StreamInfo) -> str | None:
    """What the integers of a stream seem to count, judged by the first of them, if that is not microseconds."""
    if not pa.types.is_int64(info.schema.field(info.time).type):
        return None
    return next((unit for unit, (low, high) in _LIKELY.items() if low <= first <= high), None)


def suspicion(stream: str, first: int, unit: str) -> str:
    """What to tell of a stream whose integers seem to count a unit that was not declared."""
    return (
        f"the first time of stream `{stream}` is {first}, which looks like {UNIT_NAMES[unit]} since 1970 and is "
        f"taken for microseconds; say sash.stream(..., unit='{unit}'), or `UNIT {UNIT_NAMES[unit].upper()}` in a script"
    )


def _convert(column: pa.ChunkedArray, unit: str | None) -> pa.ChunkedArray:
    if unit is None and not pa.types.is_date(column.type):
        return column
    counts, name = _counts(column, unit)
    factor = _FACTORS[name]
    is_beyond = _is_outside(counts, 1 if factor is None else factor)
    counts = pc.if_else(is_beyond, pa.scalar(None, counts.type), counts).cast(pa.int64())
    values = counts.fill_null(0).to_numpy()
    us = values // 1000 if factor is None else values * factor
    is_missing = counts.is_null().to_numpy()
    return pa.chunked_array([pa.array(us, mask=is_missing if is_missing.any() else None).view(TIMESTAMP)])


def _counts(column: pa.ChunkedArray, unit: str | None) -> tuple[pa.ChunkedArray, str]:
    """A time column as integers, and the name of what they count."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32()).cast(pa.int64()), "days"
    if pa.types.is_date64(column.type):
        return column.cast(pa.int64()), UNIT_NAMES["ms"]
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()), UNIT_NAMES["us"]
    return column, UNIT_NAMES[unit or "us"]


def _is_outside(counts: pa.ChunkedArray, factor: int) -> pa.ChunkedArray:
    """Which of these cannot be counted in 64 bits, times a factor."""
    most = NEVER // factor
    if pa.types.is_uint64(counts.type):
        return pc.greater(counts, pa.scalar(most, pa.uint64()))
    counts = counts.cast(pa.int64())
    return pc.or_(pc.greater(counts, most), pc.less(counts, -most - (factor == 1)))


def _are_plain(column: pa.ChunkedArray) -> bool:
    """Whether all are times; seldom not, and found out without looking at each."""
    if column.null_count:
        return False
    ends = pc.min_max(column.cast(pa.int64()))
    return not len(column) or (ends["min"].as_py() > BEGINNING and ends["max"].as_py() < NEVER)


def _has_no_time(column: pa.ChunkedArray) -> np.ndarray:
    values = column.cast(pa.int64()).fill_null(BEGINNING).to_numpy()
    return (values == BEGINNING) | (values == NEVER)


def _reason(time: str, value: object, counted: str) -> str:
    if value is None:
        return f"`{time}` is NULL, but a row of a stream needs a time"
    if value in (BEGINNING, NEVER):
        which = "least" if value == BEGINNING else "greatest"
        return f"`{time}` is {value}, the {which} of all 64-bit integers, which is no time"
    return f"`{time}` is {value} {counted}, which is beyond all times"
