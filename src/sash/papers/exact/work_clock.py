"""What a join's work costs, and the clock that it takes time from.

A join that runs alone, in an experiment, has a virtual clock: an arrival waits until the join is free, and the join is
busy for as long as its counts times their prices say, and as its disk says. Within a query the clock is the tuples' own
time: what is done is counted, but takes no time.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np

from sash.errors import PlanError
from sash.index import join_index
from sash.papers.exact.exact_kernels.block_frames import CPU_US, N_COUNTERS, NOW_US, FoundRoom, WorkLog
from sash.store.batch import BEGINNING


@dataclass(frozen=True, slots=True)
class WorkPrices:
    """Microseconds for comparing two tuples, for taking in one, for putting out a pair, and for each tuple that a scan
    goes over, however many it is compared with.
    """

    comparison_us: float = 0.0
    tuple_us: float = 0.0
    pair_us: float = 0.0
    scanned_us: float = 0.0

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0:
            raise PlanError(f"prices are not negative: {self}")


class WorkClock:
    """Counts work; with prices it is a virtual clock."""

    def __init__(self, prices: WorkPrices | None = None):
        """Without prices nothing takes time, not even the disk."""
        self.is_virtual = prices is not None
        prices = prices or WorkPrices()
        clock = np.array([float(BEGINNING), 0.0])
        self.log = WorkLog(clock, np.array(astuple(prices), np.float64), np.zeros(N_COUNTERS, np.int64))
        self.disk_us = 0.0
        """How long the join has waited for its disk."""

    @property
    def now_us(self) -> float:
        return float(self.log.clock[NOW_US])

    @property
    def cpu_us(self) -> float:
        """How long it has computed."""
        return float(self.log.clock[CPU_US])

    @property
    def looked_at_us(self) -> float:
        """When somebody wants to know what was done so far; a join that runs for long calls `look` by then."""
        return math.inf

    def look(self) -> None:
        """All that was done so far is counted."""

    def wait_until(self, time_us: float) -> None:
        """Nothing is to be done before."""
        self.log.clock[NOW_US] = max(self.now_us, time_us)

    def wait_for_disk(self, seconds: float) -> None:
        """The disk has taken so long."""
        self.disk_us += 1e6 * seconds
        if self.is_virtual:
            self.log.clock[NOW_US] += 1e6 * seconds


class FoundPairs(NamedTuple):
    """Rows that join, by side, and at what time of the clock each pair was found."""

    left: np.ndarray
    right: np.ndarray
    at_us: np.ndarray


class PairBuffer:
    """Where pairs go until somebody takes them."""

    def __init__(self) -> None:
        self._ready: list[FoundPairs] = []
        self.room = _make_room(join_index.PAIRS_PER_CHUNK)

    def make_room(self) -> None:
        """Has room for more pairs; for many more at once, if it was empty and that was too little."""
        capacity = len(self.room.left)
        if self.room.n_found[0]:
            self._set_aside()
        else:
            capacity *= 2
        self.room = _make_room(capacity)

    @property
    def is_full(self) -> bool:
        """Whether there is a chunk to be taken."""
        return bool(self._ready)

    def take(self) -> list[FoundPairs]:
        """All pairs that were found since it was asked the last time."""
        if self.room.n_found[0]:
            self._set_aside()
            self.room = _make_room(len(self.room.left))
        ready, self._ready = self._ready, []
        return ready

    def __getstate__(self) -> tuple[list[FoundPairs], int]:
        """Room for pairs is no state."""
        self._ready = self.take()
        return self._ready, len(self.room.left)

    def __setstate__(self, state: tuple[list[FoundPairs], int]) -> None:
        self._ready, capacity = state
        self.room = _make_room(capacity)

    def _set_aside(self) -> None:
        n_found = int(self.room.n_found[0])
        self._ready.append(FoundPairs(*(array[:n_found].copy() for array in self.room[:3])))
        self.room.n_found[0] = 0


def _make_room(capacity: int) -> FoundRoom:
    rows = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    return FoundRoom(*rows, np.empty(capacity), np.zeros(1, np.int64))
