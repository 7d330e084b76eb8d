"""TUMBLE, HOP and SESSION read and bound, in all the ways in which others write them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sash
from sash.errors import BindError, ParseError, PlanError
from sash.sql.bind import bind
from sash.sql.bound_query import BoundQuery
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.parse import parse_query
from sash.sql.window_kinds import CalendarWindow, HopWindow, SessionWindow, TableWindow

MINUTE = 60_000_000
STREAM = StreamInfo(pa.schema({"at": pa.timestamp("ms", "UTC"), "k": pa.int64()}), "at")
LISTS = StreamInfo(pa.schema({"at": pa.int64(), "l": pa.list_(pa.int64())}), "at")
CATALOG: Catalog = {"s": STREAM, "w": StreamInfo(pa.schema({"at": pa.int64(), "Window_End": pa.int64()}), "at")}
CATALOG["lists"] = LISTS


def bind_select(text: str) -> BoundQuery:
    bound = bind(parse_query(text), CATALOG)
    assert isinstance(bound, BoundQuery)
    return bound


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("TUMBLE(s, at, INTERVAL '1 minute')", HopWindow(MINUTE, MINUTE)),
        ("tumble(S, \"AT\", INTERVAL '1' MINUTE) t", HopWindow(MINUTE, MINUTE)),
        ("TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTES)) AS t", HopWindow(MINUTE, MINUTE)),
        ("TUMBLE(s, at, INTERVAL 1 MINUTE, INTERVAL 5 SECONDS)", HopWindow(MINUTE, MINUTE, 5_000_000)),
        ("TUMBLE(s, at, INTERVAL 1 MINUTE, INTERVAL '-5 seconds')", HopWindow(MINUTE, MINUTE, 55_000_000)),
        ("HOP(s, at, INTERVAL '20 s', INTERVAL '1 minute')", HopWindow(MINUTE, 20_000_000)),
        ("TABLE(HOP(TABLE s, DESCRIPTOR(at), 20 s, 1 minute, 10 s))", HopWindow(MINUTE, 20_000_000, 10_000_000)),
        ("TUMBLE(s, at, INTERVAL '1 month')", CalendarWindow("month", 1, "UTC")),
        ("TUMBLE(s, at, INTERVAL '2 quarters', 'Europe/Berlin')", CalendarWindow("month", 6, "Europe/Berlin")),
        ("TUMBLE(s, at, 1 YEAR, 'UTC')", CalendarWindow("month", 12, "UTC")),
        ("TUMBLE(s, at, INTERVAL '1 day', 'Europe/Berlin')", CalendarWindow("day", 1, "Europe/Berlin")),
        (
            "TABLE(TUMBLE(TABLE s, DESCRIPTOR(at), INTERVAL '1' WEEK, 'Etc/GMT+1')) t",
            CalendarWindow("week", 1, "Etc/GMT+1"),
        ),
        ("TUMBLE(s, at, INTERVAL '1 day')", HopWindow(24 * 60 * MINUTE, 24 * 60 * MINUTE)),
        ("TUMBLE(s, at, '1 day', '6 hours')", HopWindow(24 * 60 * MINUTE, 24 * 60 * MINUTE, 6 * 60 * MINUTE)),
        ("SESSION(s, at, INTERVAL '1 minute')", SessionWindow(MINUTE)),
        ("session(S partition by K, AT, 1 minute) t", SessionWindow(MINUTE, ("k",))),
        ("SESSION(s PARTITION BY (k, at), at, 1 minute)", SessionWindow(MINUTE, ("k", "at"))),
        ("TABLE(SESSION(TABLE s, DESCRIPTOR(at), INTERVAL '1' MINUTE))", SessionWindow(MINUTE)),
        (
            "TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(at), INTERVAL '1' MINUTE)) AS t",
            SessionWindow(MINUTE, ("k",)),
        ),
    ],
)
def test_windows_in_from(text: str, window: TableWindow) -> None:
    bound = bind_select(f"SELECT * FROM {text}")
    assert bound.sources[0].window == window
    assert [output.name for output in bound.outputs] == ["at", "k", "window_start", "window_end"]
    assert {output.type for output in bound.outputs[2:]} == {pa.timestamp("us", "UTC")}


@pytest.mark.parametrize(
    ("outputs", "groups"),
    [
        ("window_start", ["window_start"]),
        ("HOP_END(at, 20 s, 1 minute)", ["window_end"]),
        ("hop_start(at, 20 s, 1 minute), HOP_END(at, 20 s, 1 minute)", ["window_start", "window_end"]),
        ("COUNT(*)", ["window_start"]),
    ],
)
def test_windows_in_group_by(outputs: str, groups: list[str]) -> None:
    bound = bind_select(f"SELECT {outputs} FROM s A GROUP BY k, HOP(A.at, 20 s, 1 minute)")
    assert bound.sources[0].window == HopWindow(MINUTE, 20_000_000)
    assert bound.groups is not None
    assert [group.name for group in bound.groups] == ["k", *groups]


@pytest.mark.parametrize(
    ("outputs", "groups"),
    [
        ("window_start", ["window_start"]),
        ("SESSION_END(at, 1 minute)", ["window_end"]),
        ("session_start(at, 1 minute), SESSION_END(at, 1 minute)", ["window_start", "window_end"]),
        ("COUNT(*)", ["window_start"]),
    ],
)
def test_sessions_in_group_by_are_of_what_else_is_grouped_by(outputs: str, groups: list[str]) -> None:
    bound = bind_select(f"SELECT {outputs} FROM s A GROUP BY k, SESSION(A.at, 1 minute)")
    assert bound.sources[0].window == SessionWindow(MINUTE, ("k",))
    assert bound.groups is not None
    assert [group.name for group in bound.groups] == ["k", *groups]
    alone = bind_select("SELECT COUNT(*) FROM s GROUP BY SESSION(at, 1 minute)")
    assert alone.sources[0].window == SessionWindow(MINUTE)


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("SELECT 1 FROM TUMBLE(s, k, 1 minute)", BindError, "the time of `s` is `at`, not `k`; name that"),
        ("SELECT 1 FROM TUMBLE(s, x, 1 minute)", BindError, "`s` has no column `x`"),
        ("SELECT 1 FROM TUMBLE(w, at, 1 minute)", BindError, "`w` has a column `window_end` already"),
        ("SELECT 1 FROM TUMBLE(s, at, 0 minutes)", ParseError, "a window must be longer than zero"),
        ("SELECT 1 FROM HOP(s, at, 1 day, 1 month)", ParseError, "the length of a `month` varies"),
        ("SELECT 1 FROM HOP(s, at, 1 h, 1 day, 'UTC')", ParseError, "`UTC` is not a length of time"),
        ("SELECT 1 FROM TUMBLE(s, at, 0 months)", ParseError, "windows of the calendar are whole days, weeks, months"),
        ("SELECT 1 FROM TUMBLE(s, at, '1 month 2 days')", ParseError, "windows of the calendar are whole days, weeks"),
        (
            "SELECT 1 FROM TUMBLE(s, at, 1.5 months)",
            ParseError,
            "windows of the calendar are whole days, weeks, months",
        ),
        ("SELECT 1 FROM TUMBLE(s, at, 20000 days, 'UTC')", ParseError, "windows of the calendar are whole days, weeks"),
        ("SELECT 1 FROM TUMBLE(s, at, 6 hours, 'UTC')", ParseError, "windows of the calendar are whole days, weeks"),
        ("SELECT 1 FROM TUMBLE(s, at, 1 day, 'Berlin')", BindError, "there is no time zone `Berlin`; "),
        ("SELECT 1 FROM TUMBLE(s, at, 1 day, '')", BindError, "there is no time zone ``; "),
        ("SELECT 1 FROM TUMBLE(s, at, 1 day, '../etc/passwd')", ParseError, "`../etc/passwd` is not a length of time"),
        ("SELECT 1 FROM TUMBLE(s, at, 1 day, 'Europe')", BindError, "there is no time zone `Europe`; "),
        ("SELECT 1 FROM TUMBLE(s, at, 1 month, 1 day)", PlanError, "an offset of windows of the calendar cannot run"),
        ("SELECT 1 FROM HOP(s, at, 1 ms, 1 minute)", PlanError, "each row would be in 60000 windows, and 1000 are"),
        ("SELECT 1 FROM TABLE(s)", ParseError, "expected `TUMBLE`, `HOP` or `SESSION`"),
        ("SELECT 1 FROM TUMBLE(s, at, 1 s) t [NOW]", ParseError, "`s` has two windows; remove one of them"),
        ("SELECT 1 FROM s [NOW] GROUP BY TUMBLE(at, 1 s)", ParseError, "`s` has two windows; remove one of them"),
        ("SELECT 1 FROM s a, s b GROUP BY TUMBLE(a.at, 1 s)", PlanError, "`TUMBLE` in the `GROUP BY` of a join"),
        ("SELECT TUMBLE(at, 1 s) FROM s", PlanError, "`TUMBLE` here cannot run in this version"),
        ("SELECT TUMBLE_END(at, 2 s) FROM s GROUP BY TUMBLE(at, 1 s)", PlanError, "`TUMBLE_END` here cannot run"),
        ("SELECT 1 FROM s GROUP BY TUMBLE(at, 1 s), HOP(at, 1 s, 2 s)", PlanError, "`HOP` here cannot run"),
        ("SELECT 1 FROM SESSION(s, k, 1 minute)", BindError, "the time of `s` is `at`, not `k`; name that"),
        ("SELECT 1 FROM SESSION(s PARTITION BY x, at, 1 s)", BindError, "`s` has no column `x`"),
        ("SELECT 1 FROM SESSION(s, at, 0 s)", ParseError, "the gap between sessions must be longer than zero"),
        ("SELECT 1 FROM SESSION(s, at, 1 month)", ParseError, "the length of a `month` varies"),
        ("SELECT 1 FROM SESSION(s, at)", ParseError, "expected `,` but found `)`"),
        ("SELECT 1 FROM SESSION(lists PARTITION BY l, at, 1 s)", BindError, "`SESSION` cannot tell values of BIGINT[]"),
        ("SELECT 1 FROM TUMBLE(s PARTITION BY k, at, 1 s)", ParseError, "expected `,` but found `PARTITION BY`"),
        ("SELECT SESSION(at, 1 s) FROM s", PlanError, "`SESSION` here cannot run in this version; write the window in"),
        (
            "SELECT 1 FROM s GROUP BY SESSION(at, 1 s), k + 1",
            PlanError,
            "`SESSION` in a `GROUP BY` of more than columns",
        ),
        ("SELECT 1 FROM s WHERE k > 1 GROUP BY SESSION(at, 1 s)", PlanError, "`WHERE` before `GROUP BY SESSION(…)`"),
        ("SELECT SESSION_END(at, 2 s) FROM s GROUP BY SESSION(at, 1 s)", PlanError, "`SESSION_END` here cannot run"),
    ],
)
def test_what_is_refused(text: str, error: type, reason: str) -> None:
    with pytest.raises(error) as caught:
        bind_select(text)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT COUNT(*) FROM TUMBLE(s, at, 1 s)", "needs groups of one window each; group by `window_start` or"),
        ("SELECT k, COUNT(*) FROM TUMBLE(s, at, 1 s) GROUP BY k", "needs groups of one window each"),
        ("SELECT k FROM s [NOW]", "needs one stream with `TUMBLE`, `HOP` or `SESSION`; read one, beside"),
        (
            "SELECT a.k FROM TUMBLE(s, at, 1 s) a, TUMBLE(s, at, 1 s) b",
            "needs one stream with `TUMBLE`, `HOP` or `SESSION`",
        ),
        (
            "SELECT window_start, COUNT(*) FROM SESSION(s PARTITION BY k, at, 1 s) GROUP BY window_start",
            "needs groups of one session each, and sessions of each `k` may begin at one time; group by",
        ),
        ("SELECT DISTINCT k FROM TUMBLE(s, at, 1 s)", "cannot stand with `DISTINCT`, `IN` or `EXISTS`"),
        ("SELECT k FROM TUMBLE(s, at, 1 s) EMIT CHANGES", "and `EMIT CHANGES` exclude each other"),
        (
            "SELECT k FROM s [NOW] UNION ALL SELECT k FROM TUMBLE(s, at, 1 s)",
            "cannot stand in a part of a set operation",
        ),
    ],
)
def test_what_has_no_final_results(text: str, reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        bind_select(f"{text} EMIT ON WINDOW CLOSE")
    assert str(caught.value).startswith(f"`EMIT ON WINDOW CLOSE` {reason}")


def test_windows_that_show_what_is_final() -> None:
    for text in (
        "SELECT k FROM TUMBLE(s, at, 1 minute) EMIT ON WINDOW CLOSE",
        "(SELECT k FROM TUMBLE(s, at, 1 minute)) EMIT ON WINDOW CLOSE",
        "SELECT window_end FROM s GROUP BY TUMBLE(at, 1 minute) EMIT ON WINDOW CLOSE",
    ):
        assert bind_select(text).sources[0].window == HopWindow(MINUTE, MINUTE, is_final=True)


def test_windows_of_the_calendar_in_group_by() -> None:
    bound = bind_select("SELECT TUMBLE_END(at, 1 month, 'UTC') FROM s GROUP BY TUMBLE(at, 1 month), k")
    assert bound.sources[0].window == CalendarWindow("month", 1, "UTC")
    final = bind_select("SELECT k FROM TUMBLE(s, at, 1 month) EMIT ON WINDOW CLOSE")
    assert final.sources[0].window == CalendarWindow("month", 1, "UTC", is_final=True)


def test_sessions_that_show_what_is_final() -> None:
    for text in (
        "SELECT k FROM SESSION(s PARTITION BY k, at, 1 minute)",
        "SELECT COUNT(*) FROM SESSION(s PARTITION BY k, at, 1 minute) GROUP BY window_end",
        "SELECT COUNT(*) FROM SESSION(s PARTITION BY k, at, 1 minute) GROUP BY window_start, k",
        "SELECT window_end FROM s GROUP BY SESSION(at, 1 minute), k",
    ):
        window = bind_select(f"{text} EMIT ON WINDOW CLOSE").sources[0].window
        assert window == SessionWindow(MINUTE, ("k",), is_final=True)


@pytest.mark.parametrize("name", ["tumble", "session"])
def test_a_stream_may_be_called_as_a_window(name: str) -> None:
    bound = bind(parse_query(f"SELECT {name}.at FROM {name}"), {name: STREAM})
    assert bound.outputs[0].name == "at"


@pytest.mark.slow
def test_rows_are_kept_until_their_window_ends() -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    text = "SELECT window_start, COUNT(DISTINCT k) AS n FROM HOP(s, ts, 20 us, 40 us) GROUP BY window_start"
    query = sash.query(text, s=sash.stream(schema, time="ts"))
    most = 0
    for start in range(0, 4000, 10):
        times = pa.array(range(start, start + 10), pa.int64())
        query.push("s", pa.table([times, times], schema=schema))
        most = max(most, query.n_state_rows)
    # 60 are in windows that are open, an eighth more, and what a step brings, once for each window.
    assert most <= 60 * 9 / 8 + 2 * 10
