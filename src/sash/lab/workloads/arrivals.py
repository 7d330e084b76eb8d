"""When tuples arrive: evenly, as a Poisson process, in bursts, or self-similarly.

    even      ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·     one after 1 / rate seconds each
    poisson   · ·    ·  ··   ·     · ·    ·  ·     exponential time between two
    pareto    ····        ·      ·······    ··     bursts at exponential intervals, with Pareto sizes (Shared §5.2)
    bmodel    ·· ·      ·······  ··          ·     of any stretch, one half has the share `bias` (Exact §3.5.1)

All give ascending times in microseconds, from `start_us` on for `duration_us`, `rate` per second on average.
Times are whole microseconds: at high rates some of them are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sash.lab.workloads.law import Law, Seed, check_bias, parse_law, require

START_US = 1_767_225_600_000_000
"""2026-01-01 00:00:00 UTC, when generated streams begin."""
BURST_SPEEDUP = 100
"""Within a burst, tuples come so many times as fast as on average."""
MAX_BURST = 100


def even_arrivals(seed: Seed, rate: float, duration_us: int, start_us: int = START_US) -> np.ndarray:
    """One tuple at the beginning of each period; nothing is left to chance."""
    n_tuples = round(rate * duration_us / 1e6)
    return start_us + (np.arange(n_tuples) * (1e6 / rate)).astype(np.int64)


def poisson_arrivals(seed: Seed, rate: float, duration_us: int, start_us: int = START_US) -> np.ndarray:
    """A Poisson process: the time between two tuples follows the exponential distribution."""
    rng = np.random.default_rng(seed)
    expected = rate * duration_us / 1e6
    n_drawn = math.ceil(expected + 6 * math.sqrt(expected) + 16)
    elapsed = np.cumsum(rng.exponential(1e6 / rate, n_drawn))
    while elapsed[-1] < duration_us:
        elapsed = np.concatenate([elapsed, elapsed[-1] + np.cumsum(rng.exponential(1e6 / rate, n_drawn))])
    return start_us + elapsed[elapsed < duration_us].astype(np.int64)


def pareto_bursts(
    seed: Seed, rate: float, duration_us: int, burst: float = 5.0, start_us: int = START_US
) -> np.ndarray:
    """Bursts of `burst` tuples on average, at exponential intervals; nothing comes between them.

    As in Shared §5.2: the count of a burst has the density αx^−(α+1) for x ≥ 1, with α such that α / (α − 1) = `burst`,
    and bursts come at `rate` / `burst` per second, so that the average rate does not depend on their size.
    """
    _check_burst(burst)
    rng = np.random.default_rng(seed)
    begins = poisson_arrivals(rng, rate / burst, duration_us, 0)
    spacing_us = max(1, int(1e6 / (rate * BURST_SPEEDUP)))
    n_fitting = (duration_us - 1 - begins) // spacing_us + 1
    sizes = np.minimum(draw_burst_sizes(rng, burst, len(begins)), n_fitting)
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return start_us + np.sort(np.repeat(begins, sizes) + place * spacing_us)


def draw_burst_sizes(seed: Seed, burst: float, n_bursts: int) -> np.ndarray:
    """Whole numbers from 1 on whose mean is that of the Pareto distribution, as each is rounded up or down by chance.

    A mean from 2 on comes with an infinite variance: rare bursts are huge, and averages settle slowly.
    """
    rng = np.random.default_rng(seed)
    sizes = (1 - rng.random(n_bursts)) ** ((1 - burst) / burst)
    return np.floor(np.minimum(sizes, 2**53) + rng.random(n_bursts)).astype(np.int64)


def bmodel_arrivals(
    seed: Seed, rate: float, duration_us: int, bias: float = 0.6, start_us: int = START_US
) -> np.ndarray:
    """The b-model: of any stretch of time, one half or the other has the share `bias` of its tuples.

    Exactly `rate` times the duration tuples, rounded. Stretches are halved until tuples are alone in theirs, or until
    they are shorter than a microsecond; within the last stretch, times are even.
    """
    rng = np.random.default_rng(seed)
    n_levels = max(0, duration_us - 1).bit_length()
    cells, counts, n_levels = split_by_bias(rng, round(rate * duration_us / 1e6), bias, (1, n_levels))
    inside = np.repeat(cells, counts) + rng.random(counts.sum())
    elapsed = (inside * (duration_us / 2**n_levels)).astype(np.int64)
    return start_us + np.sort(np.minimum(elapsed, duration_us - 1))


def split_by_bias(seed: Seed, n_tuples: int, bias: float, until: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, int]:
    """Which of 2^n equal stretches hold tuples, in order, how many each, and n.

    `until` is how many tuples a stretch may hold, and the largest n: the least n is taken that satisfies the one, or
    else the other. Counts are whole, so the share of the heavier half is rounded, up or down by chance.
    """
    check_bias(bias)
    rng = np.random.default_rng(seed)
    max_count, max_levels = until
    cells, counts, n_levels = np.zeros(1, np.int64), np.array([n_tuples], np.int64), 0
    while counts.max(initial=0) > max_count and n_levels < max_levels:
        heavier = np.floor(counts * bias + rng.random(len(counts))).astype(np.int64)
        left = np.where(rng.random(len(counts)) < 0.5, heavier, counts - heavier)
        halves = np.stack([left, counts - left], axis=1).ravel()
        holds = halves > 0
        cells = np.stack([2 * cells, 2 * cells + 1], axis=1).ravel()[holds]
        counts, n_levels = halves[holds], n_levels + 1
    return cells, counts, n_levels


def parse_arrivals(text: str) -> Callable[[Seed, float, int], np.ndarray]:
    """What draws times by the law that a text names, such as `pareto:3`."""
    return parse_law("arrivals", text, LAWS)


def _check_burst(burst: float) -> None:
    require(1 <= burst <= MAX_BURST, "burst", burst, f"from 1 to {MAX_BURST}, the average size of a burst")


LAWS = {
    "even": Law(even_arrivals),
    "poisson": Law(poisson_arrivals),
    "pareto": Law(pareto_bursts, "burst", _check_burst),
    "bmodel": Law(bmodel_arrivals, "bias", check_bias),
}
