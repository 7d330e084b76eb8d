"""Hints choose an algorithm for experiments; without one the planner does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.errors import PlanError
from sash.operators.window_join import WindowJoinSpec


def algorithms(plan) -> list[str]:
    return [node.spec.method.algorithm for node in plan.root.walk() if isinstance(node.spec, WindowJoinSpec)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["hash"]),
        ("SELECT A.x FROM A, B WHERE A.x < B.y WINDOW 1 MINUTE", ["wnl"]),
        ("SELECT A.x FROM A, B, C WHERE A.k = C.k WINDOW 1 MINUTE", ["hash", "wnl"]),
        ("SELECT /*+ wnl */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["wnl"]),
        ("SELECT /*+ WHJ */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["whj"]),
        ("SELECT /*+ whj, wnl */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["wnl"]),
        ("SELECT /*+ wnl */ A.x FROM A, R WHERE A.k = R.k", []),
    ],
)
def test_algorithm(sql: str, expected: list[str], plan: Callable) -> None:
    assert algorithms(plan(sql)) == expected


@pytest.mark.parametrize(
    ("hint", "schedule"),
    [("", "tpa"), ("/*+ tpa */ ", "tpa"), ("/*+ NTA */ ", "nta"), ("/*+ wnl, hybrid */ ", "hybrid")],
)
def test_schedule(hint: str, schedule: str, plan: Callable) -> None:
    made = plan(f"SELECT {hint}A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE")
    assert (made.schedule, made.is_hinted) == (schedule, bool(hint))


def test_an_unknown_hint_is_refused(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT /*+ mqt */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE")
    assert str(caught.value) == "\n".join([
        "the hint `mqt` is not known; there is `hash` (hash join), `whj` (windowed hash join), "
        "`wnl` (windowed nested loops), `tpa` (Time Probing), `nta` (Negative Tuples), `hybrid` (Hybrid)",
        "  line 1: SELECT /*+ mqt */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
        "                 ^^^^^^^^^^",
    ])  # fmt: skip


def test_a_hash_join_without_a_key_is_refused(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT /*+ whj */ A.x\nFROM A, B\nWHERE A.x < B.y\nWINDOW 1 MINUTE")
    assert str(caught.value) == "\n".join([
        "the hint `whj` needs an equality between `B` and the streams before it; add one, or leave the hint out",
        "  line 2: FROM A, B",
        "                  ^",
    ])  # fmt: skip
