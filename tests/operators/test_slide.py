"""Windows that move at multiples of their slide only, against the window without a slide at the last multiple.

Law: at T the window holds what it would hold without a slide at the last multiple of the slide not after T.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.slide import Slide, SlideSpec
from sash.store.batch import NEVER, SIGNED_FIELDS
from support.steps import Lived, alive_at, amount_at, changes_of, signed

COLUMNS = pa.schema([("n", pa.int64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])


def slide(slide_us: int, lives: list[Lived]) -> list:
    batch = signed([change for lived in lives for change in lived.changes(is_told=False)], COLUMNS)
    return changes_of(Slide(SlideSpec(slide_us), SCHEMA).process([batch], 0))


def test_a_tuple_enters_and_leaves_at_the_next_multiple() -> None:
    """
    RANGE 3 SLIDE 2      1   2   3   4   5   6
    ts 1                 |-----------|               [1, 4)  becomes  [2, 4)
    ts 2                     |-----------|           [2, 5)  becomes  [2, 6)
    """
    assert slide(2, [Lived((1,), 1, 4), Lived((2,), 2, 5)]) == [(1, 2, 4, (1,)), (1, 2, 6, (2,))]


def test_a_tuple_that_is_over_before_the_window_moves_never_enters() -> None:
    """
    RANGE 1 SLIDE 4      ts 5: [5, 6) lies between 4 and 8         ts 8: [8, 9) is there until 12
    """
    assert slide(4, [Lived((5,), 5, 6), Lived((8,), 8, 9)]) == [(1, 8, 12, (8,))]


def test_multiples_are_counted_from_zero_before_it_too() -> None:
    assert slide(5, [Lived((0,), -7, -1), Lived((1,), -5, 1)]) == [(1, -5, 0, (0,)), (1, -5, 5, (1,))]


def test_what_never_expires_still_waits_to_enter() -> None:
    assert slide(5, [Lived((0,), 3, NEVER)]) == [(1, 5, NEVER, (0,))]


def test_nothing_comes_of_nothing() -> None:
    operator = Slide(SlideSpec(3), SCHEMA)
    assert operator.process([signed([], COLUMNS)], 9).schema == SCHEMA
    assert (operator.logs(), operator.registers()) == ({}, {})


def test_a_slide_goes_forward() -> None:
    with pytest.raises(AssertionError):
        SlideSpec(0)


@given(rows=st.lists(st.integers(-9, 20), max_size=10), length=st.integers(1, 9), slide_us=st.integers(1, 7))
@example([1, 2], 3, 2)
def test_the_window_is_that_of_the_last_multiple(rows: list[int], length: int, slide_us: int) -> None:
    lives = [Lived((number,), ts, ts + length) for number, ts in enumerate(rows)]
    seen = slide(slide_us, lives)
    for instant in range(-20, 40):
        last_move = instant // slide_us * slide_us
        assert amount_at(seen, instant, is_told=False) == alive_at(lives, last_move)
