"""Law 1: for every instant T, the changes up to T amount to the plain query over the tuples in their windows at T."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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


SHARED = "WITH S AS (SELECT k FROM A EXCEPT SELECT k FROM B) "


@pytest.mark.usefixtures("without_limit")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT {} S.k, SUM(C.k) FROM (SELECT k FROM A EXCEPT ALL SELECT k FROM B) S, C WHERE S.k = C.k GROUP BY S.k",
        "SELECT {} DISTINCT S.k FROM (SELECT k, COUNT(*) AS n FROM A GROUP BY k) S, B, C WHERE S.k = B.k AND S.n < C.k",
        "SELECT {} DISTINCT S.k FROM (SELECT DISTINCT A.k FROM A, B WHERE A.k = B.k) S, C [ROWS 2] WHERE S.k = C.k",
        SHARED + "SELECT {} COUNT(*) AS n FROM C, S WHERE C.k = S.k AND C.k NOT IN (SELECT k FROM S WHERE k > 1)",
        "SELECT {} S.k, COUNT(*) FROM (SELECT k FROM A EXCEPT ALL SELECT k FROM B) S, R WHERE S.k = R.k GROUP BY S.k",
        "SELECT {} C.k, COUNT(*) FROM A [ROWS 2], B, C, R WHERE A.k = B.k AND B.k = C.k AND C.k = R.k GROUP BY C.k",
        "SELECT {} C.k FROM C LEFT JOIN (SELECT k FROM A INTERSECT SELECT k FROM B) S ON C.k = S.k",
    ],
)
@settings(max_examples=volume(dev=3, ci=20, deep=200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_hybrid_below_a_join_is_time_probing(text: str, data: st.DataObject) -> None:
    """Law 6 where what is joined takes rows back: W-EXPIRE above the topmost join, and none below."""
    rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=9)
    frames: dict[str, object] = {"r": sash.relation(pa.table({"k": pa.array([0, 1, 1], pa.int64())}))}
    for name in "abc":
        gaps, keys = zip(*data.draw(rows))
        columns = {"ts": pa.array(accumulate(gaps), pa.int64()), "k": pa.array(keys, pa.int64())}
        frames[name] = sash.stream(pa.table(columns), time="ts")
    answers = [
        sash.sql(f"{text.format(hint)} WINDOW 4 MICROSECONDS", **frames)
        for hint in ("/*+ tpa */", "/*+ hybrid */", "/*+ nta */")
    ]
    for answer in answers[1:]:
        assert_changes(answer, answers[0])
    assert_snapshot(f"{text.format('/*+ hybrid */')} WINDOW 4 MICROSECONDS", answers[1], **frames)


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
