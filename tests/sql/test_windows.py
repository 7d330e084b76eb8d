"""Window clauses and lengths of time."""

from __future__ import annotations

import pytest

from sash.errors import ParseError
from sash.sql.parse import parse_query
from sash.sql.parsed import ParsedSelect
from sash.sql.window_kinds import RowsWindow, SinceWindow, TimeWindow, UnboundedWindow, Window
from sash.sql.windows import WindowClause, parse_interval

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("text", "length_us"),
    [
        ("5 us", 5),
        ("5 microseconds", 5),
        ("1ms", 1_000),
        ("250 milliseconds", 250_000),
        ("1 s", SECOND),
        ("90 SECONDS", 90 * SECOND),
        ("1 m", MINUTE),
        ("1 min", MINUTE),
        ("1.5 HOURS", 90 * MINUTE),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1 day", 24 * HOUR),
        ("2 weeks", 14 * 24 * HOUR),
        ("  1e3 ms ", SECOND),
        ("1 hour -30 minutes", 30 * MINUTE),
        ("0 seconds", 0),
    ],
)
def test_parse_interval(text: str, length_us: int) -> None:
    assert parse_interval(text) == length_us


@pytest.mark.parametrize("text", ["", "5", "seconds", "5 seconds and", "5 fortnights", "1 month", "-5 s", "1.5 us"])
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises(ParseError):
        parse_interval(text)


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("WINDOW 1 MINUTE", TimeWindow(MINUTE)),
        ("WINDOW 1 HOUR 30 MINUTES", TimeWindow(90 * MINUTE)),
        ("window 1.5 hours", TimeWindow(90 * MINUTE)),
        ("WINDOW '1 hour'", TimeWindow(HOUR)),
        ("WINDOW INTERVAL '5 minutes'", TimeWindow(5 * MINUTE)),
        ("WINDOW INTERVAL '5' MINUTE", TimeWindow(5 * MINUTE)),
        ("WINDOW INTERVAL 5 MINUTES", TimeWindow(5 * MINUTE)),
        ("WINDOW 50 ROWS", RowsWindow(50)),
        ("WINDOW 1 HOUR SLIDE 5 MINUTES", TimeWindow(HOUR, 5 * MINUTE)),
        ("WINDOW '5 minutes' SLIDE INTERVAL '1' HOUR", TimeWindow(5 * MINUTE, HOUR)),
    ],
)
def test_window_of_the_query(clause: str, window: Window) -> None:
    parsed = parse_query(f"SELECT a FROM s {clause} EMIT CHANGES")
    assert isinstance(parsed.window, WindowClause)
    assert parsed.window.window == window
    assert parsed.emit_changes


@pytest.mark.parametrize(
    "place", ["s {}", "s {} AS t", "s {} t", "s t {}", "s AS t {}", "other, s {}", "o JOIN s t {} ON 1 = 1"]
)
@pytest.mark.parametrize(
    ("bracket", "window"),
    [
        ("[RANGE 1 HOUR]", TimeWindow(HOUR)),
        ("[RANGE 12 HOURS SLIDE 1 HOUR 30 MINUTES]", TimeWindow(12 * HOUR, 90 * MINUTE)),
        ("[ROWS 100]", RowsWindow(100)),
        ("[NOW]", TimeWindow(1)),
        ("[UNBOUNDED]", UnboundedWindow()),
        ("[SINCE TIMESTAMP '1970-01-01 00:00:01']", SinceWindow(SECOND)),
        ("[SINCE DATE '1970-01-02']", SinceWindow(24 * HOUR)),
        ("[SINCE '1970-01-01 02:00:00+02']", SinceWindow(0)),
    ],
)
def test_window_of_a_stream(place: str, bracket: str, window: Window) -> None:
    select = parse_query(f"SELECT a FROM {place.format(bracket)}")
    assert isinstance(select, ParsedSelect)
    clause = select.sources[-1].window
    assert isinstance(clause, WindowClause)
    assert clause.window == window


def test_partitioned_window() -> None:
    select = parse_query('SELECT a FROM s [partition\n by a, "B b" rows 3]')
    assert isinstance(select, ParsedSelect)
    clause = select.sources[0].window
    assert isinstance(clause, WindowClause)
    assert clause.window == RowsWindow(3)
    assert [name.name for name in clause.partition_by] == ["a", "B b"]


def spelled(text: str) -> list[tuple[str, str, int, bool]]:
    select = parse_query(f"SELECT 1 FROM a A, b B, c C {text}")
    assert isinstance(select, ParsedSelect)
    assert select.window is None
    return [(pair.left.name, pair.right.name, pair.length_us, pair.is_directed) for pair in select.pair_windows]


@pytest.mark.parametrize(
    ("length", "length_us"),
    [
        ("1 SECOND", SECOND),
        ("500 ms", SECOND // 2),
        ("1 HOUR 30 MINUTES", 90 * MINUTE),
        ("'1 hour'", HOUR),
        ("INTERVAL '5 minutes'", 5 * MINUTE),
        ("INTERVAL '5' MINUTE", 5 * MINUTE),
        ("INTERVAL 5 MINUTES", 5 * MINUTE),
    ],
)
@pytest.mark.parametrize(("word", "is_directed"), [("WINDOW", False), ("DWINDOW", True), ("dWindow", True)])
def test_window_of_a_pair(word: str, is_directed: bool, length: str, length_us: int) -> None:
    assert spelled(f"{word} (A, B) = {length}") == [("A", "B", length_us, is_directed)]


@pytest.mark.parametrize(
    "text",
    [
        "WINDOW (A, B) = 1 SECOND AND DWINDOW (B, C) = 2 SECONDS AND WINDOW (C, A) = 1 MINUTE",
        "WHERE A.x = B.x AND B.y = C.y WINDOW(A,B)=1s AND DWINDOW(B,C)=2s AND WINDOW(C,A)=1m EMIT CHANGES",
        "GROUP BY 1 HAVING 1 = 1\nwindow\n( \"A\" , B ) = 1 s and dwindow (B, C) = '2 s' AND\nWINDOW (C, A) = 60 s",
    ],
)
def test_windows_of_pairs(text: str) -> None:
    assert spelled(text) == [("A", "B", SECOND, False), ("B", "C", 2 * SECOND, True), ("C", "A", MINUTE, False)]


def test_the_place_of_windows_of_pairs() -> None:
    clause = "WINDOW (A, B) = 1 s AND DWINDOW (B, C) = INTERVAL '2' SECONDS"
    select = parse_query(f"SELECT 1 FROM a A, b B, c C {clause} EMIT CHANGES")
    assert isinstance(select, ParsedSelect)
    places = [pair.span for pair in select.pair_windows] + [select.spans["window"]]
    assert [select.text[place.start : place.end] for place in places] == [*clause.split(" AND "), clause]
