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
    ],
)
def test_what_keeps_no_stream_for_ever_runs(sql: str, plan: Callable) -> None:
    plan(sql)
