"""Interval joins bound: what conditions say about times, which of them are said by that alone, and what is kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sash
from sash.errors import PlanError
from sash.sql.bind import bind
from sash.sql.bound_query import BoundQuery
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.interval_graph import IntervalGraph, TimeBound
from sash.sql.interval_joins import is_said_by_reach
from sash.sql.parse import parse_query
from sash.sql.window_kinds import UnboundedWindow

SECOND = 1_000_000
DAY = 86_400 * SECOND
MICROSECONDS = pa.timestamp("us")


def catalog_of(time: pa.DataType) -> Catalog:
    schema = pa.schema({"ts": time, "k": pa.int64(), "other": time})
    return {name: StreamInfo(schema, "ts") for name in "abc"}


def bind_join(condition: str, time: pa.DataType = MICROSECONDS, streams: str = "a A, b B") -> BoundQuery:
    bound = bind(parse_query(f"SELECT A.k FROM {streams} WHERE {condition}"), catalog_of(time))
    assert isinstance(bound, BoundQuery)
    return bound


def reach_of(bound: BoundQuery) -> tuple[int, int]:
    """How much newer B may be than A, and A than B."""
    assert bound.interval_graph is not None
    return bound.interval_graph.reach_us[0][1], bound.interval_graph.reach_us[1][0]


def is_said(bound: BoundQuery) -> list[bool]:
    return [is_said_by_reach(conjunct, bound.sources) for conjunct in bound.conjuncts]


@pytest.mark.parametrize(
    ("condition", "reach"),
    [
        ("B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR", (3600 * SECOND, 0)),
        ("B.ts BETWEEN A.ts - INTERVAL '5' MINUTE AND A.ts + INTERVAL '1 hour'", (3600 * SECOND, 300 * SECOND)),
        ("B.ts >= A.ts AND B.ts < A.ts + INTERVAL 2 SECONDS", (2 * SECOND - 1, 0)),
        ("A.ts <= B.ts AND A.ts + INTERVAL 2 SECONDS > B.ts", (2 * SECOND - 1, 0)),
        ("A.ts >= B.ts - INTERVAL 2 SECONDS AND NOT (1 = 2) AND B.ts >= A.ts", (2 * SECOND, 0)),
        ("B.ts - A.ts BETWEEN -INTERVAL 1 SECOND AND INTERVAL 2 SECONDS", (2 * SECOND, SECOND)),
        ("(A.ts + INTERVAL 1 MINUTE) + INTERVAL 1 SECOND >= B.ts AND (B.ts >= A.ts)", (61 * SECOND, 0)),
        ("B.ts <= A.ts + 2 * INTERVAL 1 DAY AND A.ts <= B.ts + INTERVAL '1 day 2 s'", (2 * DAY, DAY + 2 * SECOND)),
    ],
)
def test_bounds_that_are_all_that_conditions_say(condition: str, reach: tuple[int, int]) -> None:
    bound = bind_join(condition)
    assert reach_of(bound) == reach
    assert all(said for said, part in zip(is_said(bound), bound.conjuncts) if "ts" in part.sql())
    assert all(isinstance(source.window, UnboundedWindow) for source in bound.sources)


@pytest.mark.parametrize(
    ("condition", "reach"),
    [
        # What is certain to be older is left to the condition.
        ("B.ts BETWEEN A.ts + INTERVAL 1 SECOND AND A.ts + INTERVAL 3 SECONDS", (3 * SECOND, 0)),
        ("A.ts BETWEEN B.ts + INTERVAL 1 SECOND AND B.ts + INTERVAL 3 SECONDS", (0, 3 * SECOND)),
        # The longest months have 31 days.
        ("B.ts BETWEEN A.ts AND A.ts + INTERVAL 2 MONTHS", (62 * DAY + 1, 0)),
        # An equality is a key.
        ("A.ts = B.ts", (0, 0)),
    ],
)
def test_bounds_that_leave_something_to_check(condition: str, reach: tuple[int, int]) -> None:
    bound = bind_join(condition)
    assert reach_of(bound) == reach
    assert is_said(bound) == [False]


def test_nanoseconds_are_checked_to_the_end() -> None:
    bound = bind_join("B.ts >= A.ts AND B.ts < A.ts + INTERVAL 1 SECOND", pa.timestamp("ns"))
    assert reach_of(bound) == (SECOND + 1, 1)
    assert is_said(bound) == [False, False]


def test_times_that_are_integers_or_dates_or_zoned() -> None:
    assert reach_of(bind_join("B.ts BETWEEN A.ts - 3 AND A.ts + 5", pa.int64())) == (5, 3)
    assert reach_of(bind_join("B.ts - A.ts BETWEEN -3 AND 5", pa.int64())) == (5, 3)
    between = "B.ts BETWEEN A.ts - INTERVAL 1 DAY AND A.ts + INTERVAL 2 DAYS"
    assert reach_of(bind_join(between, pa.date32())) == (2 * DAY, DAY)
    assert reach_of(bind_join(between, pa.timestamp("ms", "UTC"))) == (2 * DAY, DAY)


def test_times_with_and_without_zone_are_instants_alike() -> None:
    rows = {name: pa.array([5, 9], pa.timestamp("us", zone)) for name, zone in (("a", None), ("b", "UTC"))}
    frames = {name: sash.stream(pa.table({"ts": times}), time="ts") for name, times in rows.items()}
    text = "SELECT A.ts AS a, B.ts AS b FROM a A, b B WHERE B.ts BETWEEN A.ts AND A.ts + INTERVAL 3 MICROSECONDS"
    assert sash.sql(text, **frames).column("a").cast(pa.int64()).to_pylist() == [5, 9]
    wider = text.replace("INTERVAL 3", "INTERVAL 4")
    assert sash.sql(wider, **frames).column("b").cast(pa.int64()).to_pylist() == [5, 9, 9]


def test_bounds_add_up_along_ways() -> None:
    condition = "B.ts BETWEEN A.ts AND A.ts + INTERVAL 3 SECONDS AND C.ts BETWEEN B.ts AND B.ts + INTERVAL 2 SECONDS"
    graph = bind_join(condition, streams="a A, b B, c C").interval_graph
    assert graph is not None
    assert graph.reach_us == ((0, 3 * SECOND, 5 * SECOND), (0, 0, 2 * SECOND), (0, 0, 0))


def test_two_conditions_for_one_side_are_the_narrower_one() -> None:
    bound = bind_join("B.ts BETWEEN A.ts AND A.ts + INTERVAL 9 SECONDS AND B.ts <= A.ts + INTERVAL 2 SECONDS")
    assert reach_of(bound) == (2 * SECOND, 0)
    assert is_said(bound) == [True, True]


@pytest.mark.parametrize(
    "condition",
    [
        "A.k = B.k",
        "B.other BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR",
        "B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR * A.k",
        "A.ts >= TIMESTAMP '2026-01-01' AND B.ts <= TIMESTAMP '2026-01-02'",
        "B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR OR A.k = 1",
        "date_trunc('hour', A.ts) = B.ts",
    ],
)
def test_what_says_nothing_about_how_far_apart_times_are(condition: str) -> None:
    with pytest.raises(PlanError, match="window missing on the join: `A` would have to be kept for ever"):
        bind_join(condition)


def test_one_side_alone_is_not_enough() -> None:
    with pytest.raises(PlanError, match=r"how much later `B` may come; add one such as `B.ts <= A.ts"):
        bind_join("B.ts >= A.ts AND A.k = B.k")
    with pytest.raises(PlanError, match=r"`A` would have to be kept for ever.*how much later `C` may come"):
        bind_join("B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR AND A.k = C.k", streams="a A, b B, c C")


def test_windows_are_what_they_were() -> None:
    bound = bind(parse_query("SELECT A.k FROM a A, b B WHERE B.ts <= A.ts WINDOW 1 MINUTE"), catalog_of(pa.int64()))
    assert isinstance(bound, BoundQuery)
    assert bound.interval_graph is None


def test_what_has_to_keep_rows_that_stay_is_refused() -> None:
    rows = pa.table({"ts": pa.array([1], pa.int64()), "k": pa.array([1], pa.int64())})
    join = "FROM a A JOIN a B ON A.k = B.k AND B.ts BETWEEN A.ts AND A.ts + 5"
    for text in (f"SELECT DISTINCT A.k {join}", f"SELECT A.k {join} EXCEPT SELECT k FROM a [RANGE 5 us]"):
        with pytest.raises(
            PlanError, match=r"the window of `A` never lets a tuple go, so (DISTINCT|EXCEPT) would have"
        ):
            sash.sql(text, a=sash.stream(rows, time="ts"))


@pytest.mark.slow
def test_rows_are_let_go_when_nothing_to_come_can_meet_them() -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    frames = {name: sash.stream(schema, time="ts") for name in "ab"}
    query = sash.query("SELECT A.k FROM a A, b B WHERE A.k = B.k AND B.ts BETWEEN A.ts - 10 AND A.ts + 40", **frames)
    most = 0
    for start in range(0, 4000, 20):
        times = pa.array(range(start, start + 20), pa.int64())
        for name in "ab":
            query.push(name, pa.table([times, times], schema=schema))
        most = max(most, query.n_state_rows)
    # 41 of a and 11 of b, an eighth more, and what a step brings.
    assert most <= (41 + 11) * 9 / 8 + 2 * 20


def test_the_graph_tells_what_nothing_bounds() -> None:
    assert IntervalGraph(("A", "B"), (TimeBound("A", "B", 5, True),)).unbounded == ("B", "A")
    assert IntervalGraph(("A", "B"), (TimeBound("A", "B", 5, True), TimeBound("B", "A", -1, True))).unbounded is None
