"""How far a stream has come: decided row by row in order of arrival, so never by how rows were cut into batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.stream_clock import StreamClock
from sash.store.batch import BEGINNING


def admit(clock: StreamClock, *ts: int) -> list[bool]:
    return clock.admit(np.array(ts, np.int64)).tolist()


def test_a_row_is_late_if_older_than_the_newest_before_it_by_more_than_the_slack() -> None:
    """
    slack 2:   ts       5    4    9    6    7    8
               seen          5    5    9    9    9
               late                    x
    """
    clock = StreamClock(2)
    assert admit(clock, 5, 4, 9, 6, 7, 8) == [True, True, True, False, True, True]
    assert clock.newest_us == 9
    assert clock.clock == 9 - 2 - 1


def test_without_slack_equal_times_are_in_time() -> None:
    clock = StreamClock(0)
    assert admit(clock, 5, 5, 4, 6) == [True, True, False, True]
    assert clock.clock == 5, "another row with time 6 may still come"


def test_before_the_first_row_nothing_is_late_and_nothing_is_complete() -> None:
    clock = StreamClock(3)
    assert clock.clock == BEGINNING
    assert admit(clock) == []
    assert clock.clock == BEGINNING
    assert admit(clock, -(10**17)) == [True]
    assert clock.clock == -(10**17) - 4


def test_what_is_declared_complete_makes_rows_late() -> None:
    clock = StreamClock(10)
    admit(clock, 5)
    clock.complete(5)
    assert clock.clock == 5
    assert admit(clock, 5, 6, 4) == [False, True, False]


def test_complete_never_goes_back() -> None:
    clock = StreamClock(0)
    clock.complete(7)
    clock.complete(3)
    assert clock.clock == 7
    admit(clock, 20)
    clock.complete(9)
    assert clock.clock == 19


def test_the_threshold_is_the_least_time_that_is_not_late() -> None:
    clock = StreamClock(4)
    admit(clock, 10)
    assert admit(StreamClock(4, 10), clock.threshold(10)) == [True]
    assert admit(StreamClock(4, 10), clock.threshold(10) - 1) == [False]
    assert clock.clock == clock.threshold(10) - 1


def simple_admit(slack_us: int, rows: list[int], complete_us: int) -> list[bool]:
    """The law in plain Python."""
    return [
        all(ts >= before - slack_us for before in rows[:place]) and ts > complete_us for place, ts in enumerate(rows)
    ]


@given(
    slack_us=st.integers(0, 10),
    rows=st.lists(st.integers(-20, 20), max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=5),
    complete_us=st.sampled_from([BEGINNING, -5, 0, 5]),
)
@example(0, [0, 0], [1], BEGINNING)
def test_lateness_does_not_depend_on_batches(slack_us: int, rows: list[int], cuts: list[int], complete_us: int) -> None:
    whole, cut = StreamClock(slack_us, complete_us=complete_us), StreamClock(slack_us, complete_us=complete_us)
    bounds = sorted({0, *(min(at, len(rows)) for at in cuts), len(rows)})
    in_parts = [late for low, high in pairwise(bounds) for late in admit(cut, *rows[low:high])]
    assert in_parts == admit(whole, *rows) == simple_admit(slack_us, rows, complete_us)
    assert cut == whole


@given(slack_us=st.integers(0, 10), rows=st.lists(st.integers(-20, 20), min_size=1, max_size=20))
def test_every_row_in_time_is_newer_than_the_clock_before_it(slack_us: int, rows: list[int]) -> None:
    """What operators rely on: once the clock has passed an instant, no tuple of it comes."""
    clock = StreamClock(slack_us)
    for ts in rows:
        before = clock.clock
        (in_time,) = admit(clock, ts)
        assert in_time == (ts > before)
        assert clock.clock >= before


def test_the_first_representable_instants_are_in_time():
    first = BEGINNING + 1
    assert StreamClock(10).admit(np.array([first + 5, first, first + 20, first + 9])).tolist() == [
        True,
        True,
        True,
        False,
    ]
