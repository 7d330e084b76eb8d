"""What MW-join and its local variant share: a queue for each stream, and how far its tuples reach.

State: the tuples of the present period, and those that have arrived beyond it. A stream that is idle holds nothing
back: once the clock has left the window of a tuple that waits for it, Mode 1 drops the tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.index import multiway_index
from sash.index.multiway_index import MultiwayCounts
from sash.papers.wjoin import wjoin_merge
from sash.papers.wjoin.arrival_order import merge_arrivals
from sash.papers.wjoin.pipeline_shape import Arrivals
from sash.papers.wjoin.wjoin_merge import DONE, NO_OUTPUT_ROOM, NONE, Merge, Queues
from sash.store.ordered_window import OrderedWindow

FIRST_CAPACITY = 1024


class WindowMerge:
    """A merge window join. `ahead` and `behind` say how far tuples of other streams may lie from a tuple of each
    stream; `refined` are the bounds that combinations have to keep if these are wider.
    """

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        has_key: np.ndarray,
        ahead: np.ndarray,
        behind: np.ndarray,
        refined: np.ndarray | None,
    ):
        assert min(ahead.min(), behind.min()) >= 0, "tuples of the same time are within every window"
        self._windows = windows
        self._n_keys = has_key.shape[1]
        refined = np.zeros((0, len(windows)), np.int64) if refined is None else refined.astype(np.int64)
        self._merge = Merge(ahead.astype(np.int64), behind.astype(np.int64), _partners(has_key), refined)
        self._counters = np.zeros(5, np.int64)
        self._clear()

    @property
    def counts(self) -> MultiwayCounts:
        """Insertions are tuples that Mode 2 admits. Checks are the looks at heads in Mode 1, and one look at each tuple
        to be admitted; to end Mode 2 there is one for each stream.
        """
        return MultiwayCounts(*self._counters.tolist())

    @property
    def held(self) -> np.ndarray:
        """How many tuples are in the queue of each stream, those that have not been admitted included."""
        return self._queues.ends - self._queues.heads

    def arrive(self, firsts: Sequence[int]) -> Iterator[np.ndarray]:
        self._enqueue(merge_arrivals(self._windows, firsts, self._n_keys))
        yield from self._run()

    def advance(self, floors: Sequence[int]) -> None:
        """Queues have copies of what they need. Mode 1 drops what is dead before it can be joined."""

    def refill(self) -> None:
        self._clear()
        counters = self._counters.copy()
        self._enqueue(merge_arrivals(self._windows, [window.floor for window in self._windows], self._n_keys))
        for _ in self._run(is_muted=True):
            raise AssertionError("combinations from the past")
        self._counters[:] = counters

    def free(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._queues = _empty_queues(len(self._windows), 0, self._n_keys)
        self._clock: int | None = None
        self._state = np.zeros(3, np.int64)
        self._cursors = np.zeros(len(self._windows), np.int64)

    def _enqueue(self, arrivals: Arrivals) -> None:
        n_new = np.bincount(arrivals.streams, minlength=len(self._windows))
        self._reserve(n_new)
        for stream in range(len(self._windows)):
            chosen = arrivals.streams == stream
            end = int(self._queues.ends[stream])
            place = slice(end, end + int(n_new[stream]))
            self._queues.rows[stream, place] = arrivals.rows[chosen]
            self._queues.ts[stream, place] = arrivals.ts[chosen]
            self._queues.keys[stream, place] = arrivals.keys[chosen]
        self._queues.ends[:] += n_new
        if len(arrivals.ts):
            self._clock = int(arrivals.ts[-1])

    def _reserve(self, n_new: np.ndarray) -> None:
        """Makes room for new tuples. If it does not suffice, the queues move to where their dropped tuples were."""
        old = self._queues
        if (old.ends + n_new).max() <= old.ts.shape[1]:
            return
        n_old = old.ends - old.heads
        self._queues = new = _empty_queues(len(n_old), 2 * int((n_old + n_new).max()), self._n_keys)
        for stream, count in enumerate(n_old):
            kept = slice(int(old.heads[stream]), int(old.ends[stream]))
            for source, target in zip(old[:3], new[:3]):
                target[stream, :count] = source[stream, kept]
        new.admitted[:] = old.admitted - old.heads
        new.ends[:] = n_old

    def _run(self, is_muted: bool = False) -> Iterator[np.ndarray]:
        if self._clock is None:
            return
        capacity, status = min(FIRST_CAPACITY, multiway_index.COMBINATIONS_PER_CHUNK), NO_OUTPUT_ROOM
        while status != DONE:
            out = np.empty((len(self._windows), capacity), np.int64)
            status, n_out = wjoin_merge.run(
                self._queues, self._merge, self._clock, self._state, self._cursors, out, is_muted, self._counters
            )
            if n_out:
                yield out[:, :n_out]
            capacity = min(2 * capacity, multiway_index.COMBINATIONS_PER_CHUNK)


def _empty_queues(n_streams: int, capacity: int, n_keys: int) -> Queues:
    rows, ts = (np.zeros((n_streams, capacity), np.int64) for _ in range(2))
    heads, admitted, ends = (np.zeros(n_streams, np.int64) for _ in range(3))
    return Queues(rows, ts, np.zeros((n_streams, capacity, n_keys), np.int64), heads, admitted, ends)


def _partners(has_key: np.ndarray) -> np.ndarray:
    """With which stream's tuple a key is compared first: the earliest in the nested loop that has the key too."""
    n_streams, n_keys = has_key.shape
    partners = np.full((n_streams, n_streams, n_keys), NONE, np.int64)
    for new in range(n_streams):
        order = [new, *(stream for stream in range(n_streams) if stream != new)]
        for place, stream in enumerate(order):
            for key in np.flatnonzero(has_key[stream]):
                earlier = [other for other in order[:place] if has_key[other, key]]
                if earlier:
                    partners[new, stream, key] = earlier[0]
    return partners
