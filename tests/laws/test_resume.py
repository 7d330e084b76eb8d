"""Law 4: stop after any batch, restore from the snapshot, go on: the same output, no row lost or doubled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.testing import Case, assert_changes, stream_of
from sash.testing.case import Step
from sash.testing.plans import plans
from sash.testing.strategies import batch_cuts, cases
from support.multiway_strategies import multiway_cases
from support.profiles import law_volume

Interrupted = tuple[Case, list[Step], set[int]]


@st.composite
def interrupted_cases(draw: st.DrawFn, strategy: Callable[[bool], st.SearchStrategy[Case]]) -> Interrupted:
    case = draw(strategy(draw(st.booleans())))
    steps = draw(batch_cuts(case, with_advances=False))
    return case, steps, draw(st.sets(st.integers(0, max(0, len(steps) - 1)), max_size=2))


@settings(max_examples=law_volume())
@given(interrupted_cases(plans))
def test_a_restart_of_a_plan_does_not_show(interrupted: Interrupted) -> None:
    case, steps, stops = interrupted
    changes, _ = case.replay(steps, restart_after=stops)
    assert_changes(changes, case.replay(steps)[0])


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(interrupted_cases(multiway_cases))
def test_a_restart_of_a_join_of_many_streams_does_not_show(interrupted: Interrupted) -> None:
    check_restarts(*interrupted)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(interrupted_cases(cases))
def test_a_restart_does_not_show(interrupted: Interrupted) -> None:
    check_restarts(*interrupted)


def check_restarts(case: Case, steps: list[Step], stops: set[int]) -> None:
    expected, unbroken = case.replay(steps)
    changes, finished = case.replay(steps, restart_after=stops)
    assert_changes(changes, expected)
    assert finished.n_read == unbroken.n_read
    assert finished.n_late == unbroken.n_late
    assert finished.n_state_rows <= unbroken.n_state_rows


A = stream_of("""
    ts | k | v
    1  | a | 1
    2  | b | 2
    2  | a | 3
    4  | a | 4
""")
B = stream_of("""
    ts | k | v
    1  | b | 1
    3  | a | 2
    4  | a | 3
    5  | b | 4
""")

GO_ON = """
import pickle, sys, sash
text, schema, snapshot, rest = pickle.load(sys.stdin.buffer)
running = sash.query(text, **{name: sash.stream(schema, time="ts") for name in "ab"})
running.restore(snapshot)
parts = [running.push(name, rows) for name, rows in rest] + [running.finish()]
sys.stdout.buffer.write(pickle.dumps(parts))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT A.k, A.v, B.v AS other FROM a A, b B WHERE A.k = B.k WINDOW 3 us EMIT CHANGES",
        "SELECT A.k, B.v FROM a A [ROWS 2], b B [RANGE 3 us], a C [PARTITION BY k ROWS 1] "
        "WHERE A.k = B.k AND C.v + A.v = B.v + 1",
        "SELECT A.k, B.v, C.v AS w FROM a A, b B, a C WHERE A.k = B.k DWINDOW (A, B) = 3 us AND WINDOW (B, C) = 2 us",
    ],
)
def test_another_process_goes_on(text: str) -> None:
    case = Case(text, {"a": sash.stream(A, time="ts"), "b": sash.stream(B, time="ts")})
    running = case.start()
    changes = [running.push("a", A.slice(0, 3)), running.push("b", B.slice(0, 2))]
    rest = [("a", A.slice(3)), ("b", B.slice(2))]
    handed_over = pickle.dumps((text, A.schema, running.snapshot(), rest))
    process = subprocess.run([sys.executable, "-c", GO_ON], input=handed_over, capture_output=True)
    assert process.returncode == 0, process.stderr.decode()
    assert_changes(pa.concat_tables([*changes, *pickle.loads(process.stdout)]), case.run())
