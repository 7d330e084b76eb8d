"""Hints choose a method for experiments; without one the planner does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.cost.lookup_cost import REPLICATED
from sash.errors import PlanError
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.explain.describe_join import method_name
from sash.plan.explain.tree import explain_plan
from sash.plan.query_plan import LOOKUP_METHODS


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
        ("SELECT /*+ ewj */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["ewj"]),
        ("SELECT /*+ EWJ(r = 0.9, delta=5) */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["ewj(r=0.9, delta=5)"]),
        ("SELECT /*+ rpwj */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["rpwj(60)"]),
        ("SELECT /*+ rpwj(7, m_read=4) */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["rpwj(7, m_read=4)"]),
        ("SELECT /*+ ahewj(60) */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["ahewj(60)"]),
        ("SELECT /*+ whj, wnl */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["wnl(probe_insert)"]),
        ("SELECT /*+ wnl, hash */ A.x FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE", ["hash"]),
        ("SELECT /*+ wnl */ A.x FROM A, R WHERE A.k = R.k", []),
    ],
)
def test_method(sql: str, expected: list[str], plan: Callable) -> None:
    assert methods(plan(sql)) == expected


@pytest.mark.parametrize(
    ("hint", "method"),
    [("", REPLICATED), *((f"/*+ {each} */ ", each) for each in LOOKUP_METHODS), ("/*+ mesh, inl, wnl */ ", "inl")],
)
def test_lookup(hint: str, method: str, plan: Callable) -> None:
    made = plan(f"SELECT {hint}A.x FROM A, R WHERE A.k = R.k")
    assert [node.spec.method for node in made.root.walk() if isinstance(node.spec, LookupJoinSpec)] == [method]
    if method != REPLICATED:
        assert f"{LOOKUP_METHODS[method]}, by hint" in explain_plan(made, verbose=True)


def test_a_lookup_in_a_file_needs_a_key(plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan("SELECT /*+ partitioned_hash */ A.x\nFROM A, R\nWHERE A.x < R.k")
    assert str(caught.value) == "\n".join([
        "the hint `partitioned_hash` needs an equality between `R` and the streams before it; add one, or leave the "
        "hint out",
        "  line 2: FROM A, R",
        "                  ^",
    ])  # fmt: skip


WHJ_SETTINGS = (
    "`whj` takes a number of buckets and an invalidation (`probe`, `probe_insert`, `probe_all`, `optimal`), "
    "as in `whj(100, optimal)`"
)


EWJ_SETTINGS = (
    "`ewj` takes numbers for `r`, `delta`, `alpha`, `epoch`, `block_rows`, `block_bytes`, `memory`, `recent`, "
    "`frequent`, `basic_window`, as in `ewj(memory=4096)`"
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
        ("ewj(60)", f"the hint `ewj(60)` cannot be set to `60`; {EWJ_SETTINGS}"),
        ("ewj(q=3)", f"the hint `ewj(q=3)` cannot be set to `q=3`; {EWJ_SETTINGS}"),
        ("ewj(r=1/2)", f"the hint `ewj(r=1/2)` cannot be set to `r=1/2`; {EWJ_SETTINGS}"),
        ("ewj(epoch=1.5)", f"the hint `ewj(epoch=1.5)` cannot be set to `epoch=1.5`; {EWJ_SETTINGS}"),
        ("ewj(r=1.5)", "the hint `ewj(r=1.5)` cannot be: `r` is 1.5; it must be more than 0 and less than 1"),
        ("rpwj(0)", "`rpwj(0)` asks for 0 partitions; give 1 to 16777216"),
        (
            "ahewj(60, memory=100)",
            "the hint `ahewj(60, memory=100)` cannot be: `memory` is 100; it must be so large that a stream has at "
            "least 61 recent blocks, one more than buckets",
        ),
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
        "`wnl` (windowed nested loops), `ewj` (Exact Window Join), `rpwj` (Rate-based Progressive Window Join), "
        "`ahewj` (Adaptive Hash-partitioned Exact Window Join), `nlw` (NLW-join), `hw` (HW-join), `mw` (MW-join), "
        "`gca` (global conservative approach), `lca` (local conservative approach), `ripple` (ripple join), "
        "`xjoin` (XJoin), `probe` (probes, stream by stream), `replicated` (a relation in memory), "
        "`partitioned_hash` (a relation in a file, by hash), "
        "`partitioned_range` (a relation in a file, by range), `mesh` (MESHJOIN), `inl` (indexed nested loops), "
        "`tpa` (Time Probing), `nta` (Negative Tuples), `hybrid` (Hybrid), "
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


@pytest.mark.parametrize("hint", ["ewj", "rpwj", "ahewj"])
def test_a_join_on_disk_takes_nothing_back(hint: str, plan: Callable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT /*+ {hint} */ A.x\nFROM A [ROWS 5], B [ROWS 5]\nWHERE A.k = B.k")
    assert str(caught.value) == "\n".join([
        f"the hint `{hint}` is for tuples that leave by the clock alone, but where `B` is joined some may be taken "
        "back, and would have to be looked for on disk; leave the hint out",
        "  line 2: FROM A [ROWS 5], B [ROWS 5]",
        "                           ^",
    ])  # fmt: skip


@pytest.mark.parametrize("hint", ["ewj", "rpwj", "ahewj"])
def test_a_join_on_disk_needs_a_key(hint: str, plan: Callable) -> None:
    with pytest.raises(PlanError, match=f"the hint `{hint}` needs an equality"):
        plan(f"SELECT /*+ {hint} */ A.x FROM A, B WHERE A.x < B.y WINDOW 1 MINUTE")
