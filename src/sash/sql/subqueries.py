"""Subqueries in expressions: which run, and what to do instead of the others."""

from __future__ import annotations

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.expressions import span_of

_CONJUNCT = "{} can stand only in `WHERE`, by itself or with AND; {}"


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
        reason = _CONJUNCT.format(f"`{name}` with a subquery", remedy)
        raise PlanError(reason, text, span_of(parent))
    if isinstance(parent, (exp.Any, exp.All)):
        reason = "`ANY` and `ALL` cannot run in this version; write `= ANY` as `IN`, and `<> ALL` as `NOT IN`"
        raise PlanError(reason, text, span_of(parent.parent or parent))
    reason = "a subquery as a value cannot run in this version; `LEFT JOIN` it in `FROM`, with `ON TRUE`"
    raise PlanError(reason, text, span_of(node))


def is_predicate(node: exp.Expr) -> bool:
    """Whether a node looks for a row in a subquery."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Exists) and isinstance(node.this, exp.Query)
