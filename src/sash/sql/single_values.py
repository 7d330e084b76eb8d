"""Subqueries that stand for a value: that they have at most one row, and what they are worth if they have none.

SELECT MAX(v) … WHERE R.k = A.k                   one row for each A.k; NULL where R has none
SELECT COUNT(*) + 1 … WHERE R.k = A.k             the same; 1 where R has none
SELECT v FROM R [PARTITION BY k ROWS 1] … R.k = A.k     the newest of A.k: there is but one
SELECT v FROM R WHERE R.k = A.k ORDER BY R.ts LIMIT 1    the first of A.k
SELECT name FROM products P WHERE P.code = A.code of a table: a second row for a code is an error
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import duckdb
from sqlglot import exp

from sash.errors import BindError, PlanError, Span
from sash.sql import duck
from sash.sql.aggregates import is_in_call
from sash.sql.calls import read_call
from sash.sql.correlation import Correlation, columns_in
from sash.sql.dialect import Sash
from sash.sql.expressions import span_of
from sash.sql.outputs import is_aggregating
from sash.sql.stars import star_of
from sash.sql.window_kinds import RowsWindow

_COUNTS = ("count", "count_distinct")


@dataclass(frozen=True, slots=True)
class SingleValue:
    """What to select in the place of the one column of a subquery, and by what to group."""

    expr: exp.Expr
    groups: tuple[exp.Expr, ...] | None
    of_nothing: exp.Expr | None = None
    """What it is worth where there is nothing to aggregate, if not NULL."""
    is_checked: bool = False
    """Whether it is up to the rows that there is but one."""


def as_value(
    correlation: Correlation, is_at_rest: bool, span: Span | None, text: str, is_first: bool = False
) -> SingleValue:
    """PlanError if a subquery may have several rows at an instant; `is_first` says that it has one for each key."""
    query = correlation.query
    if len(query.outputs) != 1 or star_of(query.outputs[0]) is not None:
        raise BindError("a subquery as a value has one column; name just that", text, span)
    expr = query.outputs[0].unalias()
    keys = tuple(inside for inside, _ in correlation.pairs)
    if is_aggregating(query):
        if not query.groups and not query.groups_all:
            return _aggregate(correlation, expr, keys, text)
        if query.groups and not query.groups_all and all(_is_among(group, keys) for group in query.groups):
            return SingleValue(_having(query.having, expr), keys)
    elif _has_one_row(correlation) or (is_first and not is_at_rest):
        return SingleValue(exp.Max(this=expr.copy()), keys or None)
    elif is_at_rest:
        return SingleValue(expr, None, is_checked=True)
    _refuse_many(text, span)


def _refuse_many(text: str, span: Span | None) -> NoReturn:
    reason = (
        "a subquery as a value may have but one row at any instant, and this one may have more; aggregate what it "
        "selects, as in `MAX(…)`, which is the same if there is only one"
    )
    raise PlanError(reason, text, span)


def _aggregate(correlation: Correlation, expr: exp.Expr, keys: tuple[exp.Expr, ...], text: str) -> SingleValue:
    """An aggregate over everything, or over all rows that are compared with the same."""
    query = correlation.query
    for part in (expr, query.having) if keys else ():
        for column in columns_in(part) if part is not None else ():
            if not is_in_call(column):
                reason = f"`{column.sql()}` is neither grouped nor aggregated in the subquery; use it outside of that"
                raise BindError(reason, text, span_of(column))
    value = _having(query.having, expr)
    return SingleValue(value, keys or None, _of_nothing(value) if keys else None)


def _having(condition: exp.Expr | None, expr: exp.Expr) -> exp.Expr:
    """NULL is what a row is worth that HAVING leaves out."""
    if condition is None:
        return expr.copy()
    return exp.Case().when(condition.copy(), expr.copy())


def _of_nothing(expr: exp.Expr) -> exp.Expr | None:
    """What an expression of aggregates is over no rows; None if it is NULL."""
    constant = expr.transform(_nothing)
    sql = exp.Is(this=exp.Paren(this=constant.copy()), expression=exp.Null())
    with duck.connect() as connection:
        try:
            is_null = connection.execute(f"SELECT {sql.sql(dialect=Sash, normalize_functions=False)}").fetchall()[0][0]
        except duckdb.Error:
            return constant  # whoever binds it says what is wrong with it
    return None if is_null else exp.Paren(this=constant)


def _nothing(node: exp.Expr) -> exp.Expr:
    call = read_call(node)
    if call is None:
        return node
    return exp.Literal.number(0) if call.function in _COUNTS else exp.Null()


def _is_among(group: exp.Expr, keys: tuple[exp.Expr, ...]) -> bool:
    return any(group.unnest().sql().lower() == key.unnest().sql().lower() for key in keys)


def _has_one_row(correlation: Correlation) -> bool:
    """Whether a window lets one row through, or one for each value of columns that are compared with the outside."""
    query = correlation.query
    if len(query.sources) != 1 or query.sources[0].window is None:
        return False
    clause = query.sources[0].window
    compared = {key.name.lower() for key, _ in correlation.pairs if isinstance(key, exp.Column)}
    if not isinstance(clause.window, RowsWindow) or clause.window.n_rows != 1 or not correlation.is_by_equality:
        return False
    return {name.name.lower() for name in clause.partition_by} <= compared
