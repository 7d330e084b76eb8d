"""Arrivals keep their rate, follow their law, and are the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from sash.errors import PlanError
from sash.lab.workloads.arrivals import (
    START_US,
    bmodel_arrivals,
    draw_burst_sizes,
    even_arrivals,
    pareto_bursts,
    parse_arrivals,
    poisson_arrivals,
    split_by_bias,
)

SECOND = 1_000_000
LAWS = ["even", "poisson", "pareto", "pareto:2", "bmodel", "bmodel:0.8"]


@pytest.mark.parametrize("law", LAWS)
def test_times_ascend_within_the_duration_and_follow_from_the_seed(law):
    draw = parse_arrivals(law)
    times = draw(7, 200, 30 * SECOND)
    assert times.dtype == np.int64
    assert np.all(np.diff(times) >= 0)
    assert START_US <= times[0] <= times[-1] < START_US + 30 * SECOND
    assert np.array_equal(times, draw(np.random.default_rng(7), 200, 30 * SECOND))
    if law != "even":
        assert not np.array_equal(times, draw(8, 200, 30 * SECOND))


@pytest.mark.parametrize("law", ["even", "poisson", "pareto:1", "pareto:1.5", "bmodel:0.5", "bmodel:0.9"])
def test_the_rate_is_what_was_asked_for(law):
    assert len(parse_arrivals(law)(3, 1000, 100 * SECOND)) == pytest.approx(100_000, rel=0.02)


@pytest.mark.parametrize("rate", [0.01, 0.3, 999_983.0])
@pytest.mark.parametrize("law", LAWS)
def test_extreme_rates_and_durations(law, rate):
    for duration_us in (1, 1001, 2 * SECOND):
        times = parse_arrivals(law)(1, rate, duration_us)
        assert np.all((times >= START_US) & (times < START_US + duration_us))


def test_even_arrivals_are_a_period_apart():
    assert even_arrivals(1, 4, SECOND, start_us=10).tolist() == [10, 250_010, 500_010, 750_010]


def test_poisson_gaps_are_exponential():
    gaps = np.diff(poisson_arrivals(1, 100, 1000 * SECOND))
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.02)


@pytest.mark.parametrize("burst", [1.0, 1.2, 1.5])
def test_the_mean_burst_is_what_was_asked_for(burst):
    """Means with a finite variance, and rounding does not shift them."""
    sizes = draw_burst_sizes(5, burst, 1_000_000)
    assert sizes.min() == 1
    assert sizes.mean() == pytest.approx(burst, rel=0.01)


def test_burst_sizes_have_the_tail_of_a_pareto_distribution():
    """P(X > x) = x^−α with α = burst / (burst − 1); for a burst of 5 that is x^−1.25."""
    sizes = draw_burst_sizes(5, 5.0, 1_000_000)
    for x in (10, 100, 1000):
        assert np.mean(sizes > x) == pytest.approx(x**-1.25, rel=0.15)


def test_bursts_are_denser_than_a_poisson_process():
    """Counts of a Poisson process vary as much as their mean; those of bursts vary more."""
    poisson, bursts = (_spread_of_counts(draw(2, 100, 500 * SECOND)) for draw in (poisson_arrivals, pareto_bursts))
    assert poisson == pytest.approx(1, abs=0.15)
    assert bursts > 5


def _spread_of_counts(times: np.ndarray) -> float:
    counts = np.bincount((times - START_US) // (SECOND // 10))
    return float(counts.var() / counts.mean())


@pytest.mark.parametrize("bias", [0.5, 0.6, 0.75, 0.9])
def test_the_bias_can_be_read_off_every_level(bias):
    """The heavier half of any stretch with many tuples has the share `bias`, to within one tuple."""
    times = bmodel_arrivals(11, 1000, 128 * SECOND, bias)
    assert len(times) == 128_000
    for n_levels in range(1, 7):
        counts = np.bincount((times - START_US) * 2**n_levels // (128 * SECOND), minlength=2**n_levels)
        halves = counts.reshape(-1, 2)[counts.reshape(-1, 2).sum(axis=1) > 1000]
        assert halves.max(axis=1) / halves.sum(axis=1) == pytest.approx(np.full(len(halves), bias), abs=0.002)


@pytest.mark.slow
def test_the_entropy_of_a_trace_is_that_of_its_bias():
    """Per level, entropy of the counts grows by −b log b − (1 − b) log (1 − b): how the b-model is fitted to traces."""
    times = bmodel_arrivals(2, 4000, 256 * SECOND, 0.7)
    shares = np.bincount((times - START_US) // SECOND) / len(times)
    shares = shares[shares > 0]
    per_level = -(shares * np.log2(shares)).sum() / 8
    assert per_level == pytest.approx(-0.7 * np.log2(0.7) - 0.3 * np.log2(0.3), abs=0.005)


def test_heavier_halves_are_on_either_side():
    firsts = [np.mean(bmodel_arrivals(seed, 100, 10 * SECOND, 0.9) < START_US + 5 * SECOND) for seed in range(20)]
    assert {round(share, 1) for share in firsts} == {0.1, 0.9}


def test_splitting_ends_when_parts_are_small_enough_or_fine_enough():
    cells, counts, n_levels = split_by_bias(1, 10_000, 0.6, (300, 50))
    assert counts.sum() == 10_000
    assert counts.max() <= 300
    assert np.all(np.diff(cells) > 0)
    assert 0 <= cells[0] <= cells[-1] < 2**n_levels
    assert split_by_bias(1, 10_000, 0.6, (1, 3))[2] == 3
    assert [part.tolist() for part in split_by_bias(1, 0, 0.6, (1, 3))[:2]] == [[0], [0]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("parto", "`arrivals` is `parto`, but there is no `parto`; did you mean `pareto`?"),
        ("poisson:2", "`arrivals` is `poisson:2`, but `poisson` takes no number; leave `:2` out"),
        ("pareto:big", "`arrivals` is `pareto:big`, but after the colon stands the burst of `pareto`, a number; "),
        ("pareto:0.5", "`burst` is 0.5, but must be from 1 to 100, the average size of a burst"),
        ("bmodel:1", "`bias` is 1.0, but must be at least 0.5, which is even, and below 1"),
        ("bmodel:nan", "`bias` is nan, but must be"),
    ],
)
def test_mistakes_have_reasons(text, reason):
    with pytest.raises(PlanError) as raised:
        parse_arrivals(text)
    assert str(raised.value).startswith(reason)
