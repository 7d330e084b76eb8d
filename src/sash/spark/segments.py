"""A file of a stream in segments, as its reader sees it, who does not know the files before it.

A run of rows with one time that is far newer than the row after it is *doubtful*: whether it is too far ahead depends
on what came before the file. Everything else does not: if it is far ahead, what follows it in the file confirms it. So
a doubtful run is a segment of its own, and the groups, who know all files, decide on it.

    ts        5  6  7 | 99 99 | 8  9 | 60 | 10  11 | … 70        ahead 10
    segment   0         1       2      3    4                    odd numbers are doubtful runs

What stands at the end of a file and is far ahead of the rest is *open*: the file that comes next decides. Nearly all
files are one segment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sash.kernels.verdicts import HELD, LATE, TOO_FAR
from sash.operators.stream_clock import StreamClock
from sash.sql.catalog import StreamInfo
from sash.store.batch import BEGINNING


def partial_clock(info: StreamInfo) -> StreamClock:
    """Of a reader who sees a part of a stream."""
    return StreamClock(info.slack_us, ahead_us=info.ahead_us, is_partial=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows of a file, in its order. The last `n_open` of them wait for the rows that follow."""

    numbers: np.ndarray | None
    """The segment of each row; None if that is the same for all, and `number`."""
    number: int
    is_late: np.ndarray | None
    """Which rows are late within the file; None if none are."""
    n_open: int


class Cutter:
    """Cuts a file into segments, a stretch at a time. Rows that are open have to come again, with what follows them."""

    def __init__(self, info: StreamInfo):
        self.clock = partial_clock(info)
        self._n_doubtful = 0

    @property
    def number(self) -> int:
        """Of the segment that goes on."""
        return 2 * self._n_doubtful

    def cut(self, ts: np.ndarray) -> Cut:
        """Where the rows of the next stretch belong."""
        self.clock.held_us = BEGINNING
        judgement = self.clock.judge(ts)
        number, verdicts = self.number, judgement.verdicts
        if verdicts is None:
            return Cut(None, number, None, 0)
        is_late, n_open = judgement.are(LATE), int(np.count_nonzero(verdicts == HELD))
        is_doubtful = verdicts == TOO_FAR
        if not is_doubtful.any():
            return Cut(None, number, is_late, n_open)
        goes_on = np.zeros(len(ts), bool)
        goes_on[1:] = is_doubtful[:-1] & (ts[1:] == ts[:-1])
        n_doubtful = self._n_doubtful + np.cumsum(is_doubtful & ~goes_on)
        self._n_doubtful = int(n_doubtful[-1])
        return Cut(2 * n_doubtful - is_doubtful, number, is_late, n_open)


@dataclass(slots=True)
class Segment:
    """What the groups must know of a segment. Times are None if there is no row; those of late rows count as the first
    alone, as a row is contradicted also by one that is late.
    """

    first_us: int | None = None
    oldest_us: int | None = None
    newest_us: int | None = None
    below_us: int | None = None
    """The newest time but that of the open rows."""
    is_run: bool = True
    """Whether all rows have the same time."""
    is_open: bool = False
    """Whether nothing is known of what follows the newest."""
    is_doubtful: bool = False
    n_newest: int = 0
    """How many rows are the newest, if it is open."""

    def add(self, ts: np.ndarray, is_late: np.ndarray | None = None) -> None:
        """Takes note of rows."""
        if not len(ts):
            return
        self.first_us = int(ts[0]) if self.first_us is None else self.first_us
        timely = ts if is_late is None else ts[~is_late]
        self.is_run = self.is_run and int(ts.min()) == int(ts.max()) == self.first_us
        if len(timely):
            low, high = int(timely.min()), int(timely.max())
            self.oldest_us = low if self.oldest_us is None else min(low, self.oldest_us)
            self.newest_us = high if self.newest_us is None else max(high, self.newest_us)


def unordered(ts: np.ndarray) -> Segment:
    """Of rows that have no order: as if they had come in order of their times."""
    if not len(ts):
        return Segment()
    low, high = int(ts.min()), int(ts.max())
    others = ts[ts != high]
    below_us = int(others.max()) if len(others) else None
    return Segment(low, low, high, below_us, low == high, is_open=True, n_newest=len(ts) - len(others))


def merge_unordered(segments: list[Segment]) -> Segment:
    """What several readers saw of rows that have no order: as if they had come in order of their times."""
    seen = [each for each in segments if each.newest_us is not None and each.oldest_us is not None]
    if not seen:
        return Segment()
    times = {each.newest_us for each in seen} | {each.below_us for each in seen} | {each.oldest_us for each in seen}
    ordered = sorted(time for time in times if time is not None)
    below_us = ordered[-2] if len(ordered) > 1 else None
    n_newest = sum(each.n_newest for each in seen if each.newest_us == ordered[-1])
    return Segment(ordered[0], ordered[0], ordered[-1], below_us, len(ordered) == 1, is_open=True, n_newest=n_newest)
