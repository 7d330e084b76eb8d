"""Law 7: state never exceeds what EXPLAIN declares; a plan whose state would be unbounded is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.store import trace
from sash.testing import Case, stream_of
from sash.testing.case import Step
from sash.testing.plans import plans
from sash.testing.strategies import batch_cuts, cases
from support.bound import DeclaredState
from support.multiway_strategies import multiway_cases
from support.profiles import law_volume
from support.state_watch import StateWatch

Cut = tuple[Case, list[Step]]


def with_cuts(strategy: st.SearchStrategy[Case]) -> st.SearchStrategy[Cut]:
    return strategy.flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case)))


@settings(max_examples=law_volume())
@given(with_cuts(cases()))
def test_state_stays_within_what_is_declared(cut: Cut) -> None:
    check_state(*cut)


@settings(max_examples=law_volume())
@given(with_cuts(multiway_cases(is_join=True)))
def test_state_of_many_streams_stays_within_what_is_declared(cut: Cut) -> None:
    check_state(*cut)


def check_state(case: Case, steps: list[Step]) -> None:
    running, declared = case.start(), DeclaredState(case)
    for step in steps:
        declared.arrive(step)
        case.take(running, step)
        assert running.n_state_rows <= declared.n_rows(running.clock)
    running.finish()
    assert running.n_state_rows <= declared.n_rows(running.clock)


@pytest.mark.parametrize("schedule", ["", "/*+ tpa */", "/*+ nta */", "/*+ hybrid */"])
@settings(max_examples=law_volume())
@given(with_cuts(plans()))
def test_every_operator_of_a_plan_stays_within_what_it_declares(schedule: str, cut: Cut) -> None:
    check_operators(schedule, *cut)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["", "/*+ nta */"])
@settings(max_examples=law_volume())
@given(with_cuts(multiway_cases()))
def test_every_operator_over_many_streams_stays_within_what_it_declares(schedule: str, cut: Cut) -> None:
    check_operators(schedule, *cut)


def check_operators(schedule: str, case: Case, steps: list[Step]) -> None:
    """What was taken back is struck out at once, so that it shows if it is not."""
    case = Case(case.text.replace("SELECT", f"SELECT {schedule}", 1), case.frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "MIN_STRUCK_OUT", 0)
        running = case.start()
        watch = StateWatch(running)
        for step in steps:
            case.take(running, step)
            watch.check()
        running.finish()
        watch.check()


def test_a_plan_that_holds_more_than_it_declares_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when nothing is ever dropped."""
    monkeypatch.setattr(trace.Trace, "evict", lambda *_: None)
    stream = sash.stream(stream_of("ts | k\n1 | a\n3 | b\n90 | c", ts="BIGINT"), time="ts")
    case = Case("SELECT k, count(*) AS n FROM s [RANGE 5 us] GROUP BY k", {"s": stream})
    running = case.start()
    watch = StateWatch(running)
    for row in range(3):
        running.push("s", case.arrivals["s"].slice(row, 1))
    running.finish()
    with pytest.raises(AssertionError, match="GroupBy holds 2 rows, but declares 1"):
        watch.check()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("s A, s B", "window missing"),
        ("s A [RANGE 1 SECOND], s B", "window missing"),
        ("s A [UNBOUNDED], s B [RANGE 1 SECOND]", "never lets a tuple go"),
        ("s A [RANGE 1 SECOND], s B [SINCE TIMESTAMP '2026-01-31']", "never lets a tuple go"),
        ("s A [ROWS 3], s B [UNBOUNDED]", "never lets a tuple go"),
    ],
)
def test_unbounded_state_is_refused(source: str, reason: str) -> None:
    stream = sash.stream(stream_of("ts | k", ts="BIGINT"), time="ts")
    with pytest.raises(sash.PlanError, match=reason):
        sash.sql(f"SELECT A.k FROM {source} WHERE A.k = B.k", s=stream)
