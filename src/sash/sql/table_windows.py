"""Windows that rows have as columns, as Flink and RisingWave write them.

    FROM TUMBLE(s, ts, INTERVAL '1 minute')
    FROM HOP(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute')         every 20 seconds; one length more is an offset
    FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    FROM TUMBLE(s, ts, INTERVAL '1 month', 'Europe/Berlin')             months, or days, of a time zone
    FROM s GROUP BY TUMBLE(ts, INTERVAL '1 minute')                     the same, grouped by window_start, window_end
    FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    FROM SESSION(s PARTITION BY (k, l), ts, INTERVAL '1 minute')
    FROM s GROUP BY SESSION(ts, INTERVAL '1 minute'), k                 sessions of every k

All become a stream with a `TableWindow`, and columns called `window_start` and `window_end`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sash.errors import BindError, ParseError, PlanError
from sash.sql.calendar_lengths import MAX_COUNT, find_mistake_in_zone, has_months, is_zone, read_calendar
from sash.sql.cursor import Cursor
from sash.sql.window_kinds import UTC, WINDOW_COLUMNS, CalendarWindow, HopWindow, SessionWindow, TableWindow
from sash.sql.windows import WindowClause, parse_length, parse_signed_length, parse_words

MAX_COPIES = 1000
"""The most windows that a row may be in at once: it is kept once for each."""
_SESSION = "SESSION"
_FUNCTIONS = ("TUMBLE", "HOP", _SESSION)
_ENDS = {f"{function}_{end}": name for function in _FUNCTIONS for end, name in zip(("START", "END"), WINDOW_COLUMNS)}


def is_table_window(parser: Cursor) -> bool:
    """Whether TUMBLE, HOP or SESSION comes next, perhaps within TABLE."""
    return any(parser.at(word) for word in (*_FUNCTIONS, "TABLE")) and parser.is_bracketed()


def parse_table_window(parser: Cursor) -> exp.Table:
    """An item of FROM, from TUMBLE, HOP, SESSION or TABLE on: its stream, with the window in its `meta`."""
    start = parser.index
    is_wrapped = parser.take("TABLE", "(")
    function = next((word for word in _FUNCTIONS if parser.take(word)), None)
    if function is None:
        parser.fail("expected `TUMBLE`, `HOP` or `SESSION`")
    parser.expect("(")
    parser.take("TABLE")
    stream = parser.name("a stream")
    partition_by = _parse_partition(parser) if function == _SESSION else ()
    parser.expect(",")
    time = _parse_time(parser)
    parser.expect(",")
    window = _parse_lengths(parser, function)
    parser.expect(")")
    if is_wrapped:
        parser.expect(")")
    table = exp.Table(this=stream)
    table.meta["window"] = WindowClause(window, parser.span_since(start), partition_by, time)
    return table


def _parse_partition(parser: Cursor) -> tuple[exp.Identifier, ...]:
    """The columns of PARTITION BY, in brackets if there are several."""
    what = "a column to partition by"
    if not parser.take("PARTITION BY"):
        return ()
    if not parser.take("("):
        return (parser.name(what),)
    names = tuple(parser.names(what))
    parser.expect(")")
    return names


def _parse_time(parser: Cursor) -> exp.Identifier:
    is_described = parser.take("DESCRIPTOR", "(")
    time = parser.name("the stream's time column")
    if is_described:
        parser.expect(")")
    return time


def _parse_lengths(parser: Cursor, function: str) -> TableWindow:
    start = parser.index
    if function == _SESSION:
        return SessionWindow(parse_length(parser, "the gap between sessions"))
    if function == "TUMBLE" and (window := _parse_calendar(parser)) is not None:
        return window
    hop_us = parse_length(parser, "a hop" if function == "HOP" else "a window")
    length_us = hop_us
    if function == "HOP":
        parser.expect(",")
        length_us = parse_length(parser, "a window")
    offset_us = parse_signed_length(parser, "the offset") if parser.take(",") else 0
    if length_us > MAX_COPIES * hop_us:
        reason = f"each row would be in {-(-length_us // hop_us)} windows, and {MAX_COPIES} are the most; hop further"
        raise PlanError(reason, parser.sql, parser.span_since(start))
    return HopWindow(length_us, hop_us, offset_us % hop_us)


def _parse_calendar(parser: Cursor) -> CalendarWindow | None:
    """The length of a window and a time zone; nothing at all is read if it is neither of months nor in a zone."""
    start = parser.index
    words = "" if parser.at_parameter() else parse_words(parser, "a window")
    span = parser.span_since(start)
    if not words or not (has_months(words) or _is_zone_next(parser)):
        parser.back_to(start)
        return None
    known = read_calendar(words)
    if known is None:
        remedy = f"give one number of them, up to {MAX_COUNT}, as in `INTERVAL '1 month'`"
        reason = f"windows of the calendar are whole days, weeks, months, quarters or years, not `{words.strip()}`"
        raise ParseError(f"{reason}; {remedy}", parser.sql, span)
    zone = _parse_zone(parser) if _is_zone_next(parser) else UTC
    if parser.at(","):
        parser.refuse("an offset of windows of the calendar", "remove it, or give a time zone")
    return CalendarWindow(*known, zone)


def _is_zone_next(parser: Cursor) -> bool:
    start = parser.index
    text = parser.next_string() if parser.take(",") else None
    parser.back_to(start)
    return text is not None and is_zone(text)


def _parse_zone(parser: Cursor) -> str:
    parser.expect(",")
    start = parser.index
    zone = parser.string("a time zone")
    if wrong := find_mistake_in_zone(zone):
        raise BindError(wrong, parser.sql, parser.span_since(start))
    return zone


def is_group_window(parser: Cursor) -> bool:
    """Whether TUMBLE, HOP or SESSION, or its start or end, comes next in an expression."""
    return any(parser.at(word) for word in (*_FUNCTIONS, *_ENDS)) and parser.is_bracketed()


def parse_group_window(parser: Cursor) -> exp.Expr:
    """TUMBLE, TUMBLE_START and the like, with the window in `meta`; `expand_group_window` puts it into FROM."""
    start = parser.index
    function = next(word for word in (*_FUNCTIONS, *_ENDS) if parser.take(word))
    parser.expect("(")
    time = parser.name("the stream's time column")
    if parser.take("."):
        time = parser.name("the stream's time column")
    parser.expect(",")
    window = _parse_lengths(parser, function.partition("_")[0])
    parser.expect(")")
    call = exp.Anonymous(this=function, expressions=[])
    call.meta["group_window"] = WindowClause(window, parser.span_since(start), time=time)
    return call


def expand_group_window(parser: Cursor, select: exp.Select) -> None:
    """The window of a GROUP BY as that of the stream, and in its place the columns that this gives it."""
    group = select.args.get("group")
    calls = [each for each in (group.expressions if group else ()) if each.name in _FUNCTIONS and _window(each)]
    if group and calls:
        _move_into_from(parser, select, calls[0])
        if calls[0].name == _SESSION:
            _partition(parser, select, calls[0])
        # One of the two tells groups apart, and one that is not shown would hide which row replaces which.
        read = {_ENDS.get(each.name, each.name.lower()) for each in select.find_all(exp.Column, exp.Anonymous)}
        columns = [exp.column(name) for name in WINDOW_COLUMNS if name in read] or [exp.column(WINDOW_COLUMNS[0])]
        parts = [part for each in group.expressions for part in (columns if each is calls[0] else [each])]
        group.set("expressions", parts)
    for node in [each for each in select.find_all(exp.Anonymous) if _window(each)]:
        if not calls or node.name not in _ENDS or _window(node) != _window(calls[0]):
            _refuse(parser, f"`{node.name}` here", node)
        node.replace(exp.column(_ENDS[node.name]))


def _move_into_from(parser: Cursor, select: exp.Select, call: exp.Expr) -> None:
    from_ = select.args.get("from_")
    table = from_.this if from_ else None
    if not isinstance(table, exp.Table) or select.args.get("joins") or table.args.get("joins"):
        _refuse(parser, f"`{call.name}` in the `GROUP BY` of a join or subquery", call)
    alias = table.args.get("alias")
    if "window" in table.meta or (alias and "window" in alias.meta):
        span = call.meta["group_window"].span
        raise ParseError(f"`{table.name}` has two windows; remove one of them", parser.sql, span)
    table.meta["window"] = call.meta["group_window"]


def _partition(parser: Cursor, select: exp.Select, call: exp.Expr) -> None:
    """Sessions are of the rows that are equal in all else that is grouped by."""
    clause: WindowClause = call.meta["group_window"]
    if select.args.get("where"):
        reason = (
            "`WHERE` before `GROUP BY SESSION(…)` cannot run in this version: sessions would be of the rows that it"
        )
        remedy = (
            "leaves; write `FROM SESSION(s PARTITION BY k, ts, INTERVAL '1 minute')`, whose sessions are of all rows"
        )
        raise PlanError(f"{reason} {remedy}", parser.sql, clause.span)
    others = [each for each in select.args["group"].expressions if each is not call]
    columns = [each.this for each in others if isinstance(each, exp.Column)]
    if len(columns) < len(others):
        _refuse(parser, "`SESSION` in a `GROUP BY` of more than columns", call)
    select.args["from_"].this.meta["window"] = replace(clause, partition_by=tuple(columns))


def close_windows(query: exp.Expr) -> None:
    """Behind EMIT ON WINDOW CLOSE, the windows of the query's own streams are such as show what is final."""
    from_ = query.args.get("from_")
    if "emit_final" not in query.meta or from_ is None:
        return
    for item in (from_.this, *(join.this for join in query.args.get("joins") or ())):
        clause = item.meta.get("window")
        if clause is not None and isinstance(clause.window, TableWindow):
            item.meta["window"] = replace(clause, window=replace(clause.window, is_final=True))


def _window(node: exp.Expr) -> TableWindow | None:
    clause = node.meta.get("group_window")
    return clause.window if clause else None


def _refuse(parser: Cursor, what: str, node: exp.Expr) -> NoReturn:
    function = node.name.partition("_")[0]
    lengths = "INTERVAL '20 seconds', INTERVAL '1 minute'" if function == "HOP" else "INTERVAL '1 minute'"
    partition = " PARTITION BY k" if function == _SESSION else ""
    example = f"FROM {function}(s{partition}, ts, {lengths})"
    remedy = f"write the window in `FROM`, as in `{example}`, and use `window_start`"
    raise PlanError(f"{what} cannot run in this version; {remedy}", parser.sql, node.meta["group_window"].span)
