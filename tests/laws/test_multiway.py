"""Laws 1, 2, 4 and 6 of joins of many streams: their changes are those of every combination, tried one by one, whatever
finds them and however the rows come. NLW = HW = MW = GCA = LCA = Ripple = XJoin = probes.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sash
from sash.cost import replan_multiway
from sash.cost.choose_multiway import ALTERNATIVES
from sash.oracle.snapshot_law import check_snapshot, is_join
from sash.sql.bound_query import BoundQuery
from sash.store.memory_budget import LEAST_BYTES
from sash.testing import Case, assert_changes, expected_changes, stream_of
from sash.testing.case import Step
from sash.testing.strategies import batch_cuts
from support.multiway_strategies import multiway_cases
from support.profiles import volume
from support.sealing import seal_all_the_time

N_CASES = volume(dev=4, ci=40, deep=1000)
LIMITS = (LEAST_BYTES, 1 << 16, None)
SAME_MEAN = Case(
    "SELECT avg(A.v) AS x0 FROM a A [RANGE 5 us], a B [RANGE 5 us], a C [RANGE 5 us] WHERE A.k = B.k AND B.j = C.j",
    {
        "a": sash.stream(
            stream_of("""
        ts | k | j | v
        -1 | 0 | 0 | 1
        0  | 0 | 0 | 1
    """),
            time="ts",
        )
    },
)
HINTS = ("probe", "nlw", "hw", "mw", "gca", "lca", "ripple", "xjoin", "gca(nlw)", "gca(hw)", "gca(mw)")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=N_CASES)
@example(SAME_MEAN, 0, []).via("an average, put together of parts that change, stays the same")
@given(multiway_cases(), st.integers(0, 9), st.lists(st.sampled_from(HINTS), min_size=2, max_size=2, unique=True))
def test_changes_are_those_of_every_combination_with_every_algorithm(case: Case, lot: int, hints: list[str]) -> None:
    """DuckDB is asked about every tenth case, and where there is more than a join; all algorithms are, likewise."""
    changes = case.run()
    if is_join(case.bound):
        assert isinstance(case.bound, BoundQuery)
        assert_changes(changes, expected_changes(case.bound, case.tables))
    if lot == 0 or not is_join(case.bound):
        check_snapshot(case.bound, case.tables, changes)
    for hint in HINTS if lot == 0 else hints:
        assert_changes(case.run(hint), changes)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=N_CASES)
@given(multiway_cases(is_join=True).flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))), st.data())
def test_changes_are_those_of_every_combination_with_any_memory(
    tmp_path_factory: pytest.TempPathFactory, cut: tuple[Case, list[Step]], data: st.DataObject
) -> None:
    """With little memory, whatever is in a window when a step begins is on disk, for one algorithm as for all others
    that need it in memory, or mapped.
    """
    (case, steps), limit = cut, data.draw(st.sampled_from(LIMITS))
    case = hinted(case, data.draw(st.sampled_from(["probe"] * 3 + list(HINTS))))
    stops = data.draw(st.sets(st.integers(0, max(0, len(steps) - 1)), max_size=2))
    with pytest.MonkeyPatch.context() as patch:
        if limit == LEAST_BYTES:
            seal_all_the_time(patch)
        sash.configure(memory=limit, spill=tmp_path_factory.mktemp("spill"))
        try:
            changes, _ = case.replay(steps, restart_after=stops)
        finally:
            sash.configure()
    assert isinstance(case.bound, BoundQuery)
    assert_changes(changes, expected_changes(case.bound, case.tables))


@pytest.mark.slow
@given(st.data())
def test_algorithms_may_take_turns(data: st.DataObject) -> None:
    """However the rows come, one goes on from where another stopped: no state is an algorithm's own."""
    case = data.draw(multiway_cases())
    running, changes = hinted(case, data.draw(st.sampled_from(HINTS))).start(), []
    for step in data.draw(batch_cuts(case)):
        changes.append(case.take(running, step))
        if data.draw(st.booleans()):
            snapshot, running = running.snapshot(), hinted(case, data.draw(st.sampled_from(HINTS))).start()
            running.restore(snapshot)
    assert_changes(pa.concat_tables([*changes, running.finish()]), case.run())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=N_CASES)
@given(multiway_cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case))), st.randoms(), st.data())
def test_the_planner_may_choose_anew_at_any_step(cut: tuple[Case, list[Step]], random: Random, data) -> None:
    """Whatever it chooses, when it does and where a restart comes between: the answer is the one of probes."""
    case, steps = cut
    stops = data.draw(st.sets(st.integers(0, max(0, len(steps) - 1)), max_size=2))

    def choose(*told: object) -> str | None:
        return random.choice([None, *ALTERNATIVES])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replan_multiway, "next_algorithm", choose)
        changes, _ = case.replay(steps, restart_after=stops)
        patch.setattr(replan_multiway, "next_algorithm", lambda *told: None)
        expected = case.run()
    assert_changes(changes, expected)


def hinted(case: Case, hint: str) -> Case:
    return Case(case.text.replace("SELECT", f"SELECT /*+ {hint} */", 1), case.frames)
