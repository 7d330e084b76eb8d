"""TUMBLE and HOP: in which windows a row is, and when it leaves them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.operators.time_buckets import TimeBuckets

NAMES = ("window_start", "window_end")


def spread(ts: list[int], length_us: int, hop_us: int, offset_us: int = 0) -> list[tuple[int, int, int]]:
    """The time, start and end of every row that comes out; ends are when rows leave."""
    buckets = TimeBuckets(length_us, hop_us, offset_us, NAMES, pa.int64())
    rows, times, leaves = buckets.spread(pa.table({"ts": pa.array(ts, pa.int64())}), np.array(ts, np.int64))
    assert rows.column("ts").to_pylist() == times.tolist()
    assert rows.column("window_end").to_pylist() == leaves.tolist()
    return list(zip(times.tolist(), rows.column("window_start").to_pylist(), leaves.tolist()))


@pytest.mark.parametrize(("ts", "start"), [(0, 0), (4, 0), (5, 5), (-1, -5), (-5, -5)])
def test_the_start_belongs_to_a_window_and_the_end_to_the_next(ts: int, start: int) -> None:
    assert spread([ts], 5, 5) == [(ts, start, start + 5)]


def test_an_offset_moves_all_windows() -> None:
    assert spread([0, 2, 3], 5, 5, 3) == [(0, -2, 3), (2, -2, 3), (3, 3, 8)]


def test_windows_overlap_or_leave_gaps() -> None:
    assert spread([3], 4, 2) == [(3, 0, 4), (3, 2, 6)]
    assert spread([1, 3, 6], 2, 5) == [(1, 0, 2), (6, 5, 7)]


def test_columns_have_the_type_that_is_asked_for() -> None:
    buckets = TimeBuckets(5, 5, 0, NAMES, pa.timestamp("us", "UTC"))
    rows, _, _ = buckets.spread(pa.table({"ts": pa.array([7], pa.int64())}), np.array([7], np.int64))
    assert rows.schema.field("window_start").type == pa.timestamp("us", "UTC")
    assert rows.column("window_end").cast(pa.int64()).to_pylist() == [10]


@given(st.lists(st.integers(-30, 30)), st.integers(1, 12), st.integers(1, 12), st.integers(-20, 20))
def test_a_row_is_once_in_every_window_that_holds_it(
    ts: list[int], length_us: int, hop_us: int, offset_us: int
) -> None:
    starts = [start for start in range(-60, 60) if (start - offset_us) % hop_us == 0]
    expected = [
        (time, start, start + length_us) for time in ts for start in starts if start <= time < start + length_us
    ]
    assert spread(ts, length_us, hop_us, offset_us) == expected
