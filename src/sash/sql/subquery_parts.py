"""What subqueries in expressions are taken apart into: their columns, what they are compared with, and their groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql.correlation import Correlation
from sash.sql.expressions import span_of
from sash.sql.outputs import is_aggregating
from sash.sql.parsed import ParsedQuery, ParsedSelect
from sash.sql.read_query import read_query
from sash.sql.stars import star_of
from sash.sql.table_queries import to_tree

VALUE = "value"
"""What the column of a subquery is called that holds what it is worth."""


def is_made_of_rows(select: ParsedSelect) -> bool:
    """Whether what a SELECT shows follows from several rows: of groups, or by functions OVER rows."""
    return is_aggregating(select) or any(output.find(exp.Window) for output in select.outputs)


def as_select(query: ParsedQuery) -> ParsedSelect:
    """A query that is no plain SELECT, or shows its first rows alone, as one of all its columns."""
    inner = to_tree(query)
    names = [exp.to_identifier(f"{VALUE}{place}", quoted=True) for place in range(len(inner.selects))]
    if isinstance(query, ParsedSelect) and not is_made_of_rows(query) and query.ranks is None:
        return query
    alias = exp.TableAlias(this=exp.to_identifier("rows", quoted=True), columns=names)
    item = exp.Subquery(this=inner, alias=alias)
    tree = exp.Select(expressions=[exp.Column(this=name.copy()) for name in names], from_=exp.From(this=item))
    select = read_query(tree, query.text, query.named)
    assert isinstance(select, ParsedSelect)
    return replace(select, spans=query.spans)


def selected(query: ParsedSelect, predicate: exp.In, text: str) -> tuple[exp.Expr, ...]:
    """The columns that IN compares with, as many as stand before it."""
    operands = operands_of(predicate)
    if any(star_of(output) for output in query.outputs):
        raise PlanError("`IN` compares with a column; name it in place of `*`", text, span_of(predicate))
    if len(operands) != len(query.outputs):
        reason = f"`IN` compares {len(operands)} with {len(query.outputs)} columns; select as many as stand before it"
        raise BindError(reason, text, span_of(predicate))
    return tuple(output.unalias() for output in query.outputs)


def operands_of(predicate: exp.Expr) -> list[exp.Expr]:
    if not isinstance(predicate, exp.In):
        return []
    operand = predicate.this.unnest()
    return operand.expressions if isinstance(operand, exp.Tuple) else [predicate.this]


def single_operand(predicate: exp.In, text: str) -> list[exp.Expr]:
    operands = operands_of(predicate)
    if len(operands) > 1:
        reason = (
            "`IN` with several columns can stand only in `WHERE`, by itself or with AND; use `EXISTS` with an equality "
            "for each, which unlike `IN` is never NULL"
        )
        raise PlanError(reason, text, span_of(predicate))
    return operands


def grouped(query: ParsedSelect, flags: Sequence[exp.Expr], correlation: Correlation) -> ParsedSelect:
    """Aggregates of a subquery, by what it compares with the outside."""
    keys = tuple(inside for inside, _ in correlation.pairs)
    return replace(query, outputs=(*query.outputs, *flags), groups=keys or None, is_distinct=False)


def bool_or(condition: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="bool_or", expressions=[condition])
