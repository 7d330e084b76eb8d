"""Hints choose a method for experiments; without one the planner does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.errors import PlanError
from sash.operators.window_join import WindowJoinSpec
from sash.plan.explain.describe_join import method_name


def methods(plan) -> list[str]:
    return [method_name(node.spec.method) for node in plan.root.walk() if isinstance(node.spec, WindowJoinSpec)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["hash"]),
        ("SELECT A.x FROM A, B WHERE A.x < B.y WINDOW 1 MINUTE", ["wnl(probe_insert)"]),
        ("SELECT A.x FROM A, B, C WHERE A.k = C.k WINDOW 1 MINUTE", ["hash", "wnl(probe_insert)"]),
        ("SELECT /*+ wnl */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["wnl(probe_insert)"]),
        ("SELECT /*+ wnl(optimal) */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["wnl(optimal)"]),
        ("SELECT /*+ WHJ */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["whj(1024, probe_insert)"]),
        ("SELECT /*+ whj(100) */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["whj(100, probe_insert)"]),
        ("SELECT /*+ whj (7, PROBE) tpa */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["whj(7, probe)"]),
        ("SELECT /*+ whj(optimal) */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["whj(1024, optimal)"]),
        ("SELECT /*+ whj, wnl */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["wnl(probe_insert)"]),
        ("SELECT /*+ wnl, hash */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["hash"]),
        ("SELECT /*+ wnl */ A.x FROM A, R WHERE A.k = R.k", []),
    ],
)
def test_method(sql: str, expected: list[str], plan: Callable) -> None:
    assert methods(plan(sql)) == expected


WHJ_SETTINGS = (
    "`whj` takes a number of buckets and an invalidation (`probe`, `probe_insert`, `probe_all`, `optimal`), "
    "as in `whj(100, optimal)`"
)


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("whj(0)", "`whj(0)` asks for 0 buckets; give 1 to 16777216"),
        ("whj(fast)", f"the hint `whj(fast)` cannot be set to `fast`; {WHJ_SETTINGS}"),
        ("whj(10, 20)", f"the hint `whj(10, 20)` cannot be set to `20`; {WHJ_SETTINGS}"),
        ("whj()", f"the hint `whj()` cannot be set to ``; {WHJ_SETTINGS}"),
        (
            "wnl(100)",
            "the hint `wnl(100)` cannot be set to `100`; `wnl` takes an invalidation "
            "(`probe`, `probe_insert`, `probe_all`, `optimal`), as in `wnl(optimal)`",
        ),
        ("hash(100)", "the hint `hash(100)` cannot be set to `100`; `hash` takes no settings"),
    ],
)
def test_settings_that_cannot_be(hint: str, reason: str, plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT /*+ {hint} */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE")
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("hint", "schedule"),
    [("", "tpa"), ("/*+ tpa */ ", "tpa"), ("/*+ NTA */ ", "nta"), ("/*+ wnl, hybrid */ ", "hybrid")],
)
def test_schedule(hint: str, schedule: str, plan: Callable) -> None:
    made = plan(f"SELECT {hint}A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE")
    assert (made.expiry_schedule, made.is_expiry_hinted) == (schedule, bool(hint))


def test_an_unknown_hint_is_refused(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT /*+ fastest */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE")
    assert str(caught.value) == "\n".join([
        "the hint `fastest` is not known; there is `hash` (hash join), `whj` (windowed hash join), "
        "`wnl` (windowed nested loops), `nlw` (NLW-join), `hw` (HW-join), `mw` (MW-join), "
        "`gca` (global conservative approach), `lca` (local conservative approach), `ripple` (ripple join), "
        "`xjoin` (XJoin), `tpa` (Time Probing), `nta` (Negative Tuples), `hybrid` (Hybrid), "
        "`lwo` (Largest Window Only), `swf` (Smallest Window First), `mqt` (Maximum Query Throughput)",
        "  line 1: SELECT /*+ fastest */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
        "                 ^^^^^^^^^^^^^^",
    ])  # fmt: skip


def test_a_hash_join_without_a_key_is_refused(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT /*+ whj */ A.x\nFROM A, B\nWHERE A.x < B.y\nWINDOW 1 MINUTE")
    assert str(caught.value) == "\n".join([
        "the hint `whj` needs an equality between `B` and the streams before it; add one, or leave the hint out",
        "  line 2: FROM A, B",
        "                  ^",
    ])  # fmt: skip
