"""Rows as dictionaries of Python values, as Arrow tables that say exactly the same.

The values say of which type a column is. Arrow would read them as a declared type, too, but not exactly: 1.5 as the
integer 1, noon as a date. So a declared type counts only where the values say none, or where each comes back from it
as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from sash.errors import SourceError


def table_of_rows(rows: Sequence[Any], name: str, schema: pa.Schema | None = None) -> pa.Table:
    """One dictionary for each row, in order; a key that a row lacks is NULL."""
    if not rows:
        return schema.empty_table() if schema else pa.table({})
    types = {field.name: field.type for field in schema or ()}
    columns: dict[str, pa.Array] = {}
    for key in _column_names(rows, name):
        try:
            columns[key] = _read([row.get(key) for row in rows], types.get(key))
        except ValueError as error:
            raise SourceError(f"column `{key}` of `{name}` cannot be read: {error}") from None
    return pa.table(columns)


def _column_names(rows: Sequence[Any], name: str) -> Iterable[str]:
    """The keys of all rows, each once; raises SourceError if one is no dictionary, or has keys that name no column."""
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not _is_dictionary(row):
            raise SourceError(f"row {number} of `{name}` is a {type(row).__qualname__}; give a dictionary for each row")
        for key in row:
            if not isinstance(key, str):
                raise SourceError(f"row {number} of `{name}` has the key {key!r}; name columns by texts")
            names[key] = None
    return names


def _is_dictionary(row: Any) -> TypeGuard[Mapping[object, Any]]:
    return isinstance(row, Mapping)


def _read(values: list[Any], type: pa.DataType | None) -> pa.Array:
    values = _with_midnights([_plain(value) for value in values])
    if all(value is None for value in values):
        return pa.nulls(len(values), type or pa.null())
    if type is not None and pa.types.is_nested(type):
        # What is inside of dictionaries and lists may be of several types, or not tell which.
        found = _read_as(values, type)
        if found is not None:
            return found
    try:
        return pa.array(values)
    except (ValueError, TypeError, OverflowError) as error:
        found = None if type is None else _read_as(values, type)
        if found is not None:
            return found
        raise ValueError(_misfit(values, error)) from None


def _read_as(values: list[Any], type: pa.DataType) -> pa.Array | None:
    """None unless all come back as they were."""
    try:
        found = pa.array(values, type)
        return found if found.to_pylist() == values else None
    except (ValueError, TypeError, OverflowError, NotImplementedError):
        return None


def _plain(value: Any) -> Any:
    """A value of NumPy or pandas as Python's, where Arrow would change it or does not take it."""
    if type(value).__module__.startswith("pandas.") and type(value).__name__ in ("NaTType", "NAType"):
        return None
    if _is_numpy_time(value):
        return None if np.isnat(value) else _plain_numpy(value)
    # pandas' timestamps and lengths are Python's, with something behind the microseconds.
    if (isinstance(value, datetime) and getattr(value, "nanosecond", 0)) or (
        isinstance(value, timedelta) and getattr(value, "nanoseconds", 0)
    ):
        raise ValueError(f"{value} is finer than microseconds, which is all that is kept; round it")
    return value


def _is_numpy_time(value: Any) -> TypeGuard[np.datetime64 | np.timedelta64]:
    return isinstance(value, np.datetime64 | np.timedelta64)


def _plain_numpy(value: np.datetime64 | np.timedelta64) -> Any:
    """As of Python, if that has such a thing; of dates and of lengths in days there are others than in microseconds."""
    plain = value.item()
    if isinstance(plain, date | timedelta):
        return plain
    kind = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
    if np.datetime_data(value.dtype)[0] == "generic" or value.astype(kind).astype(value.dtype) != value:
        raise ValueError(f"{value!r} cannot be said in whole microseconds; round it, or give another")
    plain = value.astype(kind).item()
    if not isinstance(plain, date | timedelta):
        raise ValueError(f"{value!r} is beyond the years 1 to 9999; give another, or push an Arrow table")
    return plain


def _with_midnights(values: list[Any]) -> list[Any]:
    """Where dates stand among instants, a date is its midnight."""
    if not any(isinstance(value, datetime) for value in values):
        return values
    return [datetime.combine(value, time()) if _is_date(value) else value for value in values]


def _is_date(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _misfit(values: list[Any], error: Exception) -> str:
    for value in values:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"{value} does not fit into 64 bits; declare it DECIMAL(38, 0), or give a number that fits"
    return f"{error}; give it values of one type, or None for NULL"
