"""The figures of W-join at a small scale. What is a matter of time is measured, but not tested: work counts are."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sash.lab.experiments.experiment import Claim, Outcome, pick
from sash.lab.experiments.experiment_registry import EXPERIMENTS, named
from sash.lab.experiments.report import write_outcome, write_report
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, TITLES, best_claim, better_claim, is_order, ratios
from sash.lab.experiments.wjoin_figures.wjoin_loads import (
    PER_HOUR,
    n_values,
    one_longer_window,
    one_window,
    path_windows,
    store_load,
    switching_stream,
    synthetic_streams,
)
from sash.lab.experiments.wjoin_figures.wjoin_service import (
    QUICK,
    STEP_TUPLES,
    ComparedJoins,
    Load,
    ServiceCase,
    TimedStream,
    measure,
)
from sash.papers.wjoin.wjoin_algorithms import ALGORITHMS

HOUR = 3_600_000_000
SMALL = replace(QUICK, store_us=HOUR // 2, n_tuples=6_000, windows_s=(0.1, 0.01), turns_s=(2, 4))
WORK, TIME = MEASURES


def run(name: str, **changes: object) -> Outcome:
    return EXPERIMENTS[name].run(replace(SMALL, **changes), lambda n_done: None)


def claim(outcome: Outcome, text: str) -> Claim:
    (found,) = [each for each in outcome.claims if text in each.text]
    return found


def test_all_joins_of_a_run_put_out_the_same():
    streams = synthetic_streams((300, 200, 100), 3_000, 20)
    found = ComparedJoins(Load(streams, one_window(3, 0.1)), list(ALGORITHMS)).run()
    outputs = {join: [step.counts.outputs for step in steps] for join, steps in found.items()}
    assert len({tuple(own) for own in outputs.values()}) == 1
    assert min(outputs["nlw"]) > 0


def test_a_step_is_a_thousand_tuples_and_a_rest_is_left_out():
    streams = [TimedStream(np.arange(1_250) * 10 + shift, np.zeros(1_250, np.int64)) for shift in (0, 5)]
    steps = ComparedJoins(Load(streams, one_window(2, 0.0001)), ["nlw"]).run()["nlw"]
    assert [step.n_tuples for step in steps] == [STEP_TUPLES, STEP_TUPLES]
    assert [step.ends_at for step in steps] == [4_995, 9_995]


def test_means_begin_when_the_longest_window_has_passed():
    """Each tuple of one stream meets the ten of the other that are at most 99 µs older, but for the first ones."""
    streams = [TimedStream(np.arange(2_000) * 10 + shift, np.zeros(2_000, np.int64)) for shift in (0, 5)]
    (row,) = measure([ServiceCase({}, Load(streams, one_window(2, 0.0001)), ["nlw"])], 1, lambda n_done: None)
    assert row["outputs"] == pytest.approx(10, rel=0.01)
    assert row["work"] == row["comparisons"] + row["checks"]
    assert row["steps"]["n_tuples"] == [1_000, 2_000, 3_000, 4_000]
    assert row["cpu_us"] > 0


def test_stores_have_the_rate_of_the_paper_and_a_rush():
    load = store_load(5, 24 * HOUR)
    n_tuples = sum(len(stream.ts) for stream in load.streams)
    assert n_tuples == pytest.approx(12.5 * PER_HOUR, rel=0.02)
    ts = load.streams[0].ts
    first_hour, midday = (np.sum((ts >= ts[0] + hour * HOUR) & (ts < ts[0] + (hour + 1) * HOUR)) for hour in (0, 6))
    assert first_hour > 2 * midday
    assert np.all(load.reach[~np.eye(5, dtype=bool)] == HOUR - 1)


def test_a_stream_that_switches_its_rate():
    stream = switching_stream((10, 1000), 30_000_000, n_values(0.01))
    gaps = np.diff(stream.ts)
    assert gaps[:99].mean() == pytest.approx(100_000, rel=0.3)
    assert gaps[100:199].mean() == pytest.approx(1_000, rel=0.3)
    assert set(stream.keys.tolist()) == {0, 1, 2, 3, 4}


def test_windows():
    given, tight = (one_longer_window(4, 0.1, 1, is_tight) for is_tight in (False, True))
    assert (given[0, 1], given[1, 0], given[0, 2], given[3, 2]) == (999_999, 999_999, 99_999, 99_999)
    assert (tight[0, 1], tight[0, 2]) == (199_998, 99_999)
    assert path_windows(3, 1).tolist() == [[0, 999_999, 1_999_998], [0, 0, 999_999], [0, 0, 0]]


@pytest.mark.slow
def test_stores_with_nested_loops():
    """In half an hour nothing leaves the window, nor do the buffers of the ripple join get stale."""
    outcome = run("wjoin-7")
    for n_streams in (2, 3, 4):
        nlw, mw, ripple = (
            pick(outcome.rows, "comparisons", join=join, n_streams=n_streams) for join in ("nlw", "mw", "ripple")
        )
        assert nlw == ripple
        assert mw == nlw if n_streams == 2 else mw >= nlw
    assert not claim(outcome, "order of magnitude below NLW-join, by comparisons").holds


def test_stores_with_hash_tables():
    outcome = run("wjoin-8")
    assert {row["join"] for row in outcome.rows} == {"hw", "xjoin"}
    for n_streams in (2, 3, 4):
        hw, xjoin = (pick(outcome.rows, "outputs", join=join, n_streams=n_streams) for join in ("hw", "xjoin"))
        assert hw == xjoin > 0


def test_variable_rates():
    outcome = run("wjoin-9a")
    assert claim(outcome, "HW-join is the best of all, by comparisons").holds
    assert not claim(
        outcome, "order of magnitude below NLW-join at variable rates, with a window of some length, by c"
    ).holds
    nlw, mw = (pick(outcome.rows, "work", join=join, window_s=0.01, n_streams=4) for join in ("nlw", "mw"))
    assert nlw > 1.5 * mw


@pytest.mark.slow
def test_variable_rates_by_turns():
    """The slow stream is ahead for most of the run, and further in a longer one; MW-join does not mind."""
    outcome = run("wjoin-9a-turns", windows_s=(0.1,))

    def work(join: str, order: str, run_s: float, n_streams: int) -> float:
        return pick(outcome.rows, "work", join=join, order=order, run_s=run_s, n_streams=n_streams)

    for n_streams in (2, 4):
        assert work("nlw", "turns", 2, n_streams) > 2 * work("nlw", "time", 2, n_streams)
        assert work("nlw", "turns", 4, n_streams) > 1.5 * work("nlw", "turns", 2, n_streams)
        assert work("mw", "turns", 4, n_streams) == pytest.approx(work("mw", "time", 2, n_streams), rel=0.1)
        for run_s in (2, 4):
            here = [row for row in outcome.rows if (row["n_streams"], row["run_s"]) == (n_streams, run_s)]
            assert len(here) == 6
            assert len({row["outputs"] for row in here}) == 1, "the same combinations of the same tuples"
            assert len({row["steps"]["n_tuples"][-1] for row in here}) == 1
    assert claim(outcome, "by turns for 4 s, with a window of some length, by comparisons").holds
    assert claim(outcome, "HW-join is the best of all, by turns for 2 s, by comparisons").holds


def test_streams_that_take_turns_are_pruned_by_what_may_still_come():
    """The slow stream ends first; every tuple of it meets one of the fast stream, however late that comes."""
    slow, fast = (TimedStream(np.arange(0, 20_000, gap), np.zeros(20_000 // gap, np.int64)) for gap in (50, 10))
    steps = ComparedJoins(Load([slow, fast], one_window(2, 0.000005)), ["nlw", "hw"], takes_turns=True).run()
    for join in ("nlw", "hw"):
        assert [step.n_tuples for step in steps[join]] == [1_000, 1_000]
        assert [step.counts.outputs for step in steps[join]] == [120, 200]
        assert [step.ends_at for step in steps[join]] == [5_999, 15_999]


def test_comparable_rates():
    outcome = run("wjoin-9b")
    by_streams = ratios(outcome.rows, "nlw", "mw", WORK, "n_streams")
    assert by_streams[2] == pytest.approx(2, rel=0.01), "each tuple is compared once by both, and checked by NLW-join"
    assert by_streams[4] < 1.8
    assert claim(outcome, "HW-join is the best of all, by comparisons").holds


@pytest.mark.slow
def test_a_slow_stream():
    outcome = run("wjoin-9c")
    assert claim(outcome, "MW-join gets much faster when one stream is slow (at least 2 times), by comparisons").holds
    equal, switching = (
        pick(outcome.rows, "work", join="mw", window_s=0.01, rates=rates) for rates in ("equal", "switching")
    )
    assert equal > 5 * switching, "Mode 1 skips what no tuple of the slow stream is near to"


@pytest.mark.slow
def test_conservative_approaches(tmp_path):
    outcome = run("wjoin-13", n_tuples=10_000)
    assert claim(outcome, "0.8 s and one of 1 s, by comparisons").holds
    assert claim(outcome, "0.1 s and one of 1 s, by comparisons").holds
    gca = {bounds: pick(outcome.rows, "work", join="gca", others_s=0.1, bounds=bounds) for bounds in ("given", "tight")}
    assert gca["given"] > 10 * gca["tight"]
    write_outcome(EXPERIMENTS["wjoin-13"], outcome, SMALL, tmp_path)
    facts = json.loads((tmp_path / "wjoin-13.json").read_text())
    assert (facts["paper"], facts["scale"]) == ("W-join, Figure 13", "quick")
    write_report(tmp_path)
    assert 'src="data:image/png;base64,iVBOR' in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_paths():
    outcome = run("wjoin-14", n_tuples=20_000)
    assert claim(outcome, "for small variations of the rates, 1000 to 850, by comparisons").holds
    assert claim(outcome, "for very large variations of the rates, 1000 to 10, by comparisons").holds
    for variations in ("small", "large", "very large"):
        for way in ("ABCD", "DCBA"):
            nlw, lca = (
                pick(outcome.rows, "outputs", join=join, variations=variations, way=way) for join in ("nlw", "lca")
            )
            assert nlw == lca > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wjoin-8", "wjoin-9a", "wjoin-9a-turns", "wjoin-9c"])
def test_pictures_are_drawn(name, tmp_path):
    EXPERIMENTS[name].draw(run(name).rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_counts_repeat_exactly():
    def counts() -> list[tuple[str, float, float]]:
        return [(row["join"], row["work"], row["outputs"]) for row in run("wjoin-9c", windows_s=(0.01,)).rows]

    assert counts() == counts()


def test_names_with_and_without_the_dash():
    figures = ["wjoin-7", "wjoin-8", "wjoin-9a", "wjoin-9a-turns", "wjoin-9b", "wjoin-9c", "wjoin-13", "wjoin-14"]
    assert [each.name for each in named("wjoin")] == figures
    assert [each.name for each in named("wjoin9a,wjoin-13,kostowski4")] == ["wjoin-9a", "wjoin-13", "kostowski-4"]
    assert EXPERIMENTS["wjoin-9b"].source == "W-join, Figure 9b"


def test_claims_tell_what_was_measured():
    rows = [
        {"join": join, "n_streams": n, "work": cost * n, "comparisons": cost, "cpu_us": 1.0}
        for join, cost in (("hw", 4.0), ("xjoin", 2.0))
        for n in (2, 3)
    ]
    found = better_claim(rows, "xjoin", "hw", WORK, "so it is")
    assert not found.holds
    assert found.measured == "XJoin takes 0.50 (2 streams), 0.50 (3 streams) times as much"
    assert best_claim(rows, "xjoin", ("n_streams",), WORK).holds
    assert not best_claim(rows, "hw", ("n_streams",), TIME).holds, "equal is not better"
    assert is_order({2: 3.2, 3: 31})
    assert not is_order({2: 3.1, 3: 10})
    assert set(TITLES) == set(ALGORITHMS)
