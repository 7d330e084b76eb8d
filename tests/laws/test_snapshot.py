"""Law 1: for every instant T, the changes up to T amount to the plain query over the tuples in their windows at T."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from sqlglot import exp

import sash
from sash.oracle.snapshot_law import check_snapshot
from sash.sql.bound_query import BoundQuery
from sash.sql.parse import parse_query
from sash.testing import Case, assert_changes, assert_snapshot, expected_changes
from sash.testing.plans import plans
from sash.testing.strategies import cases
from support.profiles import volume

N_CASES = volume(dev=4, ci=60, deep=1000)
N_PLANS = volume(dev=4, ci=80, deep=1000)


@settings(max_examples=N_CASES)
@given(cases())
def test_changes_amount_to_the_answer_at_every_instant(case: Case) -> None:
    changes = case.run()
    assert isinstance(case.bound, BoundQuery)
    check_snapshot(case.bound, case.tables, changes)
    assert_changes(changes, expected_changes(case.bound, case.tables))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=N_PLANS)
@given(plans())
def test_plans_amount_to_the_answer_with_every_algorithm(case: Case) -> None:
    """Law 6 as well: how tuples that leave are told to the operators above does not show. TPA = NTA = Hybrid."""
    changes = case.run("tpa")
    check_snapshot(case.bound, case.tables, changes)
    for schedule in ("nta", "hybrid") if has_join(case) else ("nta",):
        assert_changes(case.run(schedule), changes)


def has_join(case: Case) -> bool:
    return any(select.args.get("joins") for select in parse_query(case.text).tree.find_all(exp.Select))


@pytest.mark.slow
@settings(max_examples=N_CASES // 40 + 10)
@given(plans())
def test_a_plan_is_answered_without_a_hint(case: Case) -> None:
    check_snapshot(case.bound, case.tables, case.run())


@settings(max_examples=N_CASES // 40 + 10)
@given(cases())
def test_sql_is_a_run_of_the_case(case: Case) -> None:
    changes = sash.sql(case.text, **case.frames)
    assert changes.schema == case.plan.schema
    assert_changes(changes, case.run())


@pytest.mark.parametrize("frame", ["arrow", "pandas", "polars"])
def test_every_kind_of_frame(frame: str) -> None:
    ts = pa.array([1, 2, 4, 9], pa.timestamp("us"))
    table = pa.table({"ts": ts, "k": ["a", "b", "a", "a"], "v": [1, 2, 3, 4]})
    given = {"arrow": table, "pandas": table.to_pandas()}.get(frame)
    if given is None:
        given = pytest.importorskip("polars").from_arrow(table)
    text = "SELECT A.v, B.v AS later FROM s A, s B WHERE A.k = B.k AND A.v < B.v WINDOW 5 us EMIT CHANGES"
    changes = sash.sql(text, s=given)
    assert changes.num_rows > 0
    assert_snapshot(text, changes, s=given)
