"""The index of a join that queries with windows of different lengths share: pairs window by window, as a schedule says.

    step     t1 t2 t3 … tn come at once
    LWO      every tuple scans the largest window before the next one does: all windows get their pairs together
    SWF      all scan the smallest window, then all scan on to the next, …
    MQT      whoever serves the most queries per time is next

The law: in every step each window class gets the pairs of the step's tuples whose times differ by less than its window
and whose lives overlap, in order of time. Schedules differ in when, within the step, and in nothing else. Scheduling is
`SharedJoin`'s, which works a step off as one burst, in runs; a turn is what a run has completed for one window.

At the end of a step nobody waits. So the windows' rows are all the state there is, and the index is made from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sash.index.join_index import LEFT, RIGHT, JoinCounts, Pairs
from sash.papers.shared.shared_join import SharedJoin
from sash.papers.shared.shared_rows import merge_rows
from sash.store.window import Window

PAIRS_PER_RUN = 1 << 16
"""What is released to several windows at once counts once."""
TUPLES_PER_BURST = 1 << 18
"""A longer step is several bursts: what SWF and MQT hold back of a burst, up to all its pairs, is in memory."""


class Turn(NamedTuple):
    """What one window class gets at a time. An instant is never cut in two."""

    window: int
    """The place of the class, from the smallest window on."""
    pairs: Pairs
    complete_us: int
    """Every pair of the class that begins by then has been given out, in this turn or before."""


class ScheduledIndex:
    """Rows of two windows by key, which come in order of time from step to step and are not taken back."""

    def __init__(self, windows: Sequence[Window], classes_us: Sequence[int], n_queries: Sequence[int], schedule: str):
        """`classes_us` are the distinct windows of the queries, ascending, and `n_queries` how many have each."""
        self._windows = tuple(windows)
        self._classes_us, self._n_queries = list(classes_us), list(n_queries)
        self._schedule = schedule
        self._n_scanned = self._n_inserted = self._n_output = 0
        self._join = SharedJoin(self._classes_us, self._n_queries, schedule)
        self.refill()

    def turns(self, firsts: tuple[int, int], clock: int) -> Iterator[Turn]:
        """Puts the rows of each side from `firsts` on into the index; the pairs that they make, by turns.

        `clock` is the clock after this step, at which the last turn of every class is complete. To be exhausted: the
        work of a step is done when it is.
        """
        if self._n_rebuilds != self._count_rebuilds():
            self._fill(firsts)
        spans = [(first, window.next_row) for window, first in zip(self._windows, firsts)]
        tuples, n_before = self._merged(spans), self._join.n_scans
        ts = tuples[1]
        for low, high in pairwise(_cuts(ts)):
            complete_us = clock if high == len(ts) else int(ts[high]) - 1
            yield from self._burst([column[low:high] for column in tuples], complete_us)
        self._n_inserted += len(ts)
        self._n_scanned += self._join.n_scans - n_before

    def reclass(self, classes_us: Sequence[int], n_queries: Sequence[int]) -> None:
        """Queries came or went, between steps. A class gets its pairs from the next step on."""
        is_larger = classes_us[-1] > self._classes_us[-1]
        self._classes_us, self._n_queries = list(classes_us), list(n_queries)
        if is_larger:
            self.refill()
        else:
            self._join.regroup(classes_us, n_queries)

    def advance(self, clock: int) -> None:
        """The windows say what is gone."""

    def refill(self) -> None:
        """Starts afresh with all rows of the windows."""
        self._fill((self._windows[LEFT].next_row, self._windows[RIGHT].next_row))

    def give_room(self) -> None:
        """Rows of its windows never leave memory before they are gone."""

    def growth(self, n_rows: int) -> int:
        """Its windows are never sealed."""
        return 0

    def free(self) -> None:
        """Gives the room of the line and the table back."""
        self._join = SharedJoin(self._classes_us, self._n_queries, self._schedule)

    @property
    def counts(self) -> JoinCounts:
        """A pair counts once, however many classes have got it."""
        n_evicted = sum(window.n_evicted for window in self._windows)
        return JoinCounts(self._n_scanned, self._n_inserted, n_evicted, 0, self._n_output)

    def _count_rebuilds(self) -> int:
        return sum(window.n_rebuilds for window in self._windows)

    def _fill(self, upto: tuple[int, int]) -> None:
        """Starts afresh with the rows below `upto`."""
        self._n_rebuilds = self._count_rebuilds()
        self._join = SharedJoin(self._classes_us, self._n_queries, self._schedule)
        tuples = self._merged([(window.floor, last) for window, last in zip(self._windows, upto)])
        self._join.spread(len(tuples[0]))
        self._join.load(*tuples)

    def _burst(self, tuples: Sequence[np.ndarray], complete_us: int) -> Iterator[Turn]:
        """The turns of tuples that come at once; every class is complete up to a time when they are over."""
        self._join.spread(len(tuples[0]))
        self._join.push(*tuples)
        is_over = [False] * len(self._classes_us)
        while not all(is_over):
            for window, (pairs, open_us) in enumerate(self._join.work(PAIRS_PER_RUN)):
                if len(pairs.ts) or (open_us is None and not is_over[window]):
                    yield Turn(window, pairs, complete_us if open_us is None else open_us - 1)
                is_over[window] = open_us is None
                self._n_output += len(pairs.ts) if window == len(is_over) - 1 else 0

    def _merged(self, spans: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Sides, times, keys and cargo of rows of both windows, in order of time, left before right."""
        ordered = [_in_order(window, *span) for window, span in zip(self._windows, spans)]
        at = [rows - window.base for window, rows in zip(self._windows, ordered)]
        ts = [window.ts[each] for window, each in zip(self._windows, at)]
        order = merge_rows(*ts)
        sides = np.repeat(np.array([LEFT, RIGHT], np.int8), [len(each) for each in at])
        keys = np.concatenate([window.keys[each] for window, each in zip(self._windows, at)])
        ends = np.concatenate([window.ends[each] for window, each in zip(self._windows, at)])
        cargo = np.column_stack([2 * np.concatenate(ordered) + sides, ends])
        return sides[order], np.concatenate(ts)[order], keys[order], cargo[order]


def _in_order(window: Window, first: int, last: int) -> np.ndarray:
    """Rows of a window in order of time. They lie in order of their end, which mostly is the same."""
    rows, ts = np.arange(first, last), window.ts[first - window.base : last - window.base]
    return rows[np.argsort(ts, kind="stable")] if np.any(ts[1:] < ts[:-1]) else rows


def _cuts(ts: np.ndarray) -> list[int]:
    """Where bursts begin and end among tuples in order of time; an instant is never cut in two."""
    cuts = [0]
    while len(ts) - cuts[-1] > TUPLES_PER_BURST:
        instant = ts[cuts[-1] + TUPLES_PER_BURST]
        low, high = np.searchsorted(ts, instant), np.searchsorted(ts, instant, side="right")
        cuts.append(int(low if low > cuts[-1] else high))
    return cuts if cuts[-1] == len(ts) > 0 else [*cuts, len(ts)]
