"""The columns of a declaration, by name, and whether they can tell time."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, suggest
from sash.sql.expressions import span_of


def declared_name(column: exp.Identifier, schema: pa.Schema, text: str) -> str:
    """The name of a column as it was declared; BindError if there is none of that name."""
    for name in schema.names:
        if name.lower() == column.name.lower():
            return name
    raise BindError(f"there is no column `{column.name}`; {suggest(column.name, schema.names)}", text, span_of(column))


def check_is_time(column: exp.Identifier, field: pa.Field, unit: str | None, text: str) -> None:
    """BindError unless a column can tell time: as it stands, or counting units."""
    if unit is not None:
        if not pa.types.is_integer(field.type):
            reason = f"`UNIT` is for integers, and `{field.name}` is {field.type}; leave it out, or declare it BIGINT"
            raise BindError(reason, text, span_of(column))
    elif not any(test(field.type) for test in (pa.types.is_timestamp, pa.types.is_date, pa.types.is_int64)):
        reason = f"`{field.name}` is no time but {field.type}; declare it TIMESTAMP, DATE or, in microseconds, BIGINT"
        raise BindError(reason, text, span_of(column))
