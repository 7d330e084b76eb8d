"""The reference evaluator, against timelines worked out by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.oracle.reference import NEVER, find_lives, find_stream_lives, split_late
from sash.oracle.row_keys import row_key, row_keys
from sash.sql.bound_query import BoundQuery
from sash.sql.catalog import StreamInfo
from sash.sql.window_kinds import RowsWindow, TimeWindow, Window
from sash.testing import bind_frames, draw, evaluate, expected_changes, stream_of

S = stream_of("""
    ts | k    | v
    1  | a    | 1
    2  | b    | 2
    2  | a    | 3
    5  | NULL | 4
    6  | NULL | 5
""")


def lives(window: str, **stream: Any) -> list[tuple]:
    bound, tables = bind_frames(f"SELECT v FROM s {window}", {"s": sash.stream(S, time="ts", **stream)})
    assert isinstance(bound, BoundQuery)
    found = [(life.enters, life.leaves, life.expires) for life in find_lives(bound.sources[0], tables["s"])]
    return [tuple("never" if time == NEVER else time for time in life) for life in found]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[RANGE 3 us]", [(1, 4, 4), (2, 5, 5), (2, 5, 5), (5, 8, 8), (6, 9, 9)]),
        ("[RANGE 3 us SLIDE 2 us]", [(2, 4, 4), (2, 6, 6), (2, 6, 6), (6, 8, 8), (6, 10, 10)]),
        ("[RANGE 1 us SLIDE 2 us]", [(2, 2, 2), (2, 4, 4), (2, 4, 4), (6, 6, 6), (6, 8, 8)]),
        ("[NOW]", [(1, 2, 2), (2, 3, 3), (2, 3, 3), (5, 6, 6), (6, 7, 7)]),
        ("[ROWS 2]", [(1, 2, "never"), (2, 6, "never"), (2, 5, "never"), (5, "never", "never"), (6, "never", "never")]),
        ("[ROWS 1]", [(1, 2, "never"), (2, 5, "never"), (2, 2, "never"), (5, 6, "never"), (6, "never", "never")]),
        (
            "[PARTITION BY k ROWS 1]",
            [(1, 2, "never"), (2, "never", "never"), (2, "never", "never"), (5, 6, "never"), (6, "never", "never")],
        ),
        ("[UNBOUNDED]", [(ts, "never", "never") for ts in (1, 2, 2, 5, 6)]),
        (
            "[SINCE TIMESTAMP '1970-01-01 00:00:00.000003']",
            [("never", "never", "never")] * 3 + [(5, "never", "never"), (6, "never", "never")],
        ),
    ],
)
def test_lives(window: str, expected: list[tuple]) -> None:
    assert lives(window) == expected


def is_in_window(window: Window, ts: list[int], number: int, instant: int) -> bool:
    """What the windows of DESIGN mean, word by word, of rows in order of time, all of one partition."""
    if isinstance(window, RowsWindow):
        here = [other for other in range(len(ts)) if ts[other] <= instant]
        return number in here[-window.n_rows :]
    assert isinstance(window, TimeWindow)
    now = instant if window.slide_us is None else instant // window.slide_us * window.slide_us
    return ts[number] <= now < ts[number] + window.length_us


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("slide", [None, 1, 2, 3, 4, 6])
def test_lives_are_what_the_window_says_at_every_instant(length: int, slide: int | None) -> None:
    ts = [-5, -3, -3, 0, 1, 2, 2, 4, 9, 10]
    table = pa.table({"ts": ts, "row": list(range(len(ts)))})
    windows: list[Window] = [TimeWindow(length, slide), RowsWindow(length)]
    for window in windows:
        found = find_stream_lives(StreamInfo(table.schema, "ts"), window, table)
        for instant in range(-8, 30):
            held = [life.enters <= instant < life.leaves for life in found]
            assert held == [is_in_window(window, ts, number, instant) for number in range(len(ts))]


def test_ties_are_broken_by_the_declared_column_before_content() -> None:
    """By content (a, 3) comes before (b, 2); by `v` it comes after it, and pushes it out."""
    assert lives("[ROWS 1]", tie="v")[1:3] == [(2, 2, "never"), (2, 5, "never")]


def test_changes_of_a_join() -> None:
    text = "SELECT A.v, B.v AS w FROM s A [RANGE 4 us], s B [ROWS 2] WHERE A.k = B.k AND A.v <> B.v"
    bound, tables = bind_frames(text, {"s": sash.stream(S, time="ts")})
    assert isinstance(bound, BoundQuery)
    assert (
        draw(expected_changes(bound, tables))
        == (
            "v | w | _op | _ts | _expires\n"
            "1 | 3 | 1   | 2   | 5\n"  # as B, (a, 3) would be pushed out at 5, the instant at which A's (a, 1) expires
        )[:-1]
    )


def test_emit_changes_ends_with_the_last_row() -> None:
    text = "SELECT v FROM s [RANGE 4 us] WHERE v < 3 EMIT CHANGES"
    bound, tables = bind_frames(text, {"s": sash.stream(S.slice(0, 4), time="ts")})
    assert isinstance(bound, BoundQuery)
    assert draw(expected_changes(bound, tables)).splitlines() == [
        "v | _op | _ts | _expires",
        "1 | 1   | 1   | 5",
        "2 | 1   | 2   | 6",
        "1 | -1  | 5   | 5",
    ]


def test_the_answer_at_an_instant() -> None:
    bound, tables = bind_frames("SELECT k FROM s [RANGE 4 us]", {"s": sash.stream(S, time="ts")})
    assert isinstance(bound, BoundQuery)
    assert evaluate(bound, tables, 2) == Counter({row_key(["a"]): 2, row_key(["b"]): 1})
    assert evaluate(bound, tables, 6) == Counter({row_key([None]): 2})
    assert evaluate(bound, tables, 0) == Counter()


def test_late_rows_are_older_than_any_before_by_more_than_the_slack() -> None:
    arrived = pa.table({"ts": [5, 4, 9, 6, 8, 7]})
    in_time, late, _ = split_late(arrived, StreamInfo(arrived.schema, "ts", slack_us=2))
    assert in_time.column("ts").to_pylist() == [5, 4, 9, 8, 7]
    assert late.column("ts").to_pylist() == [6]


def test_keys_order_values_and_tell_them_apart() -> None:
    nan = float("nan")
    values = pa.table({"x": [None, float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf"), nan]})
    keys = row_keys(values)
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert row_key([nan]) == row_key([float("nan")])
