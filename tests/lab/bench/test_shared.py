"""`sash bench shared`: queries that share a join give what they give alone, and are measured both ways."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from sash.errors import MismatchError, PlanError
from sash.lab.bench.agreement import Checksum
from sash.lab.bench.picture import draw_shared
from sash.lab.bench.shared_queries import LEAST_SHARE, WIDEST_SHARE, SharedQueries
from sash.lab.bench.sharing_gain import SharingOutcome, bench_shared_embedded, check_answers
from sash.lab.bench.show_shared import show_shared
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload

QUIET = Stages(is_quiet=True)
SMALL = SharedQueries(JoinWorkload(2400, 200_000, rate=1000, n_keys=50, batch_rows=400), 4, 2000)


def test_windows_grow_by_the_same_factor():
    queries = SharedQueries(JoinWorkload(300_000, 600_000_000), 20, 1_000_000)
    windows = [queries.window_us(name) for name in queries.names]
    assert (windows[0], windows[-1], queries.largest) == (1_000_000, 600_000_000, "q20")
    factors = [after / before for before, after in pairwise(windows)]
    assert max(factors) == pytest.approx(min(factors), rel=1e-5)


def test_filters_differ_and_the_largest_window_has_the_widest():
    queries = SharedQueries(JoinWorkload(300_000, 600_000_000))
    shares = [queries.share(name) for name in queries.names]
    assert len(set(shares)) == 20
    assert min(shares) == LEAST_SHARE
    assert max(shares) == shares[-1] == WIDEST_SHARE
    assert "AND a.v % 100 < 5 WINDOW 1000000 MICROSECONDS" in queries.text("q01")
    assert "AND b.v % 100 < 90 WINDOW 600000000 MICROSECONDS" in queries.text("q20")


def test_one_query_has_nothing_to_share_with():
    with pytest.raises(PlanError, match="at least 2"):
        replace(SMALL, n_queries=1)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory) -> dict:
    return bench_shared_embedded(SMALL, tmp_path_factory.mktemp("embedded"), QUIET, n_runs=1)


@pytest.mark.slow
def test_in_this_process_every_figure_is_told(embedded):
    facts = json.loads(json.dumps(embedded))
    largest, shared, separate = (facts["figures"][way] for way in ("largest", "shared", "separate"))
    assert shared["rows"] == separate["rows"] > largest["rows"] > 1000
    assert largest["state_rows"] < shared["state_rows"] < separate["state_rows"]
    assert facts["ratios"]["separate/shared"]["rows"] == 1
    assert facts["ratios"]["shared/largest"]["cpu_seconds"] > 0
    assert sum(each["rows"] for each in facts["queries"].values()) >= shared["rows"]
    assert all(each["rows"] > 0 for each in facts["queries"].values())


@pytest.mark.slow
def test_answers_that_differ_are_an_error(embedded):
    one, other = Checksum(3, 1, 2), Checksum(2, 1, 2)
    with pytest.raises(
        MismatchError, match=r"the answers of `q1` differ: sharing it gives 3 rows.*alone it gives 2 rows"
    ):
        check_answers(SharingOutcome(None, {"q1": one}), {"q1": SharingOutcome(None, {"q1": other})})  # pyright: ignore


@pytest.mark.slow
def test_what_did_not_run_is_not_shown(embedded, tmp_path):
    shown = show(tmp_path, {"embedded": embedded, "spark": None})
    assert "4 queries over one join, in this process" in shown
    assert "Spark" not in shown


@pytest.mark.deep
def test_on_spark_the_same_rows_come_out(spark, tmp_path, embedded):
    from sash.lab.bench.shared_spark import bench_shared_spark

    facts = bench_shared_spark(SMALL, tmp_path, spark, QUIET)
    assert {name: each["rows"] for name, each in facts["queries"].items()} == {
        name: each["rows"] for name, each in embedded["queries"].items()
    }
    shared = facts["figures"]["shared"]
    assert shared["checkpoint_bytes"] > 0
    assert shared["state_rows"] >= facts["figures"]["largest"]["state_rows"]
    assert "checkpoint" in show(tmp_path, {"embedded": None, "spark": facts})


def show(directory: Path, facts: dict) -> str:
    draw_shared(facts, directory / "shared.png")
    assert (directory / "shared.png").read_bytes().startswith(b"\x89PNG")
    with open(directory / "shown", "w") as file:
        show_shared(facts, Console(width=150, file=file))
    return (directory / "shown").read_text()
