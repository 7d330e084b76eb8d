"""Columns of frames as the types that were declared, if no value says anything else afterwards.

Arrow's own casts are stricter than Python and laxer than that: 1.239 would become the DECIMAL(5,2) 1.24, noon would
become a date, 5 would become true. So what was cast is cast back, and must be what it was. A FLOAT and a DOUBLE are the
nearest to a number, as they always are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sash.io.values import convert, sql_name

_DECIMAL_DIGITS = 38


def fit(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The column as the type of the field; ValueError with the reason if that would change what it says."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type == field.type:
        return column
    if _is_text(column.type) and sql_name(field.type) is not None:
        return _read(column.cast(pa.string()), field)
    if _is_number(column.type) and pa.types.is_temporal(field.type):
        raise ValueError("what a number counts is not known")
    if _is_number(column.type) and pa.types.is_boolean(field.type):
        raise ValueError("a number is neither true nor false")
    fitted = _cast(column, field.type)
    place = _first_change(column, fitted)
    if place is not None:
        raise ValueError(f"{column[place]} would become {fitted[place]}")
    return fitted


def _read(texts: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """As texts in files are read."""
    table, misfits = convert(pa.table([texts], names=[field.name]), pa.schema([field]))
    if misfits:
        raise ValueError(next(iter(misfits.values())).removeprefix(f"field `{field.name}`: "))
    return table.column(0)


def _cast(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and pa.types.is_integer(type):
        column = column.cast(pa.timestamp("us", column.type.tz))  # integers are microseconds, unless a unit was said
    if pa.types.is_integer(column.type) and pa.types.is_decimal128(type):
        column = column.cast(pa.decimal128(_DECIMAL_DIGITS, type.scale))  # Arrow asks for room for all integers
    return column.cast(type)


def _first_change(column: pa.ChunkedArray, fitted: pa.ChunkedArray) -> int | None:
    """The place of the first value that a cast has changed; Arrow itself refuses to change others than these."""
    if pa.types.is_floating(column.type) and pa.types.is_floating(fitted.type):
        changes = pc.and_not(pc.is_inf(fitted), pc.is_inf(column))
    elif (pa.types.is_floating(column.type) and _is_number(fitted.type)) or (
        pa.types.is_timestamp(column.type) and pa.types.is_temporal(fitted.type)
    ):
        changes = pc.not_equal(fitted.cast(column.type), column)
    else:
        return None
    place = pc.index(changes, True).as_py()
    return None if place < 0 else place


def _is_text(type: pa.DataType) -> bool:
    return pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)


def _is_number(type: pa.DataType) -> bool:
    return pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
