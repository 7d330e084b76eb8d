"""Rows as whoever pushes them has them, as rows of a stream as they were declared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sash.errors import SourceError
from sash.io.fitting import fit
from sash.io.time_column import Timed, tell_times
from sash.runtime.arrow import to_arrow
from sash.sql.catalog import StreamInfo


def read_rows(rows: Any, info: StreamInfo, stream: str) -> pa.Table:
    """An Arrow, pandas or Polars frame or a list of dictionaries as a table, with all its columns."""
    return to_arrow(rows, stream, _incoming_schema(info))


def tell_rows(arrived: pa.Table, info: StreamInfo, stream: str) -> Timed:
    """The declared columns in their types, and which of the rows have a time."""
    table = _select(arrived, info, stream)
    if info.unit is None or pa.types.is_timestamp(table.schema.field(info.time).type):
        return tell_times(_conform(table, info.schema, stream), info.time)
    return tell_times(_conform(table, _incoming_schema(info), stream), info.time, info.unit)


def _select(table: pa.Table, info: StreamInfo, stream: str) -> pa.Table:
    missing = [name for name in info.schema.names if name not in table.column_names]
    if missing:
        raise SourceError(
            f"a batch of `{stream}` lacks the column `{missing[0]}`; it has {', '.join(table.column_names)}"
        )
    return table.select(info.schema.names)


def _incoming_schema(info: StreamInfo) -> pa.Schema:
    """Of rows as they come in: what counts a unit is an integer."""
    place = info.schema.get_field_index(info.time)
    return info.schema if info.unit is None else info.schema.set(place, pa.field(info.time, pa.int64()))


def _conform(table: pa.Table, schema: pa.Schema, stream: str) -> pa.Table:
    columns = [_fit(table.column(field.name), field, stream) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema).combine_chunks()


def _fit(column: pa.ChunkedArray, field: pa.Field, stream: str) -> pa.ChunkedArray:
    try:
        return fit(column, field)
    except (ValueError, NotImplementedError) as error:  # Arrow's errors are such, too
        remedy = "convert it before you push it"
        if pa.types.is_integer(column.type) and pa.types.is_timestamp(field.type):
            remedy += ", or declare it an integer, with a unit as in sash.stream(..., unit='s')"
        raise SourceError(
            f"column `{field.name}` of a batch of `{stream}` is {column.type} and was declared {field.type}, which "
            f"does not fit: {error}; {remedy}"
        ) from None
