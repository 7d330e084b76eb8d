"""Refuses a plan whose state would grow for ever."""

from __future__ import annotations

from collections.abc import Iterator

from sash.errors import PlanError
from sash.plan.logical import Body, Query, Scan, SetOperation, bodies_of, scans_of
from sash.sql.query import CountWindow, StreamInfo, TimeWindow


def refuse_unbounded(query: Query) -> Query:
    """Whoever keeps a stream's rows must be able to let them go: a join, DISTINCT, GROUP BY, IN and EXISTS."""
    keeper = _keeper(query)
    if keeper is not None:
        for scan in _endless(query):
            _refuse(scan, query, keeper)
    for test in query.tests:
        for scan in _endless(test.body):
            _refuse(scan, query, "the test against the subquery")
    return query


def refuse_unbounded_sets(body: Body) -> None:
    """The same for set operations: all but UNION ALL keep the rows of both sides."""
    for each in bodies_of(body):
        if isinstance(each, SetOperation) and (each.bound.operation != "union" or not each.bound.is_all):
            name = each.bound.operation.upper() + (" ALL" if each.bound.is_all else "")
            for scan in _endless(each):
                _refuse(scan, each, name)


def _keeper(query: Query) -> str | None:
    """The operator of a SELECT that keeps rows, if there is one."""
    if sum(scan.source.is_stream for scan in scans_of(query.input)) > 1:
        return "the join"
    if query.is_grouped:
        return "the aggregate"
    if query.bound.is_distinct:
        return "DISTINCT"
    return "the test against the subquery" if query.tests else None


def _endless(body: Body) -> Iterator[Scan]:
    """The streams whose rows never leave what a query gives out, or what it joins."""
    if isinstance(body, SetOperation):
        yield from _endless(body.left)
        yield from _endless(body.right)
        return
    for scan in scans_of(body.input):
        if scan.body is not None:
            yield from () if isinstance(scan.body, Query) and scan.body.is_grouped else _endless(scan.body)
        elif isinstance(scan.source.info, StreamInfo) and not isinstance(scan.source.window, TimeWindow | CountWindow):
            yield scan


def _refuse(scan: Scan, body: Body, keeper: str) -> None:
    raise PlanError(
        f"the window of `{scan.source.alias}` never lets a tuple go, so {keeper} would have to keep all of "
        f"`{scan.source.name}` for ever; give it a bound such as [RANGE 1 HOUR] or [ROWS 1000], "
        "or pass it as a relation if it does not change",
        body.bound.text,
        scan.source.span,
    )
