"""Law 6: every algorithm that may serve a query gives the same output. WNL = WHJ."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given

import sash
from sash.embedded.run import run_tables
from sash.plan.planner import plan_query
from sash.testing import Case, assert_changes, stream_of
from sash.testing.strategies import cases


@given(cases())
def test_nested_loops_and_hash_join_agree(case: Case) -> None:
    assume(len(case.plan.slots) > 1)
    try:
        expected = _run_hinted(case, "whj")
    except sash.PlanError as error:
        if "needs an equality" not in str(error):
            raise
        expected = _run_hinted(case)
    assert_changes(_run_hinted(case, "wnl"), expected)


@pytest.mark.parametrize(("hint", "shown"), [("wnl", "nested loops"), ("whj", "hash join")])
def test_the_hint_decides(hint: str, shown: str) -> None:
    stream = sash.stream(stream_of("ts | k", ts="BIGINT"), time="ts")
    text = f"SELECT /*+ {hint} */ A.k FROM s A, s B WHERE A.k = B.k WINDOW 3 us"
    assert shown in sash.explain(text, s=stream)


def _run_hinted(case: Case, *hints: str) -> pa.Table:
    plan = plan_query(replace(case.bound, hints=hints))
    return run_tables(plan, case.arrivals, case.tables)[0]
