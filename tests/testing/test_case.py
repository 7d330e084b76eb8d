"""Cases: readable, and the same however they are fed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.oracle.row_keys import row_keys
from sash.testing import Advance, Case, Push, assert_changes, stream_of
from sash.testing.case import Step
from sash.testing.strategies import batch_cuts, cases

S = stream_of("""
    ts | k
    1  | a
    3  | NULL
""")


def test_a_case_shows_itself_as_python() -> None:
    frames = {"s": sash.stream(S, time="ts", slack="2 us", tie="k"), "r": sash.relation(stream_of("k", k="DATE"))}
    assert repr(Case("SELECT k FROM s", frames)) == "\n".join([
        "Case('SELECT k FROM s', {",
        "    's': sash.stream(stream_of('''",
        "        ts | k",
        "        1  | a",
        "        3  | NULL",
        "    '''), time='ts', slack=\"2 us\", tie=('k',)),",
        "    'r': sash.relation(stream_of('''",
        "        k",
        "    ''', k=\"DATE\")),",
        "})",
    ])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=50)
@given(cases())
def test_the_shown_case_is_the_case(case: Case) -> None:
    again = eval(repr(case), {"Case": Case, "sash": sash, "stream_of": stream_of})
    assert again.text == case.text
    for name, frame in case.frames.items():
        assert again.frames[name].frame.schema == frame.frame.schema
        assert row_keys(again.frames[name].frame) == row_keys(frame.frame)
    assert_changes(again.run(), case.run())


def test_steps_drive_a_query() -> None:
    case = Case("SELECT k FROM s [RANGE 3 us] EMIT CHANGES", {"s": sash.stream(S, time="ts")})
    steps: list[Step] = [Push("s", 0, 1), Advance(2), Push("s", 1, 2)]
    changes, finished = case.replay(steps, restart_after=[1])
    assert_changes(changes, case.run())
    assert finished.n_read == {"s": 2}


@given(cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))))
def test_cuts_hold_every_row_once_and_in_order(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    for name, table in case.arrivals.items():
        rows = [
            row
            for step in steps
            if isinstance(step, Push) and step.stream == name
            for row in range(step.start, step.stop)
        ]
        assert rows == list(range(table.num_rows))
