"""Every figure at a small scale: claims in work counts hold, and results and report are written."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from sash.cli.main import main
from sash.lab.experiments.delays import Period
from sash.lab.experiments.experiment import Outcome, pick
from sash.lab.experiments.experiment_registry import EXPERIMENTS
from sash.lab.experiments.pipelines_figures.pipelines_delays import QUICK, SCALES
from sash.lab.experiments.report import write_outcome, write_report

SECOND = 1_000_000
SMALL = replace(QUICK, period=Period(5 * SECOND, 12 * SECOND), n_outputs=2_000, max_instants=40)


def run(name: str) -> Outcome:
    return EXPERIMENTS[name].run(SMALL, lambda n_done: None)


def verdicts(outcome: Outcome) -> dict[str, bool]:
    return {claim.text.split(" (")[0]: claim.holds for claim in outcome.claims}


@pytest.mark.slow
def test_five_queries(tmp_path):
    outcome = run("pipelines-8")
    held = verdicts(outcome)
    assert held["Input Triggered delays the output of all five queries"]
    assert held["Negative Tuple about doubles the tuples in the pipeline"]
    assert held[
        "Hybrid lies between Time Probing and Negative Tuple on all queries with joins, by tuples in the pipeline"
    ]
    assert held["Clock Triggered gives wrong answers where tuples wait in queues"]
    assert held["Time Probing, Negative Tuple and Hybrid give the answer of the snapshot query"]
    write_outcome(EXPERIMENTS["pipelines-8"], outcome, SMALL, tmp_path)
    page = write_report(tmp_path).read_text()
    assert f"{sum(held.values())} of {len(held)} claims hold." in page
    assert (tmp_path / "pipelines-8.png").stat().st_size > 1_000


@pytest.mark.slow
def test_rates():
    held = verdicts(run("pipelines-9"))
    assert held["All approaches converge as the rate rises"]
    assert held["Input Triggered is still later at the highest rate"]


@pytest.mark.slow
def test_depth():
    held = verdicts(run("pipelines-10"))
    assert held["Negative Tuple about doubles the tuples at every depth"]
    assert held["Hybrid stays closer to Time Probing than to Negative Tuple up to depth four"]


@pytest.mark.slow
def test_selectivity():
    outcome = run("pipelines-11")
    assert verdicts(outcome)["The delay of Input Triggered falls as selectivity rises"]
    gaps = [
        pick(outcome.rows, "average_s", selectivity=share, schedule="input")
        - pick(outcome.rows, "average_s", selectivity=share, schedule="tpa")
        for share in SMALL.selectivities
    ]
    assert gaps[-1] < 0.1 < gaps[0], "at selectivity 1 they are less than the time between two tuples apart"


@pytest.mark.slow
def test_throughput():
    """Which schedule is the fastest is a matter of time, and so not of a test."""
    outcome = run("pipelines-12")
    assert verdicts(outcome)["Negative Tuple about doubles the tuples in the pipeline"]
    assert all(row["n_outputs"] >= SMALL.n_outputs for row in outcome.rows)


@pytest.mark.slow
def test_a_run_repeats_exactly():
    scale = replace(SMALL, selectivities=(0.5, 1.0), period=Period(2 * SECOND, 2 * SECOND))
    first, again = (EXPERIMENTS["pipelines-11"].run(scale, lambda n_done: None) for _ in range(2))
    assert first == again


@pytest.fixture
def sash_experiment(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sash", "experiment", *arguments])
        try:
            main()
            code = 0
        except SystemExit as exit:
            code = int(exit.code or 0)
        return code, *capsys.readouterr()

    return run


@pytest.mark.slow
def test_commands(sash_experiment, monkeypatch, tmp_path):
    monkeypatch.setitem(SCALES, "quick", SMALL)
    code, shown, _ = sash_experiment("list")
    assert code == 0
    assert shown.splitlines()[:2] == [
        "pipelines: Efficient Execution of Sliding-Window Queries Over Data Streams",
        "  pipelines-8   Figure 8: delay of five queries",
    ]
    code, shown, errors = sash_experiment("run", "pipelines-11", "--quick")
    assert code == 0, errors
    assert "written to experiments-output/report.md and experiments-output/report.html" in shown
    facts = json.loads((tmp_path / "experiments-output" / "pipelines-11.json").read_text())
    assert facts["scale"] == "quick"
    assert sash_experiment("report")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("run", "pipelines-7"), "there is no experiment `pipelines-7`"),
        (("run", "all", "--quick", "--full"), "--quick and --full exclude each other"),
        (("report",), "holds no results of experiments"),
    ],
)
def test_mistakes_have_reasons(sash_experiment, arguments, reason):
    code, shown, errors = sash_experiment(*arguments)
    assert (code, shown) == (1, "")
    assert reason in errors.replace("\n", " ")
