"""No buffer of a join of many streams holds a tuple that none of those still to be joined can reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.operators.multiway_join import MultiwayJoin
from sash.testing import Advance, Case, Push
from sash.testing.case import Step
from sash.testing.strategies import batch_cuts
from support.buffers import NeededTuples, check_buffers, joins_of_many
from support.multiway_strategies import multiway_cases

IDLE = "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, c C WHERE A.k = B.k AND B.k = C.k"
WINDOWS = {
    "pairs": " WINDOW (A, B) = 5 us AND WINDOW (B, C) = 3 us",
    "directed": " DWINDOW (A, B) = 5 us AND DWINDOW (C, B) = 3 us",
    "all pairs": " WINDOW (A, B) = 5 us AND DWINDOW (B, C) = 3 us AND WINDOW (A, C) = 20 us",
    "one": " WINDOW 5 us",
}


@given(multiway_cases(is_join=True).flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))))
def test_no_buffer_holds_what_nothing_can_reach(cut: tuple[Case, list[Step]]) -> None:
    check_steps(*cut)


def check_steps(case: Case, steps: list[Step]) -> None:
    running, tuples = case.start(), NeededTuples(case)
    for step in steps:
        tuples.arrive(step)
        case.take(running, step)
        check_buffers(running, tuples)


def idle_case(windows: str, times: Sequence[int] = range(60)) -> Case:
    """Two streams with rows at the same times, and one with a row at 0 and none for long."""
    busy = pa.table({"ts": times, "k": np.zeros(len(times), np.int64), "v": times})
    frames = {"a": busy, "b": busy, "c": busy.slice(0, 1)}
    return Case(IDLE + windows, {name: sash.stream(table, "ts", "2 us") for name, table in frames.items()})


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("hint", ["", "/*+ nlw */ "])
def test_an_idle_stream_that_is_declared_complete_lets_buffers_go(windows: str, hint: str) -> None:
    """What it may still bring is all that waits for it; then the buffers are exactly as small as can be."""
    case = idle_case(WINDOWS[windows])
    case = Case(case.text.replace("SELECT ", f"SELECT {hint}"), case.frames)
    running, tuples = case.start(), NeededTuples(case)
    pushes = [Push(name, row, row + 1) for row in range(60) for name in ("abc" if row == 0 else "ab")]
    held: dict[str, list[int]] = {}
    for step in (*pushes, Advance(30, "c"), Advance(56, "c")):
        tuples.arrive(step)
        case.take(running, step)
        check_buffers(running, tuples)
        (join,) = joins_of_many(running).values()
        held = {alias: times.tolist() for alias, times in zip(join.spec.names, join.buffered(), strict=True)}
        assert held == {alias: tuples.needed(alias) for alias in "ABC"}
    assert running.clock == 56
    assert 0 < sum(map(len, held.values())) <= 2 * 7


def test_a_join_among_the_inputs_tells_of_each_of_its_streams() -> None:
    """A and B are joined first. A new tuple of A + B has a new one of A, which is at 8 by then, or of B, after 4: both
    are too late for -1 of C, whatever else they may meet.
    """
    times = {"a": [-1, 0, 1, 2, 3, 8], "b": [-1, 4], "c": [-1, 0, 1, 2, 3, 4, 5, 6]}
    zeros = {name: np.zeros(len(ts), np.int64) for name, ts in times.items()}
    tables = {name: pa.table({"ts": ts, "k": zeros[name], "j": zeros[name]}) for name, ts in times.items()}
    text = "SELECT A.k FROM a A, b B, c C WHERE A.k = B.k AND B.j = C.j WINDOW (A, B) = 5 us AND WINDOW (B, C) = 5 us"
    case = Case(text, {name: sash.stream(table, "ts", "0 us") for name, table in tables.items()})
    check_steps(case, [Push("a", 0, 6), Push("b", 0, 2), *(Push("c", row, row + 1) for row in range(8))])
    assert ("A", "B") in {streams for join in joins_of_many(case.start()).values() for streams in join.spec.members}


def test_a_buffer_that_holds_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a join went by the clock alone; `a` and `b` bring nothing between 9 and 59, and `c` cannot reach 9."""
    monkeypatch.setattr(MultiwayJoin, "hear", lambda self, frontiers: None)
    case = idle_case(WINDOWS["pairs"], times=[*range(10), 59])
    steps = [Push("a", 0, 11), Push("b", 0, 11), Push("c", 0, 1), Advance(12, "c")]
    with pytest.raises(AssertionError, match=r"holds tuples of B that nothing can reach: \[9\]"):
        check_steps(case, steps)
