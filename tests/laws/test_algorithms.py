"""Law 6: every algorithm that may serve a query gives the same output. WNL = WHJ = hash, also if they take turns.

So do the joins that keep windows on disk, where no tuple is taken back, with memory for a few blocks of few rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sash
from sash.cost import replan
from sash.cost.join_cost import AHEWJ, EWJ, HASH, INVALIDATIONS, RPWJ, WHJ, WNL, JoinMethod
from sash.embedded.run_to_end import run_tables
from sash.plan.planner import plan_query
from sash.testing import Case, assert_changes, stream_of
from sash.testing.strategies import batch_cuts, cases
from support.join_settings import Restless
from support.profiles import volume

N_CASES = volume(dev=3, ci=12, deep=500)

ON_DISK = [
    setting
    for block_rows in (1, 2, 16)
    for setting in (
        f"ewj(memory=8, r=0.5, epoch=2, delta=0, basic_window=2, block_rows={block_rows})",
        f"rpwj(2, memory=2, m_read=2, h_mark=2, slide_us=3, block_rows={block_rows})",
        f"ahewj(2, memory=20, r=0.3, epoch=2, basic_window=2, train=3, slide_us=0, block_rows={block_rows})",
    )
]


TURNS = [
    JoinMethod(HASH),
    JoinMethod(WNL),
    *(JoinMethod(WHJ, n_buckets, each) for n_buckets in (2, 64) for each in INVALIDATIONS),
    JoinMethod(EWJ, settings=(("memory", 8), ("block_rows", 1), ("r", 0.5), ("epoch", 1), ("delta", 0.0))),
    JoinMethod(RPWJ, 3, settings=(("memory", 2), ("block_rows", 2), ("m_read", 1))),
    JoinMethod(AHEWJ, 2, settings=(("memory", 20), ("block_rows", 2), ("r", 0.3), ("basic_window", 1))),
]


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(cases())
def test_all_methods_agree(case: Case) -> None:
    assume(len(case.plan.slots) > 1)
    expected = _run_hinted(case)
    methods = ["wnl", *(f"wnl({each})" for each in INVALIDATIONS)]
    try:
        assert_changes(_run_hinted(case, "hash"), expected)
        methods += [f"whj({n_buckets}, {each})" for n_buckets in (1, 3) for each in INVALIDATIONS]
        methods += [each for each in ON_DISK if _is_allowed(case, each)]
    except sash.PlanError as error:
        if "needs an equality" not in str(error):
            raise
    for method in methods:
        assert_changes(_run_hinted(case, method), expected)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(st.data())
def test_methods_may_take_turns(data: st.DataObject) -> None:
    case = data.draw(cases())
    assume(len(case.plan.slots) > 1)
    steps = data.draw(batch_cuts(case))
    expected, _ = case.replay(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replan, "POLICY", Restless(methods=cycle(TURNS)))
        changes, _ = case.replay(steps)
    assert_changes(changes, expected)


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("wnl", "nested loops"),
        ("whj", "windowed hash join"),
        ("hash", "one table of keys"),
        ("ewj", "Exact Window Join, EWJ (Exact ch. 3): nested loops over 5,120 blocks of memory per stream"),
        ("rpwj", "RPWJ (Exact ch. 4): 60 partitions in 20,480 blocks of memory"),
        ("ahewj(30)", "AH-EWJ (Exact ch. 5): 30 buckets in 20,480 blocks of memory"),
    ],
)
def test_the_hint_decides(hint: str, shown: str) -> None:
    stream = sash.stream(stream_of("ts | k", ts="BIGINT"), time="ts")
    text = f"SELECT /*+ {hint} */ A.k FROM s A, s B WHERE A.k = B.k WINDOW 3 us"
    assert shown in sash.explain(text, verbose=True, s=stream)


def _is_allowed(case: Case, hint: str) -> bool:
    """Whether no join of the case takes tuples back, or is without an equality."""
    try:
        plan_query(replace(case.bound, hints=(hint,)))
    except sash.PlanError as error:
        if "may be taken back" not in str(error) and "needs an equality" not in str(error):
            raise
        return False
    return True


def _run_hinted(case: Case, *hints: str) -> pa.Table:
    plan = plan_query(replace(case.bound, hints=hints))
    return run_tables(plan, case.arrivals, case.tables)[0]
