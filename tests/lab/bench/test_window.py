"""`sash bench window`: every step has a full window and as many matches as the others."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from sash.errors import PlanError
from sash.lab.bench.picture import draw_window
from sash.lab.bench.show_join import show_window
from sash.lab.bench.stages import Stages
from sash.lab.bench.window_growth import COMPARED, WindowBench, bench_window, window_facts

QUIET = Stages(is_quiet=True)
SMALL = WindowBench(20_000, (1, 4), rate=10_000, batch_rows=400, n_measured=5, warm_up=1)


@pytest.mark.parametrize("factor", [1, 10, 100])
def test_windows_are_full_before_the_measured_batches(factor):
    bench = WindowBench()
    workload = bench.workload(factor)
    before = workload.batches[: -bench.n_measured]
    assert sum(before) / 2 >= workload.rate * workload.window_us / 1e6
    assert len(before) >= bench.warm_up
    assert workload.keys == 50_000 * factor
    assert set(workload.batches) == {bench.batch_rows}


@pytest.mark.slow
def test_steps_in_this_process(tmp_path):
    steps = bench_window(SMALL, tmp_path, None, QUIET)
    facts = json.loads(json.dumps(window_facts(steps, "embedded")))
    first, second = facts["steps"]
    assert not any(tmp_path.iterdir())
    assert second["workload"]["n_keys"] == 4 * first["workload"]["n_keys"]
    # Two streams with one row per key and window each: one match per tuple, more or less.
    assert first["matches_per_tuple"] == pytest.approx(1, abs=0.25)
    assert second["matches_per_tuple"] == pytest.approx(1, abs=0.25)
    assert second["state_rows"] > 2 * first["state_rows"]
    assert first["ratios"] == {"seconds_per_million_tuples": 1, "state_bytes": 1, "matches_per_tuple": 1}
    _check_told(facts, tmp_path)


@pytest.mark.deep
def test_steps_on_spark(spark, tmp_path):
    bench = WindowBench(20_000, (1, 2), rate=10_000, batch_rows=400, n_measured=1, warm_up=1)
    facts = window_facts(bench_window(bench, tmp_path, spark, QUIET), "spark")
    assert [set(step["ratios"]) for step in facts["steps"]] == [set(COMPARED)] * 2
    assert all(step["checkpoint_bytes_per_batch"] > 0 for step in facts["steps"])
    _check_told(facts, tmp_path)


def _check_told(facts, tmp_path):
    draw_window(facts, tmp_path / "window.png")
    assert (tmp_path / "window.png").read_bytes().startswith(b"\x89PNG")
    shown = StringIO()
    show_window(facts, Console(width=150, file=shown))
    assert "0.02 s" in shown.getvalue()


@pytest.mark.parametrize("wrong", [{"factors": ()}, {"factors": (0, 1)}, {"n_measured": 0}])
def test_what_cannot_be_measured_is_refused(wrong):
    with pytest.raises(PlanError, match=r"must be at least 1|each at least 1"):
        WindowBench(**wrong)
