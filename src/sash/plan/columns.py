"""Names and types of columns and expressions while a plan is made."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from sash.operators.evaluator import run
from sash.sql.expressions import to_duckdb
from sash.sql.query import BoundQuery


def column_name(column: exp.Column) -> str:
    """The name under which a column travels between operators."""
    return f"{column.table}.{column.name}"


def columns_of(expr: exp.Expression) -> set[str]:
    """The columns that an expression reads."""
    return {column_name(column) for column in expr.find_all(exp.Column)}


def type_of(expr: exp.Expression, bound: BoundQuery) -> pa.DataType:
    """The type of an expression's values."""
    return run(f"SELECT {to_duckdb(expr)} AS value FROM batch", batch=_empty_row(bound)).schema.field("value").type


def common_type(left: exp.Expression, right: exp.Expression, bound: BoundQuery) -> str:
    """The DuckDB name of the type in which two expressions are compared."""
    sql = f"SELECT typeof(CASE WHEN TRUE THEN {to_duckdb(left)} ELSE {to_duckdb(right)} END) AS name FROM batch"
    return run(sql, batch=pa.table({name: pa.nulls(1, type) for name, type in _typed_columns(bound)}))["name"][0].as_py()


def _empty_row(bound: BoundQuery) -> pa.Table:
    return pa.schema(_typed_columns(bound)).empty_table()


def _typed_columns(bound: BoundQuery) -> list[tuple[str, pa.DataType]]:
    return [(f"{source.alias}.{field.name}", field.type) for source in bound.sources for field in source.info.schema]
