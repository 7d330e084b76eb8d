"""Subqueries in expressions: which run, and what to do instead of the others."""

from __future__ import annotations

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.expressions import span_of


def is_membership(condition: exp.Expr) -> bool:
    """Whether a conjunct of WHERE is `[NOT] IN (SELECT …)` or `[NOT] EXISTS (SELECT …)`."""
    return is_predicate(strip_negations(condition)[0])


def strip_negations(condition: exp.Expr) -> tuple[exp.Expr, bool]:
    """A condition without the NOTs and brackets around it, and whether they turn it round."""
    is_negated = False
    while isinstance(condition, (exp.Not, exp.Paren)):
        is_negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    return condition, is_negated


def refuse_subqueries(expr: exp.Expr, text: str) -> None:
    """Refuse the subqueries of an expression; those of conjuncts that are memberships never get here."""
    query = expr.find(exp.Query)
    if query is None:
        return
    node: exp.Expr = query
    while isinstance(node.parent, exp.Subquery):
        node = node.parent
    parent = node.parent
    if parent is not None and is_predicate(parent):
        name = "EXISTS" if isinstance(parent, exp.Exists) else "IN"
        remedy = "`LEFT JOIN` its distinct rows in `FROM`, and ask whether they are there"
        raise PlanError(f"`{name}` with a subquery cannot stand here; {remedy}", text, span_of(parent))
    refuse_quantified(parent or node, text)
    reason = "a subquery as a value cannot stand here; select it under a name in a subquery in `FROM`, and use that"
    raise PlanError(reason, text, span_of(node))


def refuse_quantified(node: exp.Expr, text: str) -> None:
    """Refuse ANY and ALL of a subquery."""
    if isinstance(node, (exp.Any, exp.All)) and isinstance(node.this, exp.Query):
        reason = (
            "`ANY` and `ALL` cannot run in this version; in `WHERE`, `x > ANY (SELECT y …)` is `EXISTS (SELECT … WHERE "
            "x > y)`, and `x > ALL (SELECT y …)` is `NOT EXISTS (SELECT … WHERE (x > y) IS NOT TRUE)`"
        )
        raise PlanError(reason, text, span_of(node.parent or node))


def without_quantifiers(expr: exp.Expr) -> exp.Expr:
    """`= ANY (SELECT …)` is IN, and `<> ALL (SELECT …)` is NOT IN."""
    return expr.transform(_as_membership) if expr.find(exp.Any, exp.All) else expr


def _as_membership(node: exp.Expr) -> exp.Expr:
    for comparison, quantifier in ((exp.EQ, exp.Any), (exp.NEQ, exp.All)):
        side = node.args.get("expression") if isinstance(node, comparison) else None
        if isinstance(side, quantifier) and isinstance(side.this, exp.Query):
            membership: exp.Expr = exp.In(this=node.this, query=side.this)
            membership.meta.update(node.meta)
            return membership if quantifier is exp.Any else exp.Paren(this=exp.Not(this=membership))
    return node


def is_predicate(node: exp.Expr) -> bool:
    """Whether a node looks for a row in a subquery."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Exists) and isinstance(node.this, exp.Query)
