"""What the planner refuses beside endless state: each with the place and what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sash
from sash.errors import PlanError

ROWS = pa.table({"ts": [1, 2, 3], "k": [1, 2, 1], "tags": [["a"], ["b"], None]})


def explain(query: str) -> str:
    return sash.explain(query, s=sash.stream(ROWS, "ts", "0 us"))


@pytest.mark.parametrize(
    ("query", "reason", "remedy"),
    [
        (
            "SELECT A.tags FROM s A WHERE A.k IN (SELECT k FROM s) WINDOW 5 us",
            "`IN` and `EXISTS` cannot pass on `A.tags`",
            "leave the column out",
        ),
        (
            "SELECT LAST(x.n) AS n FROM (SELECT COUNT(*) AS n FROM s) x WINDOW 5 us",
            "`LAST` goes by the time of rows, which those of the subquery `x` do not have",
            "take it of a stream itself",
        ),
    ],
)
def test_refused_with_a_remedy(query: str, reason: str, remedy: str) -> None:
    with pytest.raises(PlanError) as error:
        explain(query)
    assert reason in str(error.value)
    assert remedy in str(error.value)
    assert "^^^" in str(error.value)


def test_the_same_without_what_is_refused_runs() -> None:
    assert "Semi join" in explain("SELECT A.k FROM s A WHERE A.k IN (SELECT k FROM s) WINDOW 5 us")
    assert "GroupBy" in explain("SELECT MAX(x.n) AS n FROM (SELECT COUNT(*) AS n FROM s) x WINDOW 5 us")


def test_an_aggregate_of_nothing_is_a_row() -> None:
    changes = sash.sql("SELECT 1 AS x FROM s [ROWS 1] HAVING TRUE", s=sash.stream(ROWS, "ts", "0 us"))
    assert changes.select(["x", "_op", "_ts"]).to_pylist() == [{"x": 1, "_op": 1, "_ts": None}]
