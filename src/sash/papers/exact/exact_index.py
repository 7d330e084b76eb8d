"""The papers' joins over windows that are larger than memory, as the index of a join within a query.

    step     rows of both sides, in order of time, left first      the algorithm, tuple by tuple or block by block
             its end                                               a last probe, or a periodic stage: nobody waits

The rows stay in the windows. What the index keeps of a row is what joins it, in blocks, in as much memory as its
settings say and on a disk beyond that. It serves joins whose tuples are not taken back: nothing is ever looked for on
disk to be removed. As nothing is pending after a step, the index can be made from the windows' rows at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from sash.index.join_index import LEFT, RIGHT, JoinCounts, Pairs
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_kernels.block_frames import COMPARED, END, INSERTED, KEY, PAIRED, REMOVED, ROW, TS, WIDTH
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, ExactSettings
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.store.batch import NEVER
from sash.store.block_disk import DiskCounts
from sash.store.window import Window

DiskJoin = ExactWindowJoin | AdaptiveWindowJoin | ProgressiveWindowJoin


class ExactJoinIndex:
    """Rows of two windows in blocks, by EWJ, RPWJ or AH-EWJ as the settings are."""

    def __init__(self, windows: Sequence[Window], settings: ExactSettings):
        self._windows = tuple(windows)
        self._settings = settings
        self._counts = JoinCounts(0, 0, 0, 0, 0)
        self._disk_counts = DiskCounts()
        self._join = make_disk_join(settings)
        self.refill()

    def arrive(self, firsts: tuple[int, int], clock: int) -> Iterator[Pairs]:
        """The pairs that the rows from `firsts` on make, in chunks; see `JoinIndex`."""
        one, other = self._windows[LEFT], self._windows[RIGHT]
        records, sides = self._merged([(first, window.next_row) for window, first in zip(self._windows, firsts)])
        for left, right, _ in chain(self._join.feed(records, sides, _after(clock)), self._join.settle()):
            at, other_at = left - one.base, right - other.base
            ts, expires = np.maximum(one.ts[at], other.ts[other_at]), np.minimum(one.ends[at], other.ends[other_at])
            yield Pairs(left, right, ts, expires)

    def advance(self, clock: int) -> None:
        """Rows leave as later ones arrive."""

    def refill(self) -> None:
        """Starts afresh with all rows of the windows, whose pairs are known."""
        self._counts, self._disk_counts = self.counts, self.disk_counts
        self._join = make_disk_join(self._settings)
        records, sides = self._merged([(window.floor, window.next_row) for window in self._windows])
        if len(sides):
            horizon = _after(min(window.clock for window in self._windows))
            for _ in chain(self._join.feed(records, sides, horizon, is_silent=True), self._join.settle()):
                raise AssertionError("pairs are found that were known")
        self._join.clock.log.counters[:] = 0

    def give_room(self) -> None:
        self.refill()

    def growth(self, n_rows: int) -> int:
        """What it has is a model of a disk."""
        return 0

    def free(self) -> None:
        """Gives all room back."""
        self._counts, self._disk_counts = self.counts, self.disk_counts
        self._join = make_disk_join(self._settings)

    @property
    def counts(self) -> JoinCounts:
        """Scans are the comparisons that the algorithm makes; invalidations need none of their own."""
        counters = self._join.clock.log.counters
        compared, inserted, removed, paired = (int(counters[each]) for each in (COMPARED, INSERTED, REMOVED, PAIRED))
        now = JoinCounts(compared, inserted, removed, 0, paired)
        return JoinCounts(*map(sum, zip(self._counts, now)))

    @property
    def disk_counts(self) -> DiskCounts:
        """What the disks have done so far."""
        return DiskCounts(*map(sum, zip(self._disk_counts, *(disk.counts for disk in self._join.disks))))

    def _merged(self, spans: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Rows of both windows as the joins are fed with them: in order of time, left before right."""
        records = np.zeros((sum(last - first for first, last in spans), WIDTH), np.int64)
        sides = np.repeat(np.array([LEFT, RIGHT], np.int8), [last - first for first, last in spans])
        for side, (window, (first, last)) in enumerate(zip(self._windows, spans)):
            at, own = slice(first - window.base, last - window.base), sides == side
            columns = np.arange(first, last), window.keys[at], window.ts[at], window.ends[at]
            for column, values in zip((ROW, KEY, TS, END), columns):
                records[own, column] = values
        order = np.lexsort((sides, records[:, TS]))
        return records[order], sides[order]


def make_disk_join(settings: ExactSettings) -> DiskJoin:
    """The join that the settings are of, with nothing in it."""
    if isinstance(settings, EwjSettings):
        return ExactWindowJoin(settings)
    return AdaptiveWindowJoin(settings) if isinstance(settings, AhEwjSettings) else ProgressiveWindowJoin(settings)


def _after(clock: int) -> int:
    """The first instant that a row that comes later can have."""
    return min(clock, NEVER - 1) + 1
