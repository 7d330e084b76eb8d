"""Which queries have results that are final: EMIT ON WINDOW CLOSE, and EMIT FINAL.

EMIT ON WINDOW CLOSE: every row of the answer must be made of the rows of one window, so that nothing to come can change
it: rows as they are, or groups by `window_start` or `window_end`, of one stream with TUMBLE or HOP, beside any tables;
of SESSION, where sessions of several partitions may begin together and end apart, by what tells these apart too.

EMIT FINAL means the same there. Else windows say who may meet: two rows meet if both are in their windows at any
instant. Rows that have met make a row of the answer, which stays; rows without a partner are known when they leave. So
everything that is joined must come and leave by time alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.bound_query import Block, BoundQuery, BoundSet, MembershipCondition, sources_in
from sash.sql.casts import without_read
from sash.sql.catalog import JOINED, DerivedInfo, Source, StreamInfo
from sash.sql.parsed import ParsedQuery
from sash.sql.window_kinds import WINDOW_COLUMNS, SessionWindow, TableWindow, TimeWindow


def emits_once(query: ParsedQuery, sources: Sequence[Source]) -> bool:
    """Whether it is EMIT FINAL without TUMBLE, HOP or SESSION, which have windows that are over."""
    return _words(query) == "EMIT FINAL" and not any(source.is_final for source in sources)


def check_final(query: ParsedQuery, bound: BoundQuery) -> None:
    """PlanError where a query asks for what is final alone and has none."""
    if "emit_final" not in query.tree.meta:
        return
    if bound.emit_changes:
        _refuse(query, "and `EMIT CHANGES` exclude each other", "remove one of them")
    if bound.emits_once:
        _check_once(query, bound)
        return
    streams = [source for source in bound.sources if source.is_stream]
    if len(streams) != 1 or not streams[0].is_final:
        _refuse(query, "needs one stream with `TUMBLE`, `HOP` or `SESSION`", "read one, beside any tables")
    if bound.is_distinct or bound.memberships:
        _refuse(query, "cannot stand with `DISTINCT`, `IN` or `EXISTS`", "group by `window_start` instead")
    if bound.groups is not None:
        _check_groups(query, streams[0], {_column_of(group.expr, streams[0].alias) for group in bound.groups})


def _check_groups(query: ParsedQuery, stream: Source, columns: set[str | None]) -> None:
    """Rows of one group must be final at one instant; `columns` are those of the stream that are grouped by."""
    if not columns & set(WINDOW_COLUMNS):
        _refuse(query, "needs groups of one window each", "group by `window_start` or `window_end` as well")
    window = stream.window
    if isinstance(window, SessionWindow) and WINDOW_COLUMNS[1] not in columns:
        missing = [name for name in window.partition_by if name not in columns]
        if missing:
            reason = f"needs groups of one session each, and sessions of each `{missing[0]}` may begin at one time"
            _refuse(query, reason, f"group by `window_end` or `{missing[0]}` as well")


def _check_once(query: ParsedQuery, bound: BoundQuery) -> None:
    if bound.groups is not None or bound.is_distinct:
        remedy = "group by the `window_start` of one stream with `TUMBLE` or `HOP`, or leave `EMIT FINAL` out"
        _refuse(query, "cannot stand with aggregates or `DISTINCT`, which go on changing", remedy)
    streams = [source for source in bound.sources if source.is_stream]
    parts: list[Block] = [bound]
    if len(streams) == 1 and not bound.memberships and streams[0].alias.startswith(JOINED):
        assert isinstance(streams[0].info, DerivedInfo)
        parts = list(_united(streams[0].info.block))
    for part in parts:
        if isinstance(part, BoundSet) and part.asof is not None:
            _check_asof(query, part)
            continue
        tests = part.memberships if isinstance(part, BoundQuery) else ()
        if isinstance(part, BoundSet) or not all(map(_appends, _streams(part))):
            _refuse_shape(query)
        for test in tests:
            _check_test(query, part, test)


def _check_test(query: ParsedQuery, part: Block, test: MembershipCondition) -> None:
    if not test.is_negated or test.is_null_aware:
        remedy = "use `NOT EXISTS` or `ANTI JOIN` if that is meant, or leave `EMIT FINAL` out"
        _refuse(query, "cannot stand with `IN`, `NOT IN`, `EXISTS` or `SEMI JOIN`", remedy)
    if not _appends(test.block):
        _refuse_shape(query)
    for source in (*sources_in(part), *sources_in(test.block)):
        if source.is_stream and not isinstance(source.window, TimeWindow):
            reason = f"needs a window of time on `{source.alias}`, so that it is known when its rows leave"
            _refuse(query, reason, "give it one, as in `[RANGE 1 MINUTE]`")


def _check_asof(query: ParsedQuery, join: BoundSet) -> None:
    """The partner of a row is final when the row comes if both sides come in the order that is compared."""
    terms = join.asof
    assert terms is not None
    are_times = all(
        map(_is_time_of_stream, (join.left, join.right), terms.times) if terms.comparison.startswith(">") else [False]
    )
    if not are_times:
        reason = "behind an `ASOF JOIN` needs streams on both sides, and their own times compared by `>=` or `>`"
        _refuse(query, reason, "leave it out")


def _is_time_of_stream(side: Block, name: str) -> bool:
    """Whether a column of a side is the time of the one stream that it reads; all conditions are on its rows."""
    streams = list(_streams(side)) if isinstance(side, BoundQuery) and not side.memberships else []
    if len(streams) != 1 or not isinstance(streams[0].info, StreamInfo) or isinstance(streams[0].window, TableWindow):
        return False
    source, info = streams[0], streams[0].info
    is_sliding = isinstance(source.window, TimeWindow) and source.window.slide_us is not None
    expr = next(output.expr for output in side.outputs if output.name == name)
    if isinstance(expr, exp.Case) and len(expr.args["ifs"]) == 1 and not expr.args.get("default"):
        expr = expr.args["ifs"][0].args["true"]  # of rows that may have a partner
    column = without_read(expr).unnest()
    is_time = isinstance(column, exp.Column) and column.table == source.alias and column.name == info.time
    return is_time and not is_sliding


def _united(block: Block) -> Iterator[Block]:
    """The parts of UNION ALL."""
    if isinstance(block, BoundSet) and block.operation == "union" and block.is_all:
        yield from _united(block.left)
        yield from _united(block.right)
    else:
        yield block


def _streams(block: BoundQuery) -> Iterator[Source]:
    return (source for source in block.sources if source.is_stream)


def _appends(item: Source | Block) -> bool:
    """Whether rows come once each, and leave by themselves: streams, filtered, joined and put together."""
    if isinstance(item, Source):
        if isinstance(item.window, SessionWindow):
            return False  # when a session becomes longer, its rows come again
        return not isinstance(item.info, DerivedInfo) or _appends(item.info.block)
    if isinstance(item, BoundSet):
        return item.operation == "union" and item.is_all and _appends(item.left) and _appends(item.right)
    is_plain = item.groups is None and not item.is_distinct and not item.memberships
    return is_plain and all(map(_appends, _streams(item)))


def _column_of(expr: exp.Expr, alias: str) -> str | None:
    """The name of the column of a stream that an expression is."""
    column = without_read(expr).unnest()
    return column.name if isinstance(column, exp.Column) and column.table == alias else None


def _words(query: ParsedQuery) -> str:
    """The clause as it is called in messages; nothing if there is none."""
    span = query.tree.meta.get("emit_final")
    return "" if span is None else " ".join(query.text[span.start : span.end].upper().split())


def _refuse_shape(query: ParsedQuery) -> NoReturn:
    reason = "needs rows that come once each: of streams and tables, joined, with one outer join of streams at most"
    _refuse(query, reason, "leave it out")


def _refuse(query: ParsedQuery, reason: str, remedy: str) -> NoReturn:
    raise PlanError(f"`{_words(query)}` {reason}; {remedy}", query.text, query.tree.meta["emit_final"])
