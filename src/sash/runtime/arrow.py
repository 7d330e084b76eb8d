"""Frames of several kinds as Arrow tables, in types that every engine shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import pyarrow as pa

from sash.errors import BindError, SourceError
from sash.runtime.python_rows import table_of_rows


def to_arrow(frame: Any, name: str, schema: pa.Schema | None = None) -> pa.Table:
    """An Arrow, pandas or Polars frame as an Arrow table; a schema as one without rows.

    Also a list of dictionaries, one for each row. A value that a row lacks is NULL, if others have it. `schema` says
    what values are that do not say it themselves.
    """
    if isinstance(frame, pa.Schema):
        return frame.empty_table()
    try:
        table = _to_arrow(frame, name, schema)
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's errors are such, too
        raise SourceError(f"`{name}` cannot be read as a table: {error}; give each column values of one type") from None
    _refuse_twins(table.column_names, name)
    return table


def _to_arrow(frame: Any, name: str, schema: pa.Schema | None) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    module = type(frame).__module__.split(".")[0]
    if module == "pandas" and type(frame).__name__ == "DataFrame":
        _refuse_twins(frame.columns, name)
        return pa.Table.from_pandas(_with_index(frame, schema), preserve_index=False)
    if module == "polars" and type(frame).__name__ in ("DataFrame", "LazyFrame"):
        frame = frame.collect() if type(frame).__name__ == "LazyFrame" else frame
        return frame.to_arrow()
    if isinstance(frame, Mapping):
        raise SourceError(
            f"`{name}` is one dictionary; give a list with a dictionary for each row, or a table of columns"
        )
    if _is_list(frame):
        return table_of_rows(frame, name, schema)
    raise BindError(
        f"`{name}` is a {type(frame).__module__}.{type(frame).__qualname__}; "
        "pass an Arrow, pandas, Polars or Spark frame, or a list of dictionaries"
    )


def _with_index(frame: Any, schema: pa.Schema | None) -> Any:
    """A pandas frame with the columns that are its index by name, as `df.set_index("ts")` makes it."""
    names = list(frame.index.names)
    is_named = all(isinstance(name, str) and name not in frame.columns for name in names)
    if not is_named or frame.columns.nlevels > 1 or (schema is not None and not set(names) <= set(schema.names)):
        return frame
    return frame.reset_index()


def _is_list(frame: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(frame, Sequence) and not isinstance(frame, str | bytes)


def _refuse_twins(columns: Iterable[Any], name: str) -> None:
    for column, n_times in Counter(columns).items():
        if n_times > 1:
            raise SourceError(f"`{name}` has {n_times} columns called `{column}`; rename all but one")


def normalised(table: pa.Table) -> pa.Table:
    """The table in types that every engine shares: timestamps in microseconds, plain strings, no dictionaries."""
    fields = [pa.field(field.name, _shared_type(field.type)) for field in table.schema]
    try:
        return table.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise SourceError(f"a value does not fit into microseconds or a shared type: {error}") from None


def _shared_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", tz=None if type.tz is None else "UTC")
    if pa.types.is_dictionary(type):
        return _shared_type(type.value_type)
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_large_binary(type) or pa.types.is_binary_view(type) or pa.types.is_fixed_size_binary(type):
        return pa.binary()
    return type
