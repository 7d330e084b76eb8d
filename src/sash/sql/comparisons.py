"""Comparisons and conditions that DuckDB takes at first and fails on at the first row that does not convert.

DuckDB compares a string column with a number by converting every string, and takes any value as a condition. On a
stream such a failure comes hours later, so both are found before the query runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from duckdb.sqltypes import DuckDBPyType
from sqlglot import exp

Family: TypeAlias = str | tuple["Family"] | None
"""Types within one family convert into each other without fail. None is the type of NULL, which is of every family."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_TRUTHS = (exp.Boolean, exp.Connector, exp.Not, exp.Predicate)
_SCOPES = (exp.Lambda, exp.Comprehension)
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "hugeint", "bignum"), "number"),
    **dict.fromkeys(("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"), "number"),
    **dict.fromkeys(("float", "double", "decimal", "boolean"), "number"),
    **dict.fromkeys(("varchar", "enum"), "string"),
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "date"), "instant"),
    "timestamp with time zone": "instant",
    "null": None,
}


def family_of(type_: DuckDBPyType) -> Family:
    if type_.id in ("list", "array"):
        element = type_.children[0][1]
        assert isinstance(element, DuckDBPyType)
        return (family_of(element),)
    return _FAMILIES.get(type_.id, type_.id)


def are_comparable(left: Family, right: Family) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return are_comparable(left[0], right[0])
    return left is None or right is None or left == right


def comparisons_in(expr: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, exp.Expr]]:
    """Each comparison of an expression with its two sides; BETWEEN, IN and CASE x WHEN y count as several."""
    for node in _own_nodes(expr):
        if isinstance(node, _COMPARISONS):
            yield node, node.this, node.expression
        elif isinstance(node, exp.Between):
            yield node, node.this, node.args["low"]
            yield node, node.this, node.args["high"]
        elif isinstance(node, exp.In):
            yield from ((node, node.this, item) for item in node.expressions)
        elif isinstance(node, exp.Case) and node.this:
            yield from ((node, node.this, branch.this) for branch in node.args["ifs"])
        elif isinstance(node, exp.Anonymous) and node.name.lower() == "nullif" and len(node.expressions) == 2:
            yield node, *node.expressions


def conditions_in(expr: exp.Expr) -> Iterator[exp.Expr]:
    """Each part of an expression that must be true or false, and is not plainly so: operands of AND, NOT, WHEN …"""
    for node in _own_nodes(expr):
        operands = [node.this, node.expression] if isinstance(node, exp.Connector) else []
        if isinstance(node, exp.Not) or (isinstance(node, exp.If) and not _is_compared(node)):
            operands = [node.this]
        yield from (operand for operand in operands if not isinstance(operand, _TRUTHS))


def _is_compared(branch: exp.If) -> bool:
    return isinstance(branch.parent, exp.Case) and branch.parent.this is not None


def _own_nodes(expr: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes outside lambdas, whose variables have no type on their own."""
    return expr.walk(prune=lambda node: isinstance(node, _SCOPES))
