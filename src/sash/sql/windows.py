"""The window clauses of Sash's SQL, read from the parser's tokens.

All of them but those that this version refuses:

    WINDOW 1 MINUTE · WINDOW 50 ROWS                     one window over all streams of the query
    [RANGE 1 HOUR] · [ROWS 100] · [NOW] · [UNBOUNDED]    a window of one stream, after its name or alias
    [PARTITION BY k ROWS 10] · [SINCE TIMESTAMP '…']
    WINDOW 1 HOUR SLIDE 5 MINUTES · [RANGE 12 HOURS SLIDE 1 HOUR]
    WINDOW (A, B) = 1 SECOND AND DWINDOW (B, C) = 2 SECONDS      windows of pairs of streams
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import duckdb
from sqlglot import exp

from sash.errors import BindError, ParseError, Span
from sash.sql import duck
from sash.sql.cursor import Cursor
from sash.sql.window_kinds import NOW_US, RowsWindow, SinceWindow, TimeWindow, UnboundedWindow, Window

MAX_LENGTH = 2**62
"""Longest window, in microseconds or rows: a timestamp plus a length must stay within 64 bits."""

_UNITS_US = {
    unit: length_us
    for length_us, units in (
        (1, "us usec usecs microsecond microseconds"),
        (1_000, "ms msec msecs millisecond milliseconds"),
        (1_000_000, "s sec secs second seconds"),
        (60_000_000, "m min mins minute minutes"),
        (3_600_000_000, "h hr hrs hour hours"),
        (86_400_000_000, "d day days"),
        (604_800_000_000, "w week weeks"),
    )
    for unit in units.split()
}
_VARYING_UNITS = {"mon", "mons", "month", "months", "quarter", "quarters", "y", "yr", "yrs", "year", "years"}
_AMOUNT = re.compile(r"([+-]?\s*(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*([^\W\d_]+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window as written: the names of PARTITION BY are not yet those of a stream's columns."""

    window: Window
    span: Span
    partition_by: tuple[exp.Identifier, ...] = ()
    time: exp.Identifier | None = None
    """The column that TUMBLE, HOP and SESSION name, which must be the stream's time."""


@dataclass(frozen=True, slots=True)
class ParsedPairWindow:
    """A window of a pair of streams as written: the names are not yet those of streams."""

    left: exp.Identifier
    right: exp.Identifier
    length_us: int
    is_directed: bool
    span: Span


def parse_interval(text: str) -> int:
    """The microseconds of a length of time such as `90 seconds`, `1.5 h` or `1 hour 30 minutes`."""
    length_us = _length_us(text)
    if length_us < 0:
        raise ParseError(f"`{text}` is negative; give a length of time that is not")
    return length_us


def _length_us(text: str) -> int:
    amounts = list(_AMOUNT.finditer(text.strip()))
    if not amounts or "".join(amount[0] for amount in amounts) != text.strip():
        raise ParseError(f"`{text}` is not a length of time; write a number and a unit, as in `5 seconds`")
    total_us = sum(Decimal(re.sub(r"\s", "", amount[1])) * _unit_us(amount[2]) for amount in amounts)
    if abs(total_us) >= MAX_LENGTH:
        raise ParseError(f"`{text}` is too long; the longest length of time is {MAX_LENGTH} microseconds")
    if total_us != int(total_us):
        raise ParseError(f"`{text}` is no whole number of microseconds, the unit in which Sash keeps time; round it")
    return int(total_us)


def _unit_us(unit: str) -> int:
    if unit.lower() in _VARYING_UNITS:
        raise ParseError(f"the length of a `{unit}` varies; give days or weeks instead")
    if unit.lower() not in _UNITS_US:
        raise ParseError(f"`{unit}` is not a unit of time; use microseconds, milliseconds, seconds, minutes … weeks")
    return _UNITS_US[unit.lower()]


def parse_window(parser: Cursor, query: exp.Query) -> None:
    """Read the WINDOW or DWINDOW at the end of a query into `window` or `pair_windows` of its `meta`."""
    if not parser.is_bracketed():
        _refuse_both(parser, query, "pair_windows")
        if "window" in query.meta:
            parser.raise_error("Invalid expression")
        query.meta["window"] = _parse_query_window(parser)
        return
    _refuse_both(parser, query, "window")
    if "pair_windows" in query.meta:
        parser.fail("expected `AND` before the next window of a pair")
    if isinstance(query, exp.SetOperation):
        remedy = "put it into the brackets, behind the SELECT whose streams it names"
        parser.refuse("a window of a pair for a whole set operation", remedy)
    query.meta["pair_windows"] = _parse_pair_windows(parser)


def _refuse_both(parser: Cursor, query: exp.Query, other: str) -> None:
    if other in query.meta:
        reason = "a query has one `WINDOW` for all streams or windows of pairs, not both; remove one of them"
        raise ParseError(reason, parser.sql, parser.span_since(parser.index))


def _parse_query_window(parser: Cursor) -> WindowClause:
    parser.expect("WINDOW")
    start = parser.index
    if parser.is_aliased():
        parser.refuse(
            "a named window",
            "write behind each `OVER`, in brackets, what it stands for; `WINDOW` is one such as `WINDOW 1 MINUTE`",
        )
    window = _parse_amount_of_rows(parser) or _parse_time_window(parser)
    _refuse_slide(parser)
    return WindowClause(window, parser.span_since(start))


def _parse_pair_windows(parser: Cursor) -> tuple[ParsedPairWindow, ...]:
    pairs = [_parse_pair_window(parser)]
    while parser.take("AND"):
        pairs.append(_parse_pair_window(parser))
    if parser.at(","):
        parser.fail("expected `AND` before the next window of a pair")
    return tuple(pairs)


def _parse_pair_window(parser: Cursor) -> ParsedPairWindow:
    start = parser.index
    is_directed = parser.take("DWINDOW")
    if not is_directed and not parser.take("WINDOW"):
        parser.fail("expected `WINDOW` or `DWINDOW` and a pair of streams")
    if not parser.take("("):
        parser.fail("expected a pair of streams, as in `WINDOW (A, B) = 1 SECOND`,")
    left = parser.name("the name of a stream")
    parser.expect(",")
    right = parser.name("the name of a stream")
    parser.expect(")")
    parser.expect("=")
    length_us = _parse_pair_length(parser)
    return ParsedPairWindow(left, right, length_us, is_directed, parser.span_since(start))


def _parse_pair_length(parser: Cursor) -> int:
    start = parser.index
    if parser.take("ROWS") or parser.number_before("ROWS") is not None:
        remedy = "give a length of time, as in `1 SECOND`, or `[ROWS …]` after each stream"
        parser.refuse("a window of a pair that counts rows", remedy, parser.span_since(start))
    length_us = parse_length(parser, "a window")
    if parser.at("SLIDE"):
        parser.refuse("`SLIDE` of a window of a pair", "remove it; the window slides with every tuple")
    return length_us


def parse_stream_window(parser: Cursor) -> WindowClause:
    """A window in brackets, the opening one being the current token."""
    start = parser.index
    parser.expect("[")
    partition_by = tuple(parser.names("a column to partition by")) if parser.take("PARTITION BY") else ()
    window = _parse_rows(parser) if partition_by else _parse_bracketed(parser)
    _refuse_slide(parser)
    parser.expect("]")
    return WindowClause(window, parser.span_since(start), partition_by)


def parse_length(parser: Cursor, what: str, remedy: str = "give a positive length") -> int:
    """A length of time longer than zero, in microseconds; `what` names it in errors, `remedy` says what else to do."""
    start = parser.index
    length_us = parse_signed_length(parser, what)
    if length_us <= 0:
        span = parser.span_since(start)
        words = parser.sql[span.start : span.end].removeprefix("INTERVAL").strip(" '")
        raise ParseError(f"{what} must be longer than zero, not `{words}`; {remedy}", parser.sql, span)
    return length_us


def parse_signed_length(parser: Cursor, what: str) -> int:
    """A length of time, which may be negative, in microseconds."""
    start = parser.index
    if parser.at_parameter():
        given = parser.given(f"the length of {what}", (timedelta, str), "timedelta(minutes=5)` or `'5 minutes'")
        if isinstance(given, timedelta):
            return given // timedelta(microseconds=1)
        try:
            return _length_us(given)
        except ParseError as error:
            raise BindError(error.reason, parser.sql, parser.span_since(start)) from None
    words = parse_words(parser, what)
    try:
        return _length_us(words)
    except ParseError as error:
        raise ParseError(error.reason, parser.sql, parser.span_since(start)) from None


def parse_words(parser: Cursor, what: str) -> str:
    """A length of time as it is written, its number before its unit."""
    parser.take("INTERVAL")
    if not parser.at_string():
        words = parser.amounts()
    elif re.fullmatch(r"[-+\s\d.]+", words := parser.string("a length of time")):
        words += " " + parser.word("a unit of time, as in `5 SECONDS`")
    if not words:
        parser.fail(f"expected the length of {what}, as in `5 SECONDS`,")
    return words


def _parse_bracketed(parser: Cursor) -> Window:
    if parser.take("RANGE"):
        return _parse_time_window(parser)
    if parser.take("NOW"):
        return TimeWindow(NOW_US)
    if parser.take("UNBOUNDED"):
        return UnboundedWindow()
    if parser.take("SINCE"):
        return SinceWindow(_parse_instant(parser))
    if parser.at("ROWS"):
        return _parse_rows(parser)
    parser.fail("expected `RANGE`, `ROWS`, `PARTITION BY`, `NOW`, `UNBOUNDED` or `SINCE`")


def _parse_time_window(parser: Cursor) -> TimeWindow:
    length_us = parse_length(parser, "a window")
    remedy = "leave `SLIDE` out to have the window slide with every tuple"
    return TimeWindow(length_us, parse_length(parser, "a slide", remedy) if parser.take("SLIDE") else None)


def _parse_rows(parser: Cursor) -> RowsWindow:
    parser.expect("ROWS")
    start = parser.index
    number = parser.number("a number of rows")
    return _count_window(parser, number, parser.span_since(start))


def _parse_amount_of_rows(parser: Cursor) -> RowsWindow | None:
    start = parser.index
    number = parser.number_before("ROWS")
    return None if number is None else _count_window(parser, number, parser.span_since(start))


def _count_window(parser: Cursor, number: Decimal, span: Span) -> RowsWindow:
    if not 1 <= number < MAX_LENGTH or number != int(number):
        reason = f"a window must hold at least one row and whole rows, not `{number}`; give a positive whole number"
        raise ParseError(reason, parser.sql, span)
    return RowsWindow(int(number))


def _parse_instant(parser: Cursor) -> int:
    start = parser.index
    next(filter(parser.take, ("TIMESTAMP", "TIMESTAMPTZ", "DATE")), None)
    literal = parser.string("a timestamp, as in `SINCE TIMESTAMP '2026-01-31 12:00:00'`,")
    try:
        return duck.timestamp_us(literal)
    except duckdb.Error:
        reason = f"`{literal}` is not a timestamp; write it as `2026-01-31 12:00:00`"
        raise ParseError(reason, parser.sql, parser.span_since(start)) from None


def _refuse_slide(parser: Cursor) -> None:
    if parser.at("SLIDE"):
        parser.refuse("`SLIDE` of a window that is no length of time", "remove it or write `RANGE` and a length")
