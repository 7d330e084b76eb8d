"""How far a stream has come: decided row by row in order of arrival, so never by how rows were cut into batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from sash.kernels.verdicts import HELD, IN_TIME, LATE, TOO_FAR
from sash.operators.stream_clock import StreamClock
from sash.store.batch import BEGINNING, NEVER


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


class TestAhead:
    """
    ahead 10:  ts        5    6    99   99   7    8    60   59   61
               base           5    6    6    6    7    8    60   60
               too far             x    x
    """

    def test_a_row_is_too_far_ahead_of_what_is_before_and_after_it(self) -> None:
        assert judge([5, 6, 99, 99, 7, 8, 60, 59, 61]) == [0, 0, TOO_FAR, TOO_FAR, 0, 0, 0, 0, 0]

    def test_as_far_ahead_as_allowed_is_not_too_far(self) -> None:
        clock = StreamClock(0, ahead_us=10)
        assert verdicts_of(clock, 5, 15, 4, 99) == [IN_TIME, IN_TIME, LATE, HELD]

    def test_a_row_confirms_what_it_is_behind_by_no_more_than_allowed(self) -> None:
        assert verdicts_of(StreamClock(0, ahead_us=10), 5, 99, 89) == [IN_TIME, IN_TIME, LATE]
        assert verdicts_of(StreamClock(0, ahead_us=10), 5, 99, 88) == [IN_TIME, TOO_FAR, HELD]

    def test_what_nothing_has_followed_is_held_and_does_not_move_the_clock(self) -> None:
        clock = StreamClock(2, ahead_us=10)
        assert verdicts_of(clock, 5, 99) == [IN_TIME, HELD]
        assert (clock.newest_us, clock.held_us) == (5, 99)
        assert clock.judge(np.array([99])).before == HELD
        assert clock.judge(np.array([6])).before == TOO_FAR
        assert (clock.newest_us, clock.is_holding) == (6, False)

    def test_a_stream_that_rests_long_loses_nothing(self) -> None:
        assert judge([5, 105, 205, 305, 305, 306]) == [0] * 6

    def test_a_value_that_is_always_the_same_does_not_confirm_itself(self) -> None:
        assert judge([5, 999, 6, 999, 999, 7, 999, 8]) == [0, TOO_FAR, 0, TOO_FAR, TOO_FAR, 0, TOO_FAR, 0]

    def test_the_first_row_is_taken_unless_it_is_known_where_the_stream_is(self) -> None:
        assert judge([99, 5, 6]) == [IN_TIME, LATE, LATE]
        clock = StreamClock(2, ahead_us=10)
        clock.complete(4)
        assert verdicts_of(clock, 99, 5, 6) == [TOO_FAR, IN_TIME, IN_TIME]

    def test_a_completion_confirms_what_is_not_too_far_ahead_of_it(self) -> None:
        clock = StreamClock(2, 5, ahead_us=10, held_us=99)
        assert clock.complete(88) == HELD
        assert clock.complete(89) == IN_TIME
        assert (clock.newest_us, clock.complete_us, clock.is_holding) == (99, 89, False)

    @given(
        slack_us=st.integers(0, 5),
        ahead_us=st.integers(5, 10),
        rows=st.lists(st.sampled_from([*range(12), 20, 21, 40, 60, BEGINNING + 1, NEVER - 1]), max_size=16),
        cuts=st.lists(st.integers(0, 16), max_size=5),
    )
    def test_it_does_not_depend_on_batches(
        self, slack_us: int, ahead_us: int, rows: list[int], cuts: list[int]
    ) -> None:
        clock, verdicts = StreamClock(slack_us, ahead_us=ahead_us), []
        for low, high in pairwise(sorted({0, *(min(at, len(rows)) for at in cuts), len(rows)})):
            judgement = clock.judge(np.array(rows[low:high], np.int64))
            if judgement.before != HELD:
                verdicts = [judgement.before if verdict == HELD else verdict for verdict in verdicts]
            verdicts += [IN_TIME] * (high - low) if judgement.verdicts is None else judgement.verdicts.tolist()
        told = [IN_TIME if verdict == HELD else verdict for verdict in verdicts]
        assert told == simple_judge(slack_us, ahead_us, rows)

    @given(slack_us=st.integers(0, 5), rows=st.lists(st.integers(0, 40), max_size=16))
    def test_where_nothing_is_late_nothing_is_too_far_ahead(self, slack_us: int, rows: list[int]) -> None:
        """Law 3: within the slack, the order of arrival makes no difference."""
        assert TOO_FAR not in judge(rows, slack_us, slack_us) or not all(simple_admit(slack_us, rows, BEGINNING))


def verdicts_of(clock: StreamClock, *ts: int) -> list[int]:
    found = clock.judge(np.array(ts, np.int64)).verdicts
    return [IN_TIME] * len(ts) if found is None else found.tolist()


def judge(rows: list[int], slack_us: int = 2, ahead_us: int = 10) -> list[int]:
    """The verdicts on all rows of a stream; what nothing has followed is in time."""
    found = verdicts_of(StreamClock(slack_us, ahead_us=ahead_us), *rows)
    return [IN_TIME if verdict == HELD else verdict for verdict in found]


def simple_judge(slack_us: int, ahead_us: int, rows: list[int]) -> list[int]:
    """The law in plain Python."""
    verdicts: list[int] = []
    for place, ts in enumerate(rows):
        before = [other for other, verdict in zip(rows, verdicts) if verdict != TOO_FAR]
        after = next((other for other in rows[place:] if other != ts), ts)
        if before and ts > max(before) + ahead_us and ts > after + ahead_us:
            verdicts.append(TOO_FAR)
        else:
            verdicts.append(IN_TIME if all(ts >= other - slack_us for other in before) else LATE)
    return verdicts
