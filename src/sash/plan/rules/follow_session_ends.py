"""Lets groups of whole sessions find out by themselves when these end."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.plan.column_names import columns_of
from sash.plan.logical import Scan, Select
from sash.sql.casts import without_read
from sash.sql.window_kinds import WINDOW_COLUMNS, SessionWindow


def follow_session_ends(query: Select) -> Select:
    """When a session becomes longer, all its rows have another `window_end`. Groups that are sessions need not hear of
    that row by row: the end of one is the latest that any of its rows gives. That is so if nothing but sessions is told
    apart, by more than their ends, no row is left out of one, and nothing but the groups reads the end.
    """
    scan = query.input
    if not isinstance(scan, Scan) or not _is_open(scan) or not query.is_grouped or query.tests or query.conjuncts:
        return query
    window, bound = scan.source.window, query.bound
    assert isinstance(window, SessionWindow)
    groups = {_own_column(scan, group.expr) for group in bound.groups or ()}
    is_whole = set(window.partition_by) <= groups <= {*window.partition_by, *WINDOW_COLUMNS}
    read = set[str]().union(*(columns_of(expr) for aggregate in bound.aggregates for expr in aggregate.reads))
    is_read = f"{scan.source.alias}.{WINDOW_COLUMNS[1]}" in read
    if (
        WINDOW_COLUMNS[1] not in groups
        or len(groups) == 1
        or not is_whole
        or is_read
        or not _keeps_sessions(scan, window)
    ):
        return query
    return replace(query, input=replace(scan, ends_above=True))


def is_end_of(scan: Scan, expr: exp.Expr) -> bool:
    """Whether an expression is the end of the sessions of an item of FROM."""
    return _own_column(scan, expr) == WINDOW_COLUMNS[1]


def _is_open(scan: Scan) -> bool:
    return isinstance(scan.source.window, SessionWindow) and not scan.source.is_final


def _keeps_sessions(scan: Scan, window: SessionWindow) -> bool:
    """Whether the filter keeps or leaves out whole partitions."""
    own = {f"{scan.source.alias}.{name}" for name in window.partition_by}
    return all(columns_of(conjunct) <= own for conjunct in scan.conjuncts)


def _own_column(scan: Scan, expr: exp.Expr) -> str | None:
    column = without_read(expr).unnest()
    return column.name if isinstance(column, exp.Column) and column.table == scan.source.alias else None
