"""Refuses a plan whose state would grow for ever."""

from __future__ import annotations

from sash.errors import PlanError
from sash.plan.logical import Query, Scan, scans_of
from sash.sql.query import CountWindow, TimeWindow


def refuse_unbounded(query: Query) -> Query:
    """A stream that joins another stream must have a window that tuples leave."""
    streams = [scan for scan in scans_of(query.input) if scan.source.is_stream]
    if len(streams) > 1:
        for scan in streams:
            _check(scan, query)
    return query


def _check(scan: Scan, query: Query) -> None:
    if isinstance(scan.source.window, TimeWindow | CountWindow):
        return
    raise PlanError(
        f"the window of `{scan.source.alias}` never lets a tuple go, so the join would have to keep all of "
        f"`{scan.source.name}` for ever; give it a bound such as [RANGE 1 HOUR] or [ROWS 1000], "
        "or pass it as a relation if it does not change",
        query.bound.text,
        scan.source.span,
    )
