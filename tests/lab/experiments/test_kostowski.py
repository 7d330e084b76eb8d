"""Kostowski's figures at a small scale. What is a matter of time is measured, but not tested: work counts are."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sash.cost.join_cost import JoinMethod
from sash.errors import PlanError
from sash.lab.experiments.experiment import SCALE_NAMES, Claim, Experiment, Outcome, pick
from sash.lab.experiments.experiment_registry import EXPERIMENTS, PAPERS, named
from sash.lab.experiments.html_report import html_page
from sash.lab.experiments.kostowski_figures.fig6_selectivity import knee
from sash.lab.experiments.kostowski_figures.kostowski_joins import (
    QUICK,
    WHJ,
    WNL,
    exponent,
    join_batch,
    model_claim,
    predict,
    relative_load,
)
from sash.lab.experiments.report import write_outcome, write_report

SMALL = replace(QUICK, rate=20, ratios=(1, 20), n_repeats=3)


def run(name: str) -> Outcome:
    return EXPERIMENTS[name].run(SMALL, lambda n_done: None)


def claim(outcome: Outcome, text: str) -> Claim:
    (found,) = [each for each in outcome.claims if text in each.text]
    return found


def test_nested_loops_and_hash_join():
    outcome = run("kostowski-4")
    assert claim(outcome, "below WNL by tuples scanned").holds
    assert claim(outcome, "linearly, not quadratically, with one stream's rate: by tuples scanned").holds
    assert claim(outcome, "cost model").holds
    for ratio in SMALL.ratios:
        wnl, whj = (pick(outcome.rows, "work", join=join, ratio=ratio) for join in ("WNL", "WHJ"))
        assert wnl["outputs"] == whj["outputs"], "both find the same pairs"


def test_buckets():
    outcome = run("kostowski-5")
    assert claim(outcome, "inversely proportional to their number: by tuples scanned").holds
    assert claim(outcome, "more gain nothing: by tuples scanned").holds
    assert claim(outcome, "Equation 2").holds
    assert claim(outcome, "cost model").holds


def test_selectivity():
    outcome = run("kostowski-6")
    assert claim(outcome, "less than half by tuples scanned").holds
    assert claim(outcome, "little is scanned but what joins").holds
    assert claim(outcome, "cost model").holds


def test_strategies():
    outcome = run("kostowski-7")
    assert claim(outcome, "greedy ones by comparisons of the invalidation").holds
    assert claim(outcome, "cost model").holds


@pytest.mark.slow
def test_occupancy_and_reports(tmp_path):
    outcome = run("kostowski-8")
    assert all(each.holds for each in outcome.claims)
    assert outcome.rows[0]["seconds"] == list(range(2, 61, 2))
    write_outcome(EXPERIMENTS["kostowski-8"], outcome, SMALL, tmp_path)
    facts = json.loads((tmp_path / "kostowski-8.json").read_text())
    assert (facts["paper"], facts["scale"]) == ("Kostowski, Figure 8", "quick")
    write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count('<span class="good">holds</span>') == len(outcome.claims)
    assert 'src="data:image/png;base64,iVBOR' in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kostowski-5", "kostowski-7"])
def test_pictures_are_drawn(name, tmp_path):
    EXPERIMENTS[name].draw(run(name).rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_batch_repeats_exactly():
    load = relative_load(5, 3)
    first, again = (join_batch(WHJ, load, seed=4) for _ in range(2))
    assert first.work == again.work
    assert np.array_equal(first.held, again.held)
    assert join_batch(WHJ, load, seed=5).work != first.work


def test_only_the_second_half_is_counted():
    """Poisson arrivals of two streams at 20/s: about 1200 in 30 s; all are inserted, and as many are removed."""
    work = join_batch(WNL, relative_load(20, 1), seed=0).work
    assert work.insertions == pytest.approx(1200, rel=0.1)
    assert work.invalidations == pytest.approx(1200, rel=0.1)


def test_the_prediction_leaves_out_what_is_stale_at_the_end():
    load, probe = relative_load(10, 100), JoinMethod("whj", 100, "probe")
    removed = predict(probe, load).invalidations
    assert removed == pytest.approx(join_batch(probe, load, 0).work.invalidations, rel=0.1)
    assert removed < 0.9 * predict(JoinMethod("whj", 100, "optimal"), load).invalidations


def test_a_model_that_is_far_off_is_told():
    row = {"ratio": 7, "work": {"scans": 200.0, "checks": 10.0}, "model": {"scans": 100.0, "checks": 10.0}}
    told = model_claim([row], ("ratio",))
    assert not told.holds
    assert told.measured == "farthest: 2.00 times the scans of the model, at 7"


def test_exponent_and_knee():
    assert exponent([1, 3, 10], [5, 9, 500]) == pytest.approx(2)
    rows = [{"n_buckets": n, "cost": 1 / n + 1 / 50} for n in (1, 10, 100, 1000)]
    assert knee(rows, lambda row: row["cost"]) == 100


def names(experiments: list[Experiment]) -> list[str]:
    return [each.name for each in experiments]


def test_experiments_are_named_by_paper_too():
    kostowski = [f"kostowski-{figure}" for figure in range(4, 9)]
    assert names(named("kostowski")) == names(named("Kost")) == kostowski
    assert names(named("kostowski-5, kostowski,pipelines-8")) == ["kostowski-5", *[
        name for name in kostowski if name != "kostowski-5"
    ], "pipelines-8"]  # fmt: skip
    assert names(named("all")) == list(EXPERIMENTS)
    for unknown in ("", "kostowski-9", "nobody"):
        with pytest.raises(PlanError, match="there is no experiment"):
            named(unknown)


def test_every_paper_has_all_scales():
    assert all(tuple(paper.scales) == SCALE_NAMES for paper in PAPERS.values())


def test_what_is_told_is_escaped():
    facts = {
        "experiment": "x-1", "title": "a < b", "paper": "X & Y, Figure 1", "scale": "quick",
        "claims": [{"text": "<script>", "measured": "1 & 2", "holds": False, "reason": "'so'"}],
    }  # fmt: skip
    page = html_page([facts], {})
    assert "<script>" not in page
    assert "X &amp; Y, Figure 1: a &lt; b" in page
    assert '<span class="bad">does not hold</span><br>&#x27;so&#x27;' in page
