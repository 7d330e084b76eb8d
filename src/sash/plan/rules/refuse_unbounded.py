"""Refuses a plan whose state would grow for ever."""

from __future__ import annotations

from collections.abc import Iterator

from sash.errors import PlanError
from sash.operators.accumulators import BOUNDED
from sash.plan.logical import Body, Scan, Select, SetOperation, bodies_of, scans_of
from sash.sql.bound_aggregates import Aggregate
from sash.sql.catalog import StreamInfo
from sash.sql.window_kinds import RowsWindow, TableWindow, TimeWindow

_BOUNDED_WINDOWS = TimeWindow | TableWindow | RowsWindow


def refuse_unbounded(query: Select) -> Select:
    """Whoever keeps a stream's rows must be able to let them go: a join, DISTINCT, GROUP BY, IN and EXISTS.

    An aggregate need not keep rows that never leave, if what it has come to says enough; an interval join lets go of
    those that nothing to come can meet.
    """
    keeper = _keeper(query)
    if keeper is not None:
        for scan in _endless_scans(query):
            _refuse(scan, query, keeper)
    for test in query.tests:
        for scan in _endless(test.body):
            _refuse(scan, query, "the test against the subquery")
    return query


def refuse_unbounded_sets(body: Body) -> None:
    """The same for set operations: all but UNION ALL keep the rows of both sides."""
    for each in bodies_of(body):
        if isinstance(each, SetOperation) and not _is_union_all(each):
            name = each.bound.operation.upper() + (" ALL" if each.bound.is_all and not each.bound.asof else "")
            for scan in _endless(each):
                _refuse(scan, each, name)


def _keeper(query: Select) -> str | None:
    """The operator of a SELECT that keeps rows, if there is one."""
    n_streams = sum(scan.source.is_stream for scan in scans_of(query.input))
    if n_streams > 1 and query.bound.interval_graph is None:
        return "the join"
    if query.tests:
        return "the test against the subquery"
    if query.bound.ranking is not None:
        return query.bound.ranking.clause
    if query.bound.over is not None:
        return "`OVER`"
    if query.is_grouped:
        return _keeping_aggregate(query)
    return "DISTINCT" if query.bound.is_distinct else None


def _keeping_aggregate(query: Select) -> str | None:
    """The aggregate that keeps rows; None if all rows stay for ever, and each aggregate can do without them."""
    if not all(map(_lets_none_go, scans_of(query.input))):
        return "the aggregate"
    unbounded = (call for call in query.bound.aggregates if call.function not in BOUNDED or call.is_distinct)
    return next(map(_name, unbounded), None)


def _name(aggregate: Aggregate) -> str:
    function = aggregate.function.removesuffix("_distinct")
    is_distinct = aggregate.is_distinct or function != aggregate.function
    return f"`{function.upper()}{'(DISTINCT)' if is_distinct else ''}`"


def _lets_none_go(scan: Scan) -> bool:
    """Whether what FROM reads there neither leaves nor is taken back."""
    if scan.body is not None:
        return _is_endless(scan.body)
    return not isinstance(scan.source.window, _BOUNDED_WINDOWS)


def _is_endless(body: Body) -> bool:
    """Whether no row leaves what a query gives out; only filters and UNION ALL pass that on."""
    if isinstance(body, SetOperation):
        return _is_union_all(body) and _is_endless(body.left) and _is_endless(body.right)
    is_plain = not (body.is_grouped or body.bound.is_distinct or body.bound.chooses or body.tests)
    return is_plain and all(map(_lets_none_go, scans_of(body.input)))


def _endless(body: Body) -> Iterator[Scan]:
    """The streams whose rows never leave what a query gives out. Of groups there is one row each."""
    if isinstance(body, SetOperation):
        yield from _endless(body.left)
        yield from _endless(body.right)
    elif not body.is_grouped:
        yield from _endless_scans(body)


def _endless_scans(query: Select) -> Iterator[Scan]:
    """The streams whose rows never leave what a SELECT reads."""
    for scan in scans_of(query.input):
        if scan.body is not None:
            yield from _endless(scan.body)
        elif isinstance(scan.source.info, StreamInfo) and not isinstance(scan.source.window, _BOUNDED_WINDOWS):
            yield scan


def _is_union_all(body: SetOperation) -> bool:
    return body.bound.operation == "union" and body.bound.is_all


def _refuse(scan: Scan, body: Body, keeper: str) -> None:
    raise PlanError(
        f"the window of `{scan.source.alias}` never lets a tuple go, so {keeper} would have to keep all of "
        f"`{scan.source.name}` for ever; give it a bound such as [RANGE 1 HOUR] or [ROWS 1000], "
        "or pass it as a relation if it does not change",
        body.bound.text,
        scan.source.span,
    )
