"""TUMBLE by the calendar: in which day, week or month of a zone a row is, against DuckDB, and where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.operators.calendar_buckets import DAY_US, CalendarBuckets, find_start
from sash.oracle.calendar_walks import _edges_around
from sash.sql.window_kinds import CalendarWindow
from sash.store.batch import BEGINNING, NEVER

HOUR = timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


def us(*parts: int) -> int:
    return (datetime(*parts, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def edges(unit: str, count: int, zone: str, times: list[int]) -> list[tuple[int, int]]:
    buckets = CalendarBuckets(unit, count, zone, ("start", "end"), pa.int64())
    ts = np.array(times, np.int64)
    rows, same, ends = buckets.spread(pa.table({"ts": ts}), ts)
    assert same is ts
    assert rows["end"].to_pylist() == ends.tolist()
    return list(zip(rows["start"].to_pylist(), ends.tolist(), strict=True))


def test_days_have_23_to_25_hours_where_clocks_change() -> None:
    """
    Berlin, 2026     28 March             29 March          30 March
                     |====================|=================|========
    UTC              27th 23:00           28th 23:00        29th 22:00
    """
    spring, autumn = edges("day", 1, "Europe/Berlin", [us(2026, 3, 29, 12), us(2026, 10, 25, 12)])
    assert spring == (us(2026, 3, 28, 23), us(2026, 3, 29, 22))
    assert autumn == (us(2026, 10, 24, 22), us(2026, 10, 25, 23))
    assert edges("day", 1, "Europe/Berlin", [us(2026, 3, 29, 22) - 1, us(2026, 3, 29, 22)]) == [
        (us(2026, 3, 28, 23), us(2026, 3, 29, 22)),
        (us(2026, 3, 29, 22), us(2026, 3, 30, 22)),
    ]


def test_months_quarters_and_years() -> None:
    time = [us(2026, 2, 28, 23, 30)]
    assert edges("month", 1, "UTC", time) == [(us(2026, 2, 1), us(2026, 3, 1))]
    assert edges("month", 1, "Europe/Berlin", time) == [(us(2026, 2, 28, 23), us(2026, 3, 31, 22))]
    assert edges("month", 3, "UTC", time) == [(us(2026, 1, 1), us(2026, 4, 1))]
    assert edges("month", 12, "UTC", time) == [(us(2026, 1, 1), us(2027, 1, 1))]
    assert edges("month", 12, "UTC", [-1, 0]) == [(us(1969, 1, 1), 0), (0, us(1971, 1, 1))]


def test_weeks_begin_on_mondays() -> None:
    assert edges("week", 1, "UTC", [us(2026, 1, 4), us(2026, 1, 5)]) == [
        (us(2025, 12, 29), us(2026, 1, 5)),
        (us(2026, 1, 5), us(2026, 1, 12)),
    ]


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("America/Sao_Paulo", (2017, 10, 15), us(2017, 10, 15, 3)),  # clocks jump from 24:00 to 1:00
        ("America/Havana", (2025, 11, 2), us(2025, 11, 2, 4)),  # from 1:00 back to 0:00: the first of two midnights
        ("America/St_Johns", (2009, 11, 1), us(2009, 11, 1, 2, 30)),  # a minute after midnight back to 23:01
        ("America/Toronto", (1919, 3, 31), us(1919, 3, 31, 4, 30)),  # from 23:30 to 0:30
        ("Pacific/Apia", (2011, 12, 30), us(2011, 12, 30, 10)),  # a day that was left out
        ("Pacific/Apia", (2011, 12, 31), us(2011, 12, 30, 10)),
    ],
)
def test_midnights_that_are_skipped_or_come_twice(zone: str, day: tuple[int, int, int], start: int) -> None:
    assert find_start("day", 1, zone, us(*day) // DAY_US) == start


def test_no_row_is_in_a_day_that_was_left_out() -> None:
    around = [us(2011, 12, 30, 10) - 1, us(2011, 12, 30, 10)]
    before, after = edges("day", 1, "Pacific/Apia", around)
    assert before[1] == after[0] == around[1]
    assert after[1] == us(2011, 12, 31, 10)


def test_far_times() -> None:
    """Beyond the years that Python knows, zones are as 400 years before."""
    far = edges("month", 1, "Europe/Berlin", [us(2026, 2, 28, 23, 30) + 146_097 * DAY_US * 400])
    assert far == [(us(2026, 2, 28, 23) + 146_097 * DAY_US * 400, us(2026, 3, 31, 22) + 146_097 * DAY_US * 400)]
    (start, end), (_, last) = edges("month", 12, "Europe/Berlin", [BEGINNING + DAY_US * 1000, NEVER - 1])
    assert start < BEGINNING + DAY_US * 1000 < end
    assert last == NEVER


def test_of_nothing_nothing() -> None:
    assert edges("month", 1, "UTC", []) == []


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["day", "week", "month", "year"])
def test_as_duckdb_truncates(zone: str, unit: str) -> None:
    """In years in which no midnight of these zones came twice: of two, DuckDB takes the second."""
    ts = np.random.default_rng(5).integers(us(1960, 1, 1), us(2100, 1, 1), 2000)
    found = edges(unit if unit != "year" else "month", 12 if unit == "year" else 1, zone, ts.tolist())
    starts, ends = (np.array(each) for each in zip(*found))
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.register("times", pa.table({"ts": ts, "until": ends - 1, "next": ends}))
        truncated = [f"epoch_us(date_trunc('{unit}', make_timestamptz({name})))" for name in ("ts", "until", "next")]
        expected = connection.sql(f"SELECT {', '.join(truncated)} FROM times").fetchall()
    assert list(zip(starts, starts, ends, strict=True)) == expected


@given(
    times=st.lists(st.integers(us(1880, 1, 1), us(2090, 1, 1)), min_size=1, max_size=3),
    unit=st.sampled_from(("day", "week", "month")),
    count=st.integers(1, 13),
    zone=st.sampled_from((*ZONES, "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "America/Juneau")),
)
def test_as_clocks_show_it_minute_by_minute(times: list[int], unit: str, count: int, zone: str) -> None:
    window = CalendarWindow(unit, count, zone)
    found = edges(unit, count, zone, times)
    assert found == [_edges_around(window, ts) for ts in times]
    assert all(end - start <= window.longest_us for start, end in found)
