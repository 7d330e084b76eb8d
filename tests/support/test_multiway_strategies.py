"""The strategies for joins of many streams, and a join with windows of pairs worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

import sash
from sash.oracle.snapshot_law import check_snapshot
from sash.sql.bound_query import BoundQuery
from sash.testing import Case, bind_frames, draw, expected_changes, stream_of
from support.multiway_strategies import multiway_cases

A = stream_of("""
    ts | k | v
    1  | x | 1
    4  | x | 2
""")
B = stream_of("""
    ts | k | v
    2  | x | 3
    4  | x | 4
    6  | x | 5
""")
C = stream_of("""
    ts | k | v
    5  | x | 6
""")
FRAMES = {name: sash.stream(table, time="ts") for name, table in (("a", A), ("b", B), ("c", C))}
JOIN = "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, c C WHERE A.k = B.k"


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (
            # Tuples of A and C live for 3 + 2 microseconds, those of B for 3.
            "WINDOW (A, B) = 3 us AND WINDOW (B, C) = 2 us",
            """
            v | w | x | _op | _ts | _expires
            2 | 4 | 6 | 1   | 5   | 7
            2 | 5 | 6 | 1   | 6   | 9
            """,
        ),
        (
            "DWINDOW (A, B) = 3 us AND DWINDOW (B, C) = 4 us",
            """
            v | w | x | _op | _ts | _expires
            1 | 3 | 6 | 1   | 5   | 6
            2 | 4 | 6 | 1   | 5   | 8
            """,
        ),
        (
            "WINDOW (A, B) = 3 us AND WINDOW (B, C) = 4 us AND WINDOW (A, C) = 2 us",
            """
            v | w | x | _op | _ts | _expires
            2 | 3 | 6 | 1   | 5   | 6
            2 | 4 | 6 | 1   | 5   | 7
            2 | 5 | 6 | 1   | 6   | 7
            """,
        ),
    ],
)
def test_windows_of_pairs_by_hand(windows: str, expected: str) -> None:
    bound, tables = bind_frames(f"{JOIN} {windows}", FRAMES)
    assert isinstance(bound, BoundQuery)
    changes = expected_changes(bound, tables)
    assert draw(changes) == draw(stream_of(expected))
    check_snapshot(bound, tables, changes)


@settings(max_examples=1, phases=[Phase.generate])
@given(multiway_cases())
def test_the_first_choice_is_the_simplest(case: Case) -> None:
    """Hypothesis begins with it, and shrinks towards it."""
    assert case.text == "SELECT A.v AS v0, B.v AS v1 FROM a A, b B WHERE A.k = B.k WINDOW (A, B) = 5 us"
    assert {name: frame.frame.num_rows for name, frame in case.frames.items()} == {"a": 1, "b": 1}


@pytest.mark.slow
@given(multiway_cases())
def test_cases_can_be_planned(case: Case) -> None:
    assert case.plan.slots
