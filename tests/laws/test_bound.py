"""Law 7: state never exceeds what EXPLAIN declares; a plan whose state would be unbounded is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.testing import Case, stream_of
from sash.testing.bound import DeclaredState
from sash.testing.case import Step
from sash.testing.strategies import batch_cuts, cases


@given(cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))))
def test_state_stays_within_what_is_declared(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    running, declared = case.start(), DeclaredState(case)
    for step in steps:
        declared.arrive(step)
        case.take(running, step)
        assert running.n_state_rows <= declared.n_rows(running.clock)
    running.finish()
    assert running.n_state_rows <= declared.n_rows(running.clock)


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
