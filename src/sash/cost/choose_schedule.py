"""Which schedule a shared window join follows: the one by which a query waits the least for its pairs, on average.

    burst of m tuples      LWO: the smallest window waits for m scans of the largest
                           SWF: the largest window waits until all have scanned all smaller ones
                           MQT: in between, by how many queries there are

The model is that of "Scheduling for shared window joins over data streams", §3.1.1: a burst arrives at once, and each
of its tuples meets partners that are spread evenly over the largest window. `SharedJoin` itself works such a burst off,
a small one, by its queueing clock, at this machine's prices; larger bursts make all responses longer in proportion.

LWO does the least besides scanning, and no pair waits in a buffer. So it is kept unless another schedule is better by
more than the margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sash.cost.choose_join import MARGIN, SHIPPED, JoinPrices
from sash.papers.shared.shared_join import SCHEDULES, SharedJoin, WorkCosts

LARGEST_BURST = 48
"""A burst of so many tuples tells schedules apart as well as a larger one."""
N_PARTNERS = 256
"""In the largest window of the model."""
STEPS_BETWEEN_LOOKS = 16
WEIGHT = 1 / 8
"""Of the newest burst in the average."""
MOVED = 1.5
"""A burst that is so many times larger or smaller is another one."""


@dataclass(frozen=True, slots=True)
class ScheduleChoice:
    """A schedule, and why it was chosen."""

    schedule: str
    burst: float
    """How many tuples come at once: what the choice is for."""
    responses_us: Mapping[str, tuple[float, ...]]
    """By schedule: how long the queries of each window wait for a pair, on average. Empty if there was no choice."""

    def mean_us(self, schedule: str, n_queries: Sequence[int]) -> float:
        """How long a query waits for a pair by a schedule, on average over queries."""
        return float(np.average(self.responses_us[schedule], weights=n_queries))


def choose_schedule(
    windows_us: Sequence[int],
    n_queries: Sequence[int],
    burst: float,
    pairs_per_tuple: float = 1.0,
    prices: JoinPrices = SHIPPED,
) -> ScheduleChoice:
    """The schedule for queries with these windows, ascending, if so many tuples come at once.

    `pairs_per_tuple` are those of the largest window. They and the prices make responses longer, but do not decide.
    """
    if len(windows_us) == 1 or burst < 2:
        return ScheduleChoice("lwo", burst, {})
    pair_us = (prices.hash.costs.scan + prices.hash.costs.output) / 1_000
    tuple_us = max(pairs_per_tuple * pair_us, 1e-6)
    responses = {name: _responses_us(name, windows_us, n_queries, burst, tuple_us) for name in SCHEDULES}
    choice = ScheduleChoice("lwo", burst, responses)
    best = min(SCHEDULES, key=lambda name: choice.mean_us(name, n_queries))
    if choice.mean_us("lwo", n_queries) <= MARGIN * choice.mean_us(best, n_queries):
        return choice
    return ScheduleChoice(best, burst, responses)


class BurstWatch:
    """How many tuples come at once, on average over the last steps that brought any."""

    def __init__(self) -> None:
        self.burst = 0.0
        self._looked_at = 0.0
        self._n_steps = 0

    def seen(self, n_tuples: int) -> bool:
        """Notes a step; whether the choice should be looked at again now: bursts have become others since the last time
        that this was so.
        """
        if not n_tuples:
            return False
        self.burst += (n_tuples - self.burst) * (WEIGHT if self.burst else 1.0)
        self._n_steps += 1
        low, high = self._looked_at / MOVED, self._looked_at * MOVED
        if self._n_steps < STEPS_BETWEEN_LOOKS or low <= self.burst <= high:
            return False
        self._n_steps, self._looked_at = 0, self.burst
        return True


def _responses_us(
    schedule: str, windows_us: Sequence[int], n_queries: Sequence[int], burst: float, tuple_us: float
) -> tuple[float, ...]:
    """By window, if a tuple takes so long to scan the largest one."""
    n_tuples = min(round(burst), LARGEST_BURST)
    costs = WorkCosts(pair_us=tuple_us / N_PARTNERS * burst / n_tuples)
    join = SharedJoin(windows_us, n_queries, schedule, False, costs)
    join.is_logged = False
    ages = np.linspace(windows_us[-1] - 1, 0, N_PARTNERS).astype(np.int64)
    join.load(np.zeros(N_PARTNERS, np.int8), -ages, np.zeros(N_PARTNERS, np.int64))
    join.push(np.ones(n_tuples, np.int8), np.zeros(n_tuples, np.int64), np.zeros(n_tuples, np.int64))
    join.advance()
    return tuple(response.mean_us for response in join.responses())
