"""The figures of Shared at a small scale, with slower streams. Times are by a queueing clock, and repeat exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sash.lab.experiments.experiment import Claim, Outcome, pick
from sash.lab.experiments.experiment_registry import EXPERIMENTS, named
from sash.lab.experiments.report import write_outcome, write_report
from sash.lab.experiments.shared_figures.shared_analysis import Burst, isolated_us, lwo_us, swf_us
from sash.lab.experiments.shared_figures.shared_burst import measured_us
from sash.lab.experiments.shared_figures.shared_claims import AVERAGES, gain, lowest_claim
from sash.lab.experiments.shared_figures.shared_response import (
    DISTRIBUTIONS,
    N_KEYS,
    QUICK,
    UTILISATION,
    ResponseCase,
    draw_streams,
    measure,
    work_costs,
)

SMALL = replace(QUICK, rate=10, nested_rate=3, n_tuples=600)
PAPER_BURST = Burst()
WINDOWS = DISTRIBUTIONS["uniform"]


def run(name: str, **changes: object) -> Outcome:
    return EXPERIMENTS[name].run(replace(SMALL, **changes), lambda n_done: None)


def claim(outcome: Outcome, text: str) -> Claim:
    (found,) = [each for each in outcome.claims if text in each.text]
    return found


def test_the_numbers_of_figure_2b():
    """A window of a second takes milliseconds alone and seconds by LWO; the largest takes the same either way."""
    alone, shared = isolated_us(WINDOWS, PAPER_BURST), lwo_us(WINDOWS, PAPER_BURST)
    assert (alone[0], alone[-1]) == (2_500.5, 1_500_000.5)
    assert (shared[0], shared[-1]) == (1_470_050.5, 1_500_000.5)


def test_the_numbers_of_figure_3b():
    found = swf_us(WINDOWS, PAPER_BURST)
    assert found[0] == pytest.approx(2_550)
    assert found[1] == pytest.approx(50 * 100 + 25.5 * 9_900)
    assert found[-1] == pytest.approx(50 * 50_000 + 25.5 * 10_000)


@pytest.mark.parametrize("windows_s", [(1, 2, 4), (1, 9), (3,)])
def test_equations_1_and_isolated_execution_are_exact(windows_s):
    burst = Burst(n_tuples=6, rate=20, scan_us=1.5)
    assert measured_us(windows_s, burst, "lwo") == pytest.approx(lwo_us(windows_s, burst))
    assert measured_us(windows_s[:1], burst, "mqt") == pytest.approx(isolated_us(windows_s[:1], burst))


def test_equation_2_leaves_out_that_the_first_tuple_has_nobody_ahead():
    windows_s, burst = (1, 2, 4), Burst(n_tuples=6, rate=20, scan_us=1.5)
    measured, said = measured_us(windows_s, burst, "swf"), swf_us(windows_s, burst)
    assert measured[0] == pytest.approx(said[0])
    first_alone_us = 1.5 * 20
    early_us = 6 * first_alone_us
    assert said[1] - measured[1] == pytest.approx(early_us / 2 / 6), "half of what the first of six tuples finds"


@pytest.mark.parametrize("is_hashed", [False, True])
def test_the_join_is_as_busy_as_it_should_be(is_hashed):
    case = ResponseCase({}, DISTRIBUTIONS["small-large"], is_hashed=is_hashed)
    rows = measure([case], replace(SMALL, nested_rate=10, n_tuples=3_000), lambda n_done: None)
    assert [row["busy"] for row in rows] == pytest.approx([UTILISATION] * 3, rel=0.1)
    assert len({row["busy"] for row in rows}) == 1, "all schedules do the same work"


def test_costs():
    costs = work_costs(100, 600, True)
    assert costs.pair_us * 100 * 600 / N_KEYS == pytest.approx(0.4 * UTILISATION * 5_000)
    nested = work_costs(100, 600, False)
    assert nested.pair_us / nested.scan_us == pytest.approx(costs.pair_us / costs.scan_us)


def test_windows_are_full_before_tuples_are_measured():
    streams = draw_streams(ResponseCase({}, WINDOWS, burst=3), SMALL, seed=1)
    assert np.all(np.diff(streams.ts) >= 0)
    assert streams.ts[streams.n_loaded - 1] < 600_000_000 <= streams.ts[streams.n_loaded]
    assert set(streams.sides.tolist()) == {0, 1}


def test_distributions_of_windows():
    outcome = run("shared-5")
    assert len(outcome.rows) == 2 * 4 * 3
    assert claim(outcome, "for all distributions (hash), over the queries").holds
    assert not claim(outcome, "for all distributions (hash), over all pairs").holds
    for row in outcome.rows:
        assert row["max_ms"][-1] >= row["mean_ms"][-1] > 0


@pytest.mark.slow
def test_response_times_by_window(tmp_path):
    outcome = run("shared-6")
    swf, mqt = (pick(outcome.rows, "max_ms", distribution="uniform", schedule=name) for name in ("swf", "mqt"))
    assert mqt[-1] < swf[-1], "of equal throughputs the larger window is served"
    assert claim(outcome, "MQT is better than SWF for the largest").holds
    assert not claim(outcome, "The maximum of MQT is below that of SWF").holds
    write_outcome(EXPERIMENTS["shared-6"], outcome, SMALL, tmp_path)
    write_report(tmp_path)
    assert "shared-6" in (tmp_path / "report.html").read_text()


def test_bursts():
    outcome = run("shared-7")
    assert claim(outcome, "for all sizes of bursts, over the queries").holds
    first, *_, last = [row["query_ms"] for row in outcome.rows if row["schedule"] == "lwo"]
    assert last > 2 * first
    assert all(row["output_share"] == 0 for row in outcome.rows if row["schedule"] == "lwo")
    assert all(row["output_share"] > 0 for row in outcome.rows if row["schedule"] == "swf")


def test_bursts_by_window():
    outcome = run("shared-8", n_tuples=2_000)
    assert claim(outcome, "Small windows wait much shorter").holds
    swf, mqt = (pick(outcome.rows, "mean_ms", schedule=name)[-1] for name in ("swf", "mqt"))
    assert swf > 1.5 * mqt


def test_queries_that_cluster_at_a_window():
    outcome = run("shared-9")
    assert [row["window"] for row in outcome.rows[::3]] == [1, 2, 3, 4, 5, 6, 7]
    assert claim(outcome, "wherever queries cluster, over the queries").holds
    assert claim(outcome, "SWF is better than LWO").holds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shared-2b", "shared-3b", "shared-5", "shared-7", "shared-8", "shared-9"])
def test_pictures_are_drawn(name, tmp_path):
    EXPERIMENTS[name].draw(run(name, n_tuples=200).rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_names():
    figures = ["shared-2b", "shared-3b", "shared-5", "shared-6", "shared-7", "shared-8", "shared-9"]
    assert [each.name for each in named("shared")] == figures
    assert EXPERIMENTS["shared-7"].source == "Shared, Figure 7"


def test_claims_tell_what_was_measured():
    rows = [
        {"schedule": schedule, "burst": 1, "query_ms": query_ms, "pair_ms": pair_ms}
        for schedule, query_ms, pair_ms in (("lwo", 4.0, 1.0), ("swf", 3.0, 4.0), ("mqt", 2.0, 2.0))
    ]
    by_queries, by_pairs = (lowest_claim(rows, average, "burst", "here") for average in AVERAGES)
    assert by_queries.holds
    assert by_queries.measured == "LWO / SWF / MQT in ms: 1 4.0 / 3.0 / 2.0"
    assert not by_pairs.holds
    assert gain(2.0, 4.0) == 50
