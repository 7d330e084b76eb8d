"""Names and types of columns and expressions while a plan is made."""

from __future__ import annotations

from functools import lru_cache

import duckdb
import pyarrow as pa
from sqlglot import exp

from sash.operators.evaluator import run
from sash.plan.logical import Select
from sash.sql.bound_query import BoundQuery
from sash.sql.catalog import StreamInfo
from sash.sql.expressions import to_duckdb
from sash.store.batch import EXPIRES, ID_PREFIX

ROW_ID, EXPIRY_ID = f"{ID_PREFIX}_row", f"{ID_PREFIX}{EXPIRES}"
"""What tells the rows of an operator apart that makes rows of its own: a number, and when a row expires."""


def column_name(column: exp.Column) -> str:
    """The name under which a column travels between operators."""
    return f"{column.table}.{column.name}"


def columns_of(expr: exp.Expr) -> set[str]:
    """The columns that an expression reads."""
    return {column_name(column) for column in expr.find_all(exp.Column)}


def times_of(query: Select) -> list[exp.Column]:
    """The time columns that FIRST and the like order rows by, if a SELECT asks for one."""
    if not any(aggregate.is_timed for aggregate in query.bound.aggregates):
        return []
    sources = [source for source in query.bound.sources if isinstance(source.info, StreamInfo)]
    return [exp.column(source.info.time, source.alias, quoted=True) for source in sources]  # type: ignore[union-attr]


def type_of(expr: exp.Expr, bound: BoundQuery) -> pa.DataType:
    """The type of an expression's values."""
    return _type_of(to_duckdb(expr), pa.schema(_typed_columns(bound)))


def sql_type_of(expr: exp.Expr, bound: BoundQuery) -> str:
    """The same in DuckDB's words, which tell more types apart."""
    return _named_type(f"SELECT typeof({to_duckdb(expr)}) AS name FROM batch", pa.schema(_typed_columns(bound))) or ""


def common_type(left: exp.Expr, right: exp.Expr, bound: BoundQuery) -> str | None:
    """The DuckDB name of a type that holds the values of both expressions, if there is one."""
    sql = f"SELECT typeof(CASE WHEN TRUE THEN {to_duckdb(left)} ELSE {to_duckdb(right)} END) AS name FROM batch"
    return _named_type(sql, pa.schema(_typed_columns(bound)))


@lru_cache(maxsize=1024)
def _type_of(sql: str, columns: pa.Schema) -> pa.DataType:
    """Kept, because the same expression is asked about by several rules, and by queries that have it in common."""
    return run(f"SELECT {sql} AS value FROM batch", batch=columns.empty_table()).schema.field("value").type


@lru_cache(maxsize=1024)
def _named_type(sql: str, columns: pa.Schema) -> str | None:
    row = pa.table({field.name: pa.nulls(1, field.type) for field in columns})
    try:
        return run(sql, batch=row)["name"][0].as_py()
    except duckdb.BinderException:
        return None  # DuckDB compares, say, a boolean with a double, but has no type for either


def _typed_columns(bound: BoundQuery) -> list[tuple[str, pa.DataType]]:
    return [(f"{source.alias}.{field.name}", field.type) for source in bound.sources for field in source.schema]
