"""The figures of Exact, chapters 3 to 6, at a small scale. Time is virtual, so that everything repeats exactly."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, EWJ, FULL, QUICK, RPWJ, ExactCase, nested_case
from sash.lab.experiments.exact_figures.exact_claims import EXPERIMENT_OF, number_of, numbered
from sash.lab.experiments.exact_figures.exact_measures import (
    falls,
    line,
    nearest,
    rises,
    tell,
    tell_share,
    with_scans,
)
from sash.lab.experiments.exact_figures.exact_simulator import SampledClock, make_join, simulate
from sash.lab.experiments.exact_figures.exact_trace import draw_trace, fullest_part, fullest_window
from sash.lab.experiments.exact_figures.fig4_tasks import split_seconds
from sash.lab.experiments.exact_figures.fig5_3_train import STILL, roomy_run
from sash.lab.experiments.exact_figures.fig5_13_partitions import head_wait_s
from sash.lab.experiments.exact_figures.fig5_18_blocks import least_price_ns
from sash.lab.experiments.experiment import Claim, Outcome
from sash.lab.experiments.experiment_registry import EXPERIMENTS, named
from sash.lab.experiments.report import write_outcome, write_report
from sash.lab.workloads.pqrs import Pqrs
from sash.papers.exact.exact_kernels.block_frames import END, KEY, TS
from sash.papers.exact.exact_settings import RpwjSettings
from sash.papers.exact.work_clock import WorkPrices
from sash.store.model_disk import DISK_9LZX
from support.profiles import everyday

NAMES = [
    "exact-3-5", "exact-3-6", "exact-3-8", "exact-3-10", "exact-4-tasks", "exact-5-3", "exact-5-4", "exact-5-5",
    "exact-5-7", "exact-5-8", "exact-5-9", "exact-5-11", "exact-5-13", "exact-5-16", "exact-5-17", "exact-5-18",
    "exact-6-5", "exact-6-6", "exact-6-7", "exact-6-8", "exact-6-9", "exact-6-10", "exact-6-12", "exact-6-13",
    "exact-6-invoke", "exact-6-reads", "exact-6-granularity",
]  # fmt: skip
FRACTION, LENGTH = QUICK.fraction, QUICK.length


@cache
def run(name: str) -> Outcome:
    experiment = EXPERIMENTS[name]
    return experiment.run(experiment.paper.scales[QUICK.name], lambda n_done: None)


def claim(outcome: Outcome, text: str) -> Claim:
    (found,) = [each for each in outcome.claims if text in each.text]
    return found


def test_names():
    assert [each.name for each in named("exact")] == NAMES


def test_every_claim_of_the_chapters_is_checked_by_an_experiment():
    n_claims = {3: 16, 4: 6, 5: 30, 6: 21}
    numbers = {f"E{chapter}.{number}" for chapter, n in n_claims.items() for number in range(1, n + 1)}
    assert set(EXPERIMENT_OF) == numbers
    assert set(EXPERIMENT_OF.values()) == set(NAMES)


def test_the_page_has_a_verdict_on_every_claim():
    text = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (E\d\.\d+) \| [^|]+ \| (holds|does not hold|open)[^|]* \| [^|]+ \|$", text, re.MULTILINE)
    assert [number for number, _ in told] == sorted(
        EXPERIMENT_OF, key=lambda each: tuple(map(int, each[1:].split(".")))
    )


LONG = {"exact-4-tasks", "exact-5-3", "exact-5-16", "exact-6-5", "exact-6-invoke", "exact-6-granularity", "exact-6-13"}
"""Those that take longer than five seconds, but for one."""


@pytest.mark.slow
@pytest.mark.parametrize("name", everyday(set(NAMES) - LONG, NAMES))
def test_an_experiment_checks_the_claims_that_are_said_to_be_its_own(name):
    assert {number_of(each) for each in run(name).claims} == {n for n, each in EXPERIMENT_OF.items() if each == name}


def test_claims_are_numbered():
    (claim,) = numbered({"E5.15": [Claim("Less time", "40 %", True)]})
    assert claim.text == "E5.15: Less time"
    assert number_of(claim) == "E5.15"
    with pytest.raises(AssertionError, match="no chapter"):
        numbered({"E9.1": []})


@pytest.mark.slow
@pytest.mark.parametrize("name", everyday(set(NAMES) - LONG, NAMES))
def test_every_figure_is_measured_and_drawn(name, tmp_path):
    outcome = run(name)
    assert outcome.rows
    assert outcome.claims
    assert all(each.measured for each in outcome.claims)
    assert len({each.text for each in outcome.claims}) == len(outcome.claims)
    write_outcome(EXPERIMENTS[name], outcome, QUICK, tmp_path)
    write_report(tmp_path)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("rate", QUICK.fitting_rates)
def test_nothing_is_written_while_windows_fit(rate):
    assert simulate(ExactCase(AHEWJ, rate), FRACTION, LENGTH)["bytes_written"] == 0


@pytest.mark.slow
def test_something_is_written_when_they_do_not():
    assert simulate(ExactCase(AHEWJ, 1000), FRACTION, LENGTH)["bytes_written"] > 0


@pytest.mark.slow
def test_what_is_written_and_in_which_order():
    outcome = run("exact-5-3")
    assert claim(outcome, "writes nothing").holds
    assert claim(outcome, "out of order").holds
    assert claim(outcome, "buckets change far less often").holds


@pytest.mark.slow
def test_tasks_never_repeat_a_pair():
    outcome = run("exact-4-tasks")
    assert claim(outcome, "never find a pair again").holds
    assert claim(outcome, "three tasks for each partition").holds
    assert claim(outcome, "Block by block").measured.startswith("scans, and times, for each tuple: 1.00")


def test_the_window_of_chapter_3_at_full_scale():
    """A window is an eighth of the trace, the fullest of which has 0.6³ of a stream: five times 20 MB."""
    case = nested_case(250)
    pqrs = Pqrs(rate=case.rate, duration_us=round(1e6 * case.duration_s), bias=case.bias)
    fullest_mb = fullest_part(pqrs, 8, case.seed) * case.tuple_bytes / 1e6
    assert fullest_mb == pytest.approx(99.5, abs=0.1)
    assert FULL.fraction * case.duration_s == 4 * 3600


@pytest.mark.slow
@pytest.mark.parametrize("method", [EWJ, RPWJ, AHEWJ])
def test_runs_repeat_exactly(method):
    case = nested_case(200) if method == EWJ else ExactCase(method, 1000)
    first = simulate(case, FRACTION, LENGTH)
    simulate.cache_clear()
    draw_trace.cache_clear()
    assert simulate(case, FRACTION, LENGTH) == first


@pytest.mark.slow
@pytest.mark.parametrize("method", [EWJ, RPWJ, AHEWJ])
def test_what_a_run_measures(method):
    case = nested_case(200) if method == EWJ else ExactCase(method, 1000)
    row = simulate(case, FRACTION, LENGTH)
    duration_s = LENGTH * case.duration_s
    assert row["times_s"][-1] == pytest.approx(duration_s)
    assert row["total_s"] == row["cpu_s"] + row["disk_s"] <= duration_s
    assert 0 < row["busy"] <= 1
    assert row["processed"] == sorted(row["processed"])
    n_tuples = 2 * case.rate * duration_s
    assert row["processed"][-1] + row["buffered_end"] == pytest.approx(n_tuples, rel=0.02)
    assert max(row["buffered"]) == row["buffered_peak"]
    assert row["delay_s"] > 0
    assert 0 <= row["late_outputs"] <= 1
    assert 0 <= row["late_inputs"] <= 1


def test_times_and_memory_are_scaled_together():
    case, clock = ExactCase(RPWJ, 1000), SampledClock(WorkPrices(), 1.0)
    whole, part = (make_join(case, fraction, clock).settings for fraction in (1.0, 1 / 4))
    assert isinstance(whole, RpwjSettings)
    assert isinstance(part, RpwjSettings)
    assert (whole.memory, whole.slide_us, whole.gap_us, whole.m_read) == (20480, 60_000_000, 15_000_000, 1024)
    assert (part.memory, part.slide_us, part.gap_us, part.m_read) == (5120, 15_000_000, 3_750_000, 256)
    assert whole.block_rows == part.block_rows == 16


@pytest.mark.slow
def test_the_disk_is_as_fast_as_a_case_says():
    slow, fast = (simulate(ExactCase(AHEWJ, 1000, mb_per_s=speed), FRACTION, LENGTH) for speed in (12, 30))
    assert slow["disk_s"] > fast["disk_s"] > 0


def test_a_trace():
    trace = draw_trace(100, 1_000_000, 250_000, 0.6, 3)
    assert len(trace.sides) == 200
    assert np.count_nonzero(trace.sides) == 100
    assert np.all(np.diff(trace.records[:, TS]) >= 0)
    assert np.all(trace.records[:, END] - trace.records[:, TS] == 250_001)
    assert trace.records[:, KEY].max() < 10_000_000
    one = [fullest_window(trace, (side,)) for side in (0, 1)]
    assert max(one) <= fullest_window(trace, (0, 1)) <= sum(one)


def test_the_clock_tells_what_was_done_by_when():
    clock = SampledClock(WorkPrices(), 10.0)
    clock.wait_until(0)
    clock.wait_for_disk(0.0001)
    clock.wait_until(200)
    clock.sample(is_last=True)
    assert clock.done_by(2, [-5, 0, 50, 100, 200]).tolist() == [0, 0, 50, 100, 100]


def test_clusters_of_half_the_memory_are_best_if_only_accesses_cost():
    """Equation 4.3: transfers want a larger outer cluster, accesses want both alike."""
    shares = (0.1, 0.3, 0.5, 0.7, 0.9)
    assert min(shares, key=lambda share: split_seconds(share, 0, 1e9, 1e6)) > 0.5
    assert split_seconds(0.5, 2, 4e6, 1e6) == pytest.approx(
        DISK_9LZX.seconds(2 + 8, 4e6) + 8 * DISK_9LZX.seconds(2 + 8, 4e6)
    )


@pytest.mark.slow
def test_reactive_stages_of_partitions_are_many_more():
    """What the 15 s of §5.4.1 are of: with one stage in a gap they are a small part of what periodic stages run."""
    case = ExactCase(RPWJ, 1000)
    one, each = (simulate(replace(case, is_gap_of_partition=gap), FRACTION, LENGTH) for gap in (False, True))
    assert 10 * one["n_reactions"] < 3 * case.n_part * one["n_periods"]
    assert each["n_reactions"] > 5 * one["n_reactions"] > 0
    assert each["disk_s"] > one["disk_s"]


@pytest.mark.slow
def test_windows_that_fit_are_written_only_if_memory_moves():
    """E5.27 and Equation 5.1: the faster stream yields memory, and its window does not fit into the rest."""
    still, moving = (roomy_run(rho) for rho in (STILL, 0.4))
    assert (still.bytes_written, still.n_moved) == (0, 0)
    assert still.fullest_blocks < still.least_blocks
    assert moving.bytes_written > 0
    assert moving.fullest_blocks > moving.least_blocks


def test_what_scans_would_cost():
    rows = [{"block_bytes": size, "cpu_s": 100.0, "total_s": 150.0, "scanned": 8e12 / size} for size in (512, 1024)]
    priced = with_scans(rows, 2.0)
    assert [row["cpu_s"] for row in priced] == pytest.approx([131.25, 115.625])
    assert [row["total_s"] for row in priced] == pytest.approx([181.25, 165.625])
    cpu_s, scanned = (line(rows, column, "block_bytes") for column in ("cpu_s", "scanned"))
    price_ns = least_price_ns(cpu_s, scanned)
    cheap, dear = (line(with_scans(rows, each * price_ns), "cpu_s", "block_bytes") for each in (0.99, 1.01))
    assert cheap[1024] > 0.98 * cheap[512]
    assert dear[1024] < 0.98 * dear[512]
    assert least_price_ns(cpu_s, dict.fromkeys(scanned, 1.0)) == np.inf


def test_how_long_a_tuple_waits_in_a_head():
    """60 buckets of 1,200 tuples per second get 20 each: 15 more in 0.75 s, half of which the average one waits."""
    assert head_wait_s(60, 16, 1200) == pytest.approx(0.375)


def test_words_and_trends():
    rows = [{"rate": rate, "method": RPWJ, "cpu_s": rate / 10} for rate in (10, 20, 40)]
    found = line(rows, "cpu_s", "rate", method=RPWJ)
    assert tell(found, "{:.0f}", " s") == "1 s (10), 2 s (20), 4 s (40)"
    assert tell_share({5: 0.125}) == "12.50 % (5)"
    assert rises(found)
    assert not falls(found)
    assert not rises(dict.fromkeys("ab", 1.0)), "as much is no rise"
    assert nearest(found, 33) == 40


def test_other_traces_have_the_same_law():
    pqrs = Pqrs(rate=50, duration_us=1_000_000_000, bias=0.7)
    assert fullest_part(pqrs, 2) == pytest.approx(0.7 * 50_000, abs=1)
    assert fullest_part(replace(pqrs, bias=0.5), 4) == pytest.approx(12_500, abs=2)
