"""The strategies for queries that share a join, and what one that comes later gets alone, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

import sash
from sash.oracle.row_keys import row_keys
from sash.testing import Advance, Push, draw, stream_of
from support.shared_case import Add, Drop, Episode, Pause, Resume, SharedCase
from support.shared_strategies import shared_cases

A = stream_of("""
    ts | k | v
    1  | x | 1
    4  | x | 2
    9  | x | 3
""")
B = stream_of("""
    ts | k | v
    3  | x | 4
    5  | x | 5
    8  | x | 6
""")
CASE = SharedCase(
    {"q": "SELECT A.v, B.v AS w FROM a A [RANGE 4 us], b B [RANGE 2 us] WHERE A.k = B.k"},
    {"a": sash.stream(A, time="ts", slack="0 us"), "b": sash.stream(B, time="ts", slack="0 us")},
    [Push("a", 0, 2), Push("b", 0, 2), Advance(4), Push("b", 2, 3), Advance(7, "a"), Push("a", 2, 3)],
)


@pytest.mark.parametrize(
    ("begin", "unseen_us", "expected"),
    [
        (
            0,
            {},
            """
            v | w | _op | _ts | _expires
            1 | 4 | 1   | 3   | 5
            2 | 4 | 1   | 4   | 5
            2 | 5 | 1   | 5   | 7
            3 | 6 | 1   | 9   | 10
            """,
        ),
        (
            # The clock is at 4: of A the tuple of 1 is in its window until 5, of B that of 3.
            3,
            {},
            """
            v | w | _op | _ts | _expires
            1 | 4 | 1   | 3   | 5
            2 | 4 | 1   | 4   | 5
            2 | 5 | 1   | 5   | 7
            3 | 6 | 1   | 9   | 10
            """,
        ),
        (
            # The clock is at 7: of A the tuple of 4 is left, of B none but that of 8, which waits.
            5,
            {},
            """
            v | w | _op | _ts | _expires
            3 | 6 | 1   | 9   | 10
            """,
        ),
        (
            3,
            {0: 3, 1: 3},
            """
            v | w | _op | _ts | _expires
            2 | 5 | 1   | 5   | 7
            3 | 6 | 1   | 9   | 10
            """,
        ),
    ],
)
def test_what_one_that_comes_later_gets_alone(begin: int, unseen_us: dict[int, int], expected: str) -> None:
    episode = Episode("q", begin, len(CASE.events), True, unseen_us, False, A.schema.empty_table())
    assert draw(CASE.alone(episode)) == draw(stream_of(expected))


@settings(max_examples=1, phases=[Phase.generate])
@given(shared_cases())
def test_the_first_choice_is_the_simplest(case: SharedCase) -> None:
    """Hypothesis begins with it, and shrinks towards it."""
    assert set(case.texts.values()) == {"SELECT A.v AS v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 5 us"}
    assert list(case.texts) == ["q0", "q1"]
    assert [type(event) for event in case.events[:2]] == [Add, Add]


@pytest.mark.slow
@settings(max_examples=20)
@given(shared_cases())
def test_a_case_shows_how_to_make_it_again(case: SharedCase) -> None:
    names = {each.__name__: each for each in (SharedCase, Push, Advance, Add, Drop, Pause, Resume)}
    again = eval(repr(case), {"sash": sash, "stream_of": stream_of, **names})
    assert (again.texts, again.events) == (case.texts, case.events)
    for name, rows in case.arrivals.items():
        assert row_keys(again.arrivals[name]) == row_keys(rows)
