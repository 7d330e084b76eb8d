"""Joins sources in an order in which an equality connects each to those before it, where there is one."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.plan.logical import Join, Relational, Scan, Select, aliases_of, outer_joins_of, scans_of


def order_joins(query: Select) -> Select:
    """Starts with the first stream of FROM; a source that nothing connects comes as late as possible.

    What is no inner join stays where it is, above the others.
    """
    outer = outer_joins_of(query.input)
    left = scans_of(outer[0].left if outer else query.input)
    first = next(scan for scan in left if scan.source.is_stream)
    left.remove(first)
    tree: Relational = first
    while left:
        joined = aliases_of(tree)
        following = next((scan for scan in left if _is_connected(scan, joined, query.conjuncts)), left[0])
        left.remove(following)
        tree = Join(tree, following)
    for join in outer:
        tree = replace(join, left=tree)
    return replace(query, input=tree)


def _is_connected(scan: Scan, joined: frozenset[str], conjuncts: tuple[exp.Expr, ...]) -> bool:
    own = aliases_of(scan)
    for conjunct in conjuncts:
        if isinstance(conjunct, exp.EQ):
            sides = aliases_of(conjunct.this), aliases_of(conjunct.expression)
            if own in sides and any(side and side <= joined for side in sides):
                return True
    return False
