"""`sash bench plans` counts what it says it counts."""

from __future__ import annotations

import json
import sys

import pytest

from sash.cli.main import main
from sash.errors import PlanError
from sash.lab.bench.plan_costs import PlanBench, measure_plan
from sash.lab.bench.plan_sweep import sweep_groups, sweep_window
from sash.lab.bench.stages import Stages

SMALL = PlanBench("q2", n_tuples=16_000, rate=100, window_us=5_000_000, batch_rows=500)


@pytest.mark.slow
def test_only_what_comes_after_the_window_is_full_is_measured():
    measure = measure_plan(SMALL)
    assert SMALL.n_filling == 1_000
    assert measure.n_tuples == 16_000
    joined = next(work for name, work in measure.operators.items() if name.endswith("WindowJoin"))
    assert 0 < joined.rows_in < measure.n_tuples
    assert measure.operators["6-Distinct"].rows_out == measure.n_changes
    assert sum(work.seconds for work in measure.operators.values()) < measure.seconds


@pytest.mark.slow
def test_the_same_seed_gives_the_same_work():
    first, again = (measure_plan(SMALL) for _ in range(2))
    assert [(work.rows_in, work.rows_out) for work in first.operators.values()] == [
        (work.rows_in, work.rows_out) for work in again.operators.values()
    ]


@pytest.mark.slow
def test_longer_windows_and_more_groups_make_as_many_changes():
    with Stages(is_quiet=True) as stages:
        windows = sweep_window([SMALL], (1, 4), stages)
        groups = sweep_groups(PlanBench("q4", 20_000, 1_000, 4_000_000, 1_000), (1, 4), stages)
    for first, longer in (windows, groups):
        assert longer["ratios"]["changes_per_tuple"] == pytest.approx(1, abs=0.2)
        assert longer["ratios"]["state_bytes_per_tuple"] < 1.5
        assert first["ratios"]["cpu_us_per_tuple"] == 1


@pytest.mark.slow
def test_command_writes_json_and_png(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ("--queries", "q1,q3", "--tuples", "2000", "--rate", "100", "--window", "5 s", "--batch", "500")
    monkeypatch.setattr(sys, "argv", ["sash", "bench", "plans", *options])
    main()
    shown = capsys.readouterr().out
    assert "q1: where the time goes" in shown
    facts = json.loads((tmp_path / "bench-plans" / "plans.json").read_text())
    assert [each["bench"]["query"] for each in facts["queries"]] == ["q1", "q3"]
    assert all(each["tuples_per_cpu_second"] > 0 for each in facts["queries"])
    assert (tmp_path / "bench-plans" / "plans.png").stat().st_size > 1_000


def test_an_unknown_query_is_refused():
    with pytest.raises(PlanError, match="there is no query `q9`"):
        PlanBench("q9")
