"""By what a top-k may tell rows apart: the columns of groups, wherever they are seen to come from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sash.operators.top_k import TopKSpec
from sash.plan.query_plan import QueryPlan

Plan = Callable[[str], QueryPlan]


def unique_by(plan: QueryPlan) -> set[tuple[str, ...]]:
    return {node.spec.unique_by for node in plan.root.walk() if isinstance(node.spec, TopKSpec)}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT k, count(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY k ORDER BY n DESC LIMIT 2", ("_ranked.k",)),
        ("SELECT k, count(*) AS n FROM a [UNBOUNDED] GROUP BY k ORDER BY n LIMIT 2", ("_ranked.k",)),
        (
            "SELECT s, k, sum(x) AS n FROM a [RANGE 9 SECONDS] GROUP BY k, s HAVING n > 1 ORDER BY n LIMIT 2",
            ("_ranked.k", "_ranked.s"),
        ),
        (
            "SELECT g.k FROM (SELECT k, sum(x) AS n FROM a [NOW] GROUP BY k) g WHERE n > 1 ORDER BY n LIMIT 2",
            ("_ranked.k",),
        ),
    ],
    ids=["window", "running", "two", "subquery"],
)
def test_the_columns_of_groups(plan: Plan, text: str, columns: tuple[str, ...]) -> None:
    assert unique_by(plan(text)) == {columns}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY k ORDER BY n LIMIT 2",
        "SELECT k + 1 AS m, count(*) AS n FROM a [RANGE 9 SECONDS] GROUP BY k ORDER BY n LIMIT 2",
        "SELECT g.k, r.name FROM (SELECT k, sum(x) AS n FROM a [NOW] GROUP BY k) g JOIN r ON g.k = r.k LIMIT 2",
        "SELECT k, x FROM a [RANGE 9 SECONDS] ORDER BY x LIMIT 2",
        "SELECT count(*) AS n FROM a [RANGE 9 SECONDS] LIMIT 2",
        "SELECT k FROM (SELECT k FROM a [NOW] GROUP BY k UNION ALL SELECT k FROM b [NOW] GROUP BY k) g LIMIT 2",
    ],
    ids=["not shown", "computed", "joined", "no groups", "all", "union"],
)
def test_nothing_where_rows_may_agree(plan: Plan, text: str) -> None:
    assert unique_by(plan(text)) == {()}
