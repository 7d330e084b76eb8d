"""`[NOT] IN (SELECT …)` and `[NOT] EXISTS (SELECT …)`: looking for a row in a subquery.

What stands on the left is looked up as the right says:

    A.x IN (SELECT y FROM R)                                A.x in SELECT y FROM R
    EXISTS (SELECT 1 FROM R WHERE R.y = A.x AND R.z > 5)    A.x in SELECT R.y FROM R WHERE R.z > 5
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sash.errors import BindError, PlanError, Span
from sash.sql import duck
from sash.sql.aggregates import refuse_aggregates
from sash.sql.bound_query import Block, BoundQuery, MembershipCondition, Output
from sash.sql.comparisons import are_comparable, family_of
from sash.sql.correlation import find_correlation
from sash.sql.expressions import ScalarBinder, incompatible, span_of
from sash.sql.hashable import check_hashable
from sash.sql.outputs import is_aggregating
from sash.sql.parsed import ParsedQuery, ParsedSelect, refuse_statement_clauses
from sash.sql.read_query import read_query
from sash.sql.scope import Scope
from sash.sql.sets import cast, cast_outputs, common_types, compared_types, select_from
from sash.sql.sources import Context, bind_sources
from sash.sql.subqueries import strip_negations


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The SELECT in whose WHERE a subquery stands."""

    select: ParsedSelect
    scope: Scope
    scalars: ScalarBinder
    context: Context

    @property
    def text(self) -> str:
        return self.select.text


def bind_membership(condition: exp.Expr, around: Surroundings) -> MembershipCondition:
    """A conjunct of WHERE for which `is_membership` holds."""
    predicate, is_negated = strip_negations(condition)
    tree = predicate.args["query"] if isinstance(predicate, exp.In) else predicate.this
    query = read_query(tree, around.text, around.select.named)
    refuse_statement_clauses(query, "a subquery")
    if isinstance(predicate, exp.In):
        block, exprs = around.context.bind(query, around.context.subquery(around.select)), _operands(predicate)
        _check_columns(predicate, exprs, block, is_negated, around.text)
    else:
        block, exprs = _bind_exists(query, around)
    operands = [_bind_operand(expr, around) for expr in exprs]
    _check_comparable(operands, block, "{} IN (SELECT {})" if isinstance(predicate, exp.In) else "{} = {}", around.text)
    find_types = common_types if isinstance(predicate, exp.In) else compared_types
    types = find_types(operands, block.outputs, around.text)
    operands = [cast(side, type_) for side, type_ in zip(operands, types)]
    check_hashable(operands, "a lookup in a subquery", around.text)
    return MembershipCondition(
        block=cast_outputs(block, types),
        operands=tuple(operand.expr for operand in operands),
        is_negated=is_negated,
        is_null_aware=is_negated and isinstance(predicate, exp.In),
        span=span_of(condition) or Span(0, 0),
    )


def _operands(predicate: exp.In) -> list[exp.Expr]:
    operand = predicate.this.unnest()
    return operand.expressions if isinstance(operand, exp.Tuple) else [operand]


def _check_columns(predicate: exp.In, operands: list[exp.Expr], block: Block, is_negated: bool, text: str) -> None:
    if len(operands) != len(block.outputs):
        reason = f"`IN` compares {len(operands)} with {len(block.outputs)} columns; select as many as stand before it"
        raise BindError(reason, text, span_of(predicate))
    if is_negated and len(operands) > 1:
        reason = (
            "`NOT IN` with several columns cannot run in this version; use `NOT EXISTS` with an equality for each, "
            "which is the same unless a value is NULL"
        )
        raise PlanError(reason, text, span_of(predicate))


def _bind_operand(expr: exp.Expr, around: Surroundings) -> Output:
    refuse_aggregates(expr, around.text, "`WHERE`", "use `HAVING`, or aggregate in a subquery in `FROM`")
    resolved = around.scope.resolve(expr)
    scalar = around.scalars.bind(resolved)
    return Output(scalar.name, resolved, scalar.type, scalar.sql_type)


def can_compare(one: Output, other: Output, form: str) -> bool:
    """Whether DuckDB compares two values in this form, on whichever row."""
    families = (family_of(duck.type_named(side.sql_type)) for side in (one, other))
    values = (f"CAST(NULL AS {side.sql_type})" for side in (one, other))
    return are_comparable(*families) and duck.can_bind(form.format(*values))


def _check_comparable(operands: list[Output], block: Block, form: str, text: str) -> None:
    """BindError at what DuckDB does not compare in this form, or fails to on some row."""
    for operand, output in zip(operands, block.outputs):
        if not can_compare(operand, output, form):
            raise BindError(incompatible(operand.sql_type, output.sql_type, "compared"), text, span_of(operand.expr))


def _bind_exists(query: ParsedQuery, around: Surroundings) -> tuple[BoundQuery, list[exp.Expr]]:
    """The subquery of EXISTS with the inner sides of its correlated equalities as outputs, and their outer sides."""
    context = around.context.subquery(around.select)
    if not isinstance(query, ParsedSelect) or is_aggregating(query):
        return select_from(context.bind(query, context), ()), []
    query = replace(query, ranks=None)  # what is left of them makes no difference to whether there is a row
    inner = Scope(bind_sources(query, context.within(query, None)), query.text)
    _check_outputs(query, inner, around.scope)
    correlation = find_correlation(query, inner, around.scope)
    assert correlation.is_by_equality, "others have become joins"
    outputs = tuple(inner_side for inner_side, _ in correlation.pairs)
    block = context.bind(replace(correlation.query, outputs=outputs, is_distinct=False), context)
    assert isinstance(block, BoundQuery)
    return block, [outer_side for _, outer_side in correlation.pairs]


def _check_outputs(query: ParsedSelect, inner: Scope, outer: Scope) -> None:
    """What EXISTS selects does not matter, but its names must be there."""
    for column in (column for output in query.outputs for column in output.find_all(exp.Column)):
        if not isinstance(column.this, exp.Star) and not outer.has(column):
            inner.resolve(column)
