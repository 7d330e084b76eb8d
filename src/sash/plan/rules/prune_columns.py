"""Reads from each source only what the query needs."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.plan.column_names import columns_of, times_of
from sash.plan.logical import Join, Relational, Scan, Select, map_scans, scans_of
from sash.sql.window_kinds import SessionWindow


def prune_columns(query: Select) -> Select:
    """A window that counts rows keeps all columns: row content decides the order of rows of one instant. One of
    sessions keeps those that it is partitioned by.
    """
    read_below = [expr for scan in scans_of(query.input) for expr in _expressions(scan)]
    needed = _read_by_joins(query.input).union(*map(columns_of, [*read_on_top(query), *read_below]))

    def prune(scan: Scan) -> Scan:
        if scan.counts_rows:
            return scan
        window = scan.source.window
        own = window.partition_by if isinstance(window, SessionWindow) else ()
        kept = tuple(name for name in scan.columns if f"{scan.source.alias}.{name}" in needed or name in own)
        return replace(scan, columns=kept)

    return replace(query, input=map_scans(query.input, prune))


def read_on_top(query: Select) -> list[exp.Expr]:
    """What is read of a row once everything is joined: for its columns or its group, and to look for it elsewhere."""
    bound = query.bound
    read = [*query.conjuncts, *(operand for test in query.tests for operand in test.operands)]
    if bound.over is not None:
        return [*read, *bound.over.columns]
    if bound.ranking is not None:
        return [*read, *bound.ranking.reads]
    if bound.groups is None:
        return read + [output.expr for output in query.outputs]
    return [
        *read,
        *(group.expr for group in bound.groups),
        *(expr for aggregate in bound.aggregates for expr in aggregate.reads),
        *times_of(query),
    ]


def _read_by_joins(node: Relational) -> set[str]:
    if isinstance(node, Scan):
        return set()
    own = {name for pair in node.keys for name in pair}
    return own.union(_read_by_joins(node.left), *(columns_of(expr) for expr in _expressions(node)))


def _expressions(node: Scan | Join) -> list[exp.Expr]:
    return [*node.conjuncts, *(expr for _, expr in node.computed)]
