"""EXPLAIN of queries that share a join.

A fixture is queries with their names, and the text in short and verbose, with empty lines between them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sash.plan.explain.describe_sharing import explain_sharing
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.who_shares import LEAST_IN_SCRIPTS, Sharing, decide_sharing
from sash.sql.bind import bind
from sash.sql.catalog import StreamInfo
from sash.sql.parse import parse_query

FIXTURES = sorted((Path(__file__).parent / "sharing").glob("*.explain"))
TWO = {
    "first": "SELECT /*+ swf */ A.k FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE",
    "second": "SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 HOUR",
}


def planned(queries: dict[str, str], plan: Callable[[str], QueryPlan], least: int = LEAST_IN_SCRIPTS) -> Sharing:
    return decide_sharing({name: plan(sql) for name, sql in queries.items()}, least)


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
    assert planned(TWO, plan).is_any
    third = "SELECT A.k FROM A, B WHERE A.x = B.k WINDOW 1 DAY"
    assert not planned({"first": TWO["first"], "third": third}, plan).is_any


def test_whoever_may_add_queries_is_told_of_the_join_that_they_would_share(plan: Callable) -> None:
    """A session with one query runs it on a join that others can share, and says so."""
    sharing = planned({"first": TWO["first"]}, plan, least=1)
    short, verbose = explain_sharing(sharing), explain_sharing(sharing, verbose=True)
    assert short.startswith("Shared join: a ⋈ b ON a.k = b.k  keeps ")
    assert "so far for first alone" in short
    assert "Query first has a join that others can share" in verbose
    for text in (short, verbose):
        assert "Tap" in text
        assert "WindowJoin" not in text


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("""A.s = B.s || '"left.k"'""", """a.s = b.s || '"left.k"'"""),
        ("""A."a ""k" + 1 = B.k""", """"a.a ""k" + 1 = b.k"""),
        ("""A."a ""k" < B.k""", """"a.a ""k" < b.k"""),
        ("A.s || 'left=' = B.s", "a.s || 'left=' = b.s"),
    ],
)
def test_columns_are_called_by_their_stream_whatever_their_names_and_texts_have_in_them(
    condition: str, shown: str
) -> None:
    stream = StreamInfo(pa.schema([(name, pa.int64()) for name in ("ts", "k", 'a "k')] + [("s", pa.string())]), "ts")

    def plan(text: str) -> QueryPlan:
        return plan_query(bind(parse_query(text), {"a": stream, "b": stream}))

    queries = {name: f"SELECT A.k FROM A, B WHERE {condition} WINDOW 1 {name}" for name in ("MINUTE", "HOUR")}
    assert explain_sharing(planned(queries, plan)).startswith(f"Shared join: a ⋈ b ON {shown}  keeps ")
