"""When tuples arrive: a Poisson process, so that the time between two of them follows the exponential distribution."""

from __future__ import annotations

import math

import numpy as np

from sash.workloads.datacenter import START_US


def poisson_arrivals(rng: np.random.Generator, rate: float, duration_us: int, start_us: int = START_US) -> np.ndarray:
    """Times in microseconds, ascending, of arrivals from `start_us` on for a while, `rate` per second on average.

    Times are whole microseconds: at very high rates some of them are equal.
    """
    expected = rate * duration_us / 1e6
    n_drawn = math.ceil(expected + 6 * math.sqrt(expected) + 16)
    elapsed = np.cumsum(rng.exponential(1e6 / rate, n_drawn))
    while elapsed[-1] < duration_us:
        elapsed = np.concatenate([elapsed, elapsed[-1] + np.cumsum(rng.exponential(1e6 / rate, n_drawn))])
    return start_us + elapsed[elapsed < duration_us].astype(np.int64)
