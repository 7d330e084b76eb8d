"""`sash bench topk`: both queries are measured over the same tuples, and DuckDB says whether they are right."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from sash.errors import MismatchError, PlanError
from sash.lab.bench import top_k_cost
from sash.lab.bench.show_top_k import draw_top_k, show_top_k
from sash.lab.bench.stages import Stages
from sash.lab.bench.top_k_cost import GROUPED, TITLES, TOP_K, TopKBench, bench_top_k

QUIET = Stages(is_quiet=True)
SMALL = TopKBench(n_keys=300, n_shown=4, n_tuples=900, batch_rows=250)


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", ["count(*)", "sum(v)"])
def test_both_queries_are_right(aggregate: str, tmp_path: Path) -> None:
    bench = TopKBench(300, 4, 900, aggregate=aggregate, batch_rows=250)
    facts = json.loads(json.dumps(bench_top_k(bench, QUIET, n_runs=2)))
    assert facts["answer"][TOP_K] == {"instants": 4, "rows": 16}
    assert facts["answer"][GROUPED]["rows"] > 200
    for told in facts["queries"].values():
        assert told["cpu_seconds"] == min(told["runs"]) > 0
        assert len(told["runs"]) == 2
        assert sum(work["rows_in"] for work in told["operators"].values()) > 900
    assert facts["ratios"]["topk/grouped"] > 0
    shown = StringIO()
    show_top_k(facts, Console(file=shown, width=200))
    assert all(title in shown.getvalue() for title in TITLES.values())
    draw_top_k(facts, tmp_path / "topk.png")
    assert (tmp_path / "topk.png").read_bytes().startswith(b"\x89PNG")


def test_the_window_is_full_when_measuring_begins() -> None:
    assert SMALL.n_filling == 750
    assert SMALL.window_us == 6000
    assert SMALL.stream().num_rows == 1650
    assert SMALL.stream().equals(SMALL.stream())


@pytest.mark.slow
@pytest.mark.parametrize("query", [GROUPED, TOP_K])
def test_a_lost_change_is_a_mismatch(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = top_k_cost._run

    def forgetful(bench, name, stream, note):
        done = run(bench, name, stream, note)
        changes = pa.concat_tables(done.changes)
        done.changes = [changes.slice(0, changes.num_rows - 1)] if name == query else done.changes
        return done

    monkeypatch.setattr(top_k_cost, "_run", forgetful)
    with pytest.raises(MismatchError, match=r"is wanted, but not found|is found, but not wanted"):
        bench_top_k(SMALL, QUIET, n_runs=1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"n_keys": 0}, "`keys` is 0, but must be at least 1"),
        ({"n_shown": 0}, "`limit` is 0"),
        ({"batch_rows": 0}, "`batch` is 0"),
        ({"per_key": 0}, "`per-key` is 0, but must be more than 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: dict, reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        TopKBench(**settings)
