"""Names and types of columns and expressions while a plan is made."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from sqlglot import exp

from sash.operators.evaluator import run
from sash.plan.logical import Query
from sash.sql.expressions import to_duckdb
from sash.sql.query import BoundQuery, StreamInfo


def column_name(column: exp.Column) -> str:
    """The name under which a column travels between operators."""
    return f"{column.table}.{column.name}"


def columns_of(expr: exp.Expr) -> set[str]:
    """The columns that an expression reads."""
    return {column_name(column) for column in expr.find_all(exp.Column)}


def times_of(query: Query) -> list[exp.Column]:
    """The time columns that FIRST and LAST order rows by, if a SELECT asks for either."""
    if not any(aggregate.function in ("first", "last") for aggregate in query.bound.aggregates):
        return []
    sources = [source for source in query.bound.sources if isinstance(source.info, StreamInfo)]
    return [exp.column(source.info.time, source.alias, quoted=True) for source in sources]  # type: ignore[union-attr]


def type_of(expr: exp.Expr, bound: BoundQuery) -> pa.DataType:
    """The type of an expression's values."""
    return run(f"SELECT {to_duckdb(expr)} AS value FROM batch", batch=_empty_row(bound)).schema.field("value").type


def common_type(left: exp.Expr, right: exp.Expr, bound: BoundQuery) -> str | None:
    """The DuckDB name of a type that holds the values of both expressions, if there is one."""
    sql = f"SELECT typeof(CASE WHEN TRUE THEN {to_duckdb(left)} ELSE {to_duckdb(right)} END) AS name FROM batch"
    row = pa.table({name: pa.nulls(1, type) for name, type in _typed_columns(bound)})
    try:
        return run(sql, batch=row)["name"][0].as_py()
    except duckdb.BinderException:
        return None  # DuckDB compares, say, a boolean with a double, but has no type for either


def _empty_row(bound: BoundQuery) -> pa.Table:
    return pa.schema(_typed_columns(bound)).empty_table()


def _typed_columns(bound: BoundQuery) -> list[tuple[str, pa.DataType]]:
    return [(f"{source.alias}.{field.name}", field.type) for source in bound.sources for field in source.info.schema]
