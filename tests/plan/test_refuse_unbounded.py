"""Plans that would keep a stream for ever are refused, with the reason and what would help."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.errors import PlanError


def test_a_join_with_a_stream_that_never_lets_go(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT A.x\nFROM A [RANGE 1 HOUR], B b2 [UNBOUNDED]\nWHERE A.k = b2.k")
    assert str(caught.value) == "\n".join([
        "the window of `b2` never lets a tuple go, so the join would have to keep all of `b` for ever; "
        "give it a bound such as [RANGE 1 HOUR] or [ROWS 1000], or pass it as a relation if it does not change",
        "  line 2: FROM A [RANGE 1 HOUR], B b2 [UNBOUNDED]",
        "                                 ^^^^",
    ])  # fmt: skip


def test_a_landmark_window_in_a_join(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT A.x FROM A [SINCE TIMESTAMP '2026-01-31'], B [NOW] WHERE A.k = B.k")
    assert str(caught.value) == "\n".join([
        "the window of `A` never lets a tuple go, so the join would have to keep all of `a` for ever; "
        "give it a bound such as [RANGE 1 HOUR] or [ROWS 1000], or pass it as a relation if it does not change",
        "  line 1: SELECT A.x FROM A [SINCE TIMESTAMP '2026-01-31'], B [NOW] WHERE A.k = B.k",
        "                          ^",
    ])  # fmt: skip


def test_a_join_without_any_window(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT A.x FROM A, B WHERE A.k = B.k")
    assert str(caught.value) == "\n".join([
        "window missing on the join: `A` would have to be kept for ever; "
        "add `WINDOW 1 MINUTE` at the end or `[RANGE 1 MINUTE]` after `A`",
        "  line 1: SELECT A.x FROM A, B WHERE A.k = B.k",
        "                          ^",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "named"),
    [("EXCEPT", "EXCEPT"), ("EXCEPT ALL", "EXCEPT ALL"), ("INTERSECT", "INTERSECT"), ("UNION", "UNION")],
)
def test_a_set_operation_with_a_stream_that_never_lets_go(operation: str, named: str, plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT k FROM A [RANGE 1 HOUR] {operation} SELECT k FROM B [UNBOUNDED]")
    assert str(caught.value).startswith(
        f"the window of `B` never lets a tuple go, so {named} would have to keep all of `b` for ever; "
    )


def test_a_set_operation_within_a_subquery(plan: Callable) -> None:
    with pytest.raises(PlanError, match="so INTERSECT would have to keep all of `b` for ever"):
        plan("SELECT D.k FROM (SELECT k FROM A [NOW] INTERSECT SELECT k FROM B [UNBOUNDED]) D")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT A.x FROM A",
        "SELECT k FROM A [UNBOUNDED] UNION ALL SELECT k FROM B [UNBOUNDED]",
        "SELECT A.x FROM A [UNBOUNDED]",
        "SELECT A.x FROM A [SINCE TIMESTAMP '2026-01-31'] EMIT CHANGES",
        "SELECT A.x FROM A [UNBOUNDED], R WHERE A.k = R.k",
        "SELECT A.x FROM A [ROWS 5], B [NOW] WHERE A.k = B.k",
        "SELECT count(*) FROM A [UNBOUNDED]",
        "SELECT A.k, sum(A.x), avg(A.x), stddev(A.x) FROM A [UNBOUNDED] GROUP BY A.k HAVING min(A.s) < max(A.s)",
        "SELECT R.name, first(A.x), last(A.x) FROM A [SINCE TIMESTAMP '2026-01-31'], R WHERE A.k = R.k GROUP BY R.name",
        "SELECT count(*) FROM (SELECT k FROM A [UNBOUNDED] UNION ALL SELECT k FROM B [UNBOUNDED]) t WHERE k > 1",
        "SELECT C.z FROM C [NOW], (SELECT k, count(*) AS n FROM A [UNBOUNDED] GROUP BY k) g WHERE C.k = g.k",
        "SELECT k FROM A [UNBOUNDED] GROUP BY k EXCEPT SELECT k FROM B [NOW]",
        "SELECT k FROM A [NOW] WHERE k IN (SELECT max(k) FROM B [UNBOUNDED])",
        "SELECT k FROM A [UNBOUNDED] UNION ALL SELECT k FROM B [NOW]",
    ],
)
def test_what_keeps_no_stream_for_ever_runs(sql: str, plan: Callable) -> None:
    plan(sql)


@pytest.mark.parametrize(
    ("sql", "keeper"),
    [
        ("SELECT median(x) FROM A [UNBOUNDED]", "`MEDIAN`"),
        ("SELECT k, count(*) FROM A [UNBOUNDED] GROUP BY k HAVING median(x) > 1", "`MEDIAN`"),
        ("SELECT k, count(DISTINCT x) FROM A [UNBOUNDED] GROUP BY k", "`COUNT(DISTINCT)`"),
        ("SELECT count(*) FROM A [UNBOUNDED], B [NOW] WHERE A.k = B.k", "the join"),
        ("SELECT count(*) FROM A [UNBOUNDED] WHERE k IN (SELECT k FROM B [NOW])", "the test against the subquery"),
        ("SELECT count(*) FROM B [NOW] WHERE k IN (SELECT k FROM A [UNBOUNDED])", "the test against the subquery"),
        ("SELECT count(*) FROM (SELECT DISTINCT k FROM A [UNBOUNDED]) t", "DISTINCT"),
        ("SELECT count(*) FROM (SELECT k FROM A [UNBOUNDED] UNION ALL SELECT k FROM B [NOW]) t", "the aggregate"),
        ("SELECT count(*) FROM (SELECT k FROM A [UNBOUNDED] UNION SELECT k FROM B [NOW]) t", "the aggregate"),
        ("SELECT k FROM B [NOW] UNION SELECT k FROM A [UNBOUNDED]", "UNION"),
        ("SELECT k FROM A [UNBOUNDED] EXCEPT ALL SELECT k FROM B [NOW]", "EXCEPT"),
        ("SELECT k FROM B [NOW] WHERE k IN (SELECT k FROM B [NOW] INTERSECT SELECT k FROM A [UNBOUNDED])", "the test"),
    ],
)
def test_what_would_keep_a_stream_for_ever_is_refused(sql: str, keeper: str, plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(sql)
    reason, line, mark = str(caught.value).split("\n")
    assert reason.startswith(f"the window of `A` never lets a tuple go, so {keeper}")
    assert "give it a bound such as [RANGE 1 HOUR]" in reason
    assert line[mark.index("^") :].startswith("A [UNBOUNDED]")
