"""EMIT ON WINDOW CLOSE: which queries have results that are final once a window is over.

Every row of the answer must be made of the rows of one window, so that nothing to come can change it: rows as they are,
or groups by `window_start` or `window_end`, of one stream with TUMBLE or HOP, beside any tables.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.bound_query import WINDOW_COLUMNS, BoundQuery
from sash.sql.casts import without_read
from sash.sql.parsed import ParsedQuery


def check_final(query: ParsedQuery, bound: BoundQuery) -> None:
    """PlanError where a query asks for what is final alone and has none."""
    if "emit_final" not in query.tree.meta:
        return
    streams = [source for source in bound.sources if source.is_stream]
    if len(streams) != 1 or not streams[0].is_final:
        _refuse(query, "needs one stream with `TUMBLE` or `HOP`", "read one, beside any tables")
    if bound.is_distinct or bound.memberships:
        _refuse(query, "cannot stand with `DISTINCT`, `IN` or `EXISTS`", "group by `window_start` instead")
    if bound.emit_changes:
        _refuse(query, "and `EMIT CHANGES` exclude each other", "remove one of them")
    if bound.groups is not None and not any(_is_of_window(group.expr, streams[0].alias) for group in bound.groups):
        _refuse(query, "needs groups of one window each", "group by `window_start` or `window_end` as well")


def _is_of_window(expr: exp.Expr, alias: str) -> bool:
    column = without_read(expr).unnest()
    return isinstance(column, exp.Column) and column.table == alias and column.name in WINDOW_COLUMNS


def _refuse(query: ParsedQuery, reason: str, remedy: str) -> NoReturn:
    raise PlanError(f"`EMIT ON WINDOW CLOSE` {reason}; {remedy}", query.text, query.tree.meta["emit_final"])
