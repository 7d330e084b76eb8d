"""DuckDB as the authority on scalar SQL: what a type name means, what a constant is worth, what an expression gives."""

from __future__ import annotations

import atexit
import functools

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
"""A query text must not reach files, the network or Python variables of the caller."""


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(":memory:", config=CLOSED)
    # The setting comes with ICU, which is loaded too late for `config`. Global, so that every cursor has it.
    database.execute("SET GLOBAL TimeZone = 'UTC'").fetchall()
    return database


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of its own to DuckDB as Sash uses it: in UTC, closed to the outside. The caller closes it."""
    return _database().cursor()


def arrow_type(type_sql: str) -> pa.DataType:
    """The Arrow type of a DuckDB type name; `duckdb.Error` when DuckDB knows no such type."""
    with connect() as connection:
        relation = connection.sql(f"SELECT CAST(NULL AS {type_sql}) AS value")
        return relation.to_arrow_table().schema.field(0).type


@functools.lru_cache(maxsize=1024)
def type_named(type_sql: str) -> DuckDBPyType:
    """The type of this name; as a string it is DuckDB's own, full name of it. `duckdb.Error` when there is none."""
    with connect() as connection:
        return connection.sql(f"SELECT CAST(NULL AS {type_sql}) AS value").types[0]


@functools.lru_cache(maxsize=1024)
def type_of(arrow: pa.DataType) -> DuckDBPyType:
    """What DuckDB reads values of an Arrow type as."""
    with connect() as connection:
        connection.register("columns", pa.schema([("value", arrow)]).empty_table())
        return connection.sql("SELECT value FROM columns").types[0]


for _remembering in (type_named, type_of):
    atexit.register(_remembering.cache_clear)  # DuckDB complains of types that outlive it


@functools.lru_cache(maxsize=1024)
def can_bind(expr_sql: str) -> bool:
    """Whether DuckDB takes an expression over no columns."""
    with connect() as connection:
        try:
            connection.sql(f"SELECT {expr_sql}")
        except duckdb.BinderException:
            return False
        return True


def is_renamed(sql_type: str, arrow: pa.DataType) -> bool:
    """Whether DuckDB, which calls a type so, reads values that travel as this Arrow type as another one."""
    return sql_type != str(type_of(arrow))


def unreadable_column(schema: pa.Schema) -> pa.Field | None:
    """The first column whose type DuckDB cannot read, if there is one."""
    if _is_readable(schema):
        return None
    return next(field for field in schema if not _is_readable(pa.schema([field])))


@functools.lru_cache(maxsize=1024)
def _is_readable(schema: pa.Schema) -> bool:
    with connect() as connection:
        try:
            connection.register("columns", schema.empty_table())
        except (duckdb.Error, pa.ArrowNotImplementedError):
            return False
        return True


def is_timestamp(text: str) -> bool:
    """Whether a text reads like a timestamp."""
    with connect() as connection:
        return connection.execute("SELECT TRY_CAST(? AS TIMESTAMPTZ) IS NOT NULL", [text]).fetchall()[0][0]


def timestamp_us(literal: str) -> int:
    """A timestamp literal, by default in UTC, as microseconds since 1970; `duckdb.Error` when it is none."""
    with connect() as connection:
        return connection.execute("SELECT epoch_us(CAST(? AS TIMESTAMPTZ))", [literal]).fetchall()[0][0]
