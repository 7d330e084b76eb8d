"""Conversions to types in DuckDB's own words, and columns that DuckDB has to be told the type of.

Between operators a column is an Arrow array, and Arrow has no name for some of DuckDB's types: a HUGEINT travels as a
DECIMAL(38,0), a UUID as a string. Read from such a column, a value would be of the type that it travels in, and would
for example make another common type with a DECIMAL than a HUGEINT does. So it is read as what it is:

    SELECT s + 0.5 FROM (SELECT SUM(k) AS s …)        CAST("q.s" AS HUGEINT) + 0.5
"""

from __future__ import annotations

from sqlglot import exp


class Read(exp.Cast):
    """A column, read as the type that it has in the query. Its value is the column's, only its type is told."""


def cast_to(expr: exp.Expr, type_sql: str) -> exp.Cast:
    """The expression converted to a type, by DuckDB's full name of it.

    sqlglot's own `cast` does nothing where the names of types agree, whatever their digits or elements are.
    """
    return exp.Cast(this=expr.copy(), to=_data_type(type_sql))


def read_as(column: exp.Column, type_sql: str) -> Read:
    return Read(this=column, to=_data_type(type_sql))


def without_read(expr: exp.Expr) -> exp.Expr:
    """The expression, or the column behind it if it does no more than read one as what it is."""
    inner = expr.unnest()
    return inner.this if isinstance(inner, Read) else expr


def _data_type(type_sql: str) -> exp.DataType:
    """A type that is written as it stands, as sqlglot knows fewer types than DuckDB."""
    return exp.DataType(this=exp.DType.USERDEFINED, kind=type_sql)
