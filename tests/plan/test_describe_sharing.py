"""EXPLAIN of queries that share a join.

A fixture is queries with their names, and the text in short and verbose, with empty lines between them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sash.plan.explain.describe_sharing import explain_sharing, shares_any
from sash.plan.physical import Plan

FIXTURES = sorted((Path(__file__).parent / "sharing").glob("*.explain"))
TWO = {
    "first": "SELECT /*+ swf */ A.k FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
    "second": "SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 HOUR",
}


def planned(queries: dict[str, str], plan: Callable[[str], Plan]) -> dict[str, Plan]:
    return {name: plan(sql) for name, sql in queries.items()}


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_golden_text(path: Path, plan: Callable, request: pytest.FixtureRequest) -> None:
    written = path.read_text(encoding="utf-8").split("\n\n")[0].rstrip("\n")
    queries = dict(line.split(": ", 1) for line in written.splitlines())
    plans = planned(queries, plan)
    seen = f"{written}\n\n{explain_sharing(plans)}\n{explain_sharing(plans, verbose=True)}"
    if request.config.getoption("--rewrite-goldens", default=False):
        path.write_text(seen, encoding="utf-8")
    assert seen == path.read_text(encoding="utf-8")


def test_on_spark_the_schedule_is_always_the_same(plan: Callable) -> None:
    text = explain_sharing(planned(TWO, plan), is_spark=True, verbose=True)
    assert (
        "  schedule   Largest Window Only (LWO): on Spark all answers leave with their batch; the hint `swf` has no "
        "effect\n"
    ) in text


def test_queries_that_share_nothing_are_told_apart(plan: Callable) -> None:
    plans = planned(TWO, plan)
    assert shares_any(plans)
    assert not shares_any({"first": plans["first"], "third": plan("SELECT A.k FROM A, B WHERE A.x = B.k WINDOW 1 DAY")})
