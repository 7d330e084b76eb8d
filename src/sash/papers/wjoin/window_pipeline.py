"""What NLW-join, HW-join and the baselines share: a left-deep pipeline of binary joins with two buffers per node.

The join order is that of the windows. The period of an m_tuple is the intersection, over its members, of where their
own windows let tuples of the next stream lie. With one window w this is the paper's [TSmax - w, TSmin + w]. With
windows along a path alone, A to B to C, the bounds between A and C are the sums of the others, so only the last member
bounds the period: it is the one "controlled by only one of the joined streams" that §5.2 lets such a query propagate.

State: tuples that are not out, and m_tuples whose period has not passed, as far as scans have come across them. As the
paper's rule does, this keeps what an idle stream may still need: while it is idle, the buffers against it grow.

Each stream is in its own order of time, but one may be ahead of another. That is what happens where streams take turns,
as they do in the paper (§3.1): one tuple of each, and a slow stream is ahead in time before long. Its tuples are in the
buffers then, outside of every window, until the others catch up. What is found is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.index import multiway_index
from sash.index.multiway_index import MultiwayCounts
from sash.papers.wjoin import wjoin_buffers, wjoin_pipeline
from sash.papers.wjoin.arrival_order import merge_arrivals
from sash.papers.wjoin.pair_bounds import bounded
from sash.papers.wjoin.pipeline_shape import Arrivals, PipelineShape, ScansUnderWay
from sash.papers.wjoin.wjoin_buffers import NONE, UNLISTED, Buckets, Slots
from sash.store.ordered_window import OrderedWindow

LONG_AGO = -(1 << 61)
FIRST_SLOTS = 1024
FIRST_CAPACITY = 1024
BUCKET_GROWTH = 4


class WindowPipeline:
    """A left-deep pipeline. `refined` are the bounds that combinations have to keep if `reach` is wider.

    What comes in one call is taken in order of time, or else by turns, one tuple of each stream.
    """

    is_hashed = False

    def __init__(
        self,
        windows: Sequence[OrderedWindow],
        has_key: np.ndarray,
        reach: np.ndarray,
        refined: np.ndarray | None = None,
        update_every: int = 0,
        takes_turns: bool = False,
    ):
        self._windows = windows
        self._takes_turns = takes_turns
        reach = bounded(reach)
        refined = np.empty((0, len(windows)), np.int64) if refined is None else refined.astype(np.int64)
        has_key = np.ascontiguousarray(has_key, np.bool_)
        node_keys = has_key[1:] & np.logical_or.accumulate(has_key, axis=0)[:-1]
        self._pipeline = PipelineShape(reach, refined, has_key, node_keys, _spans(reach), self.is_hashed, update_every)
        self._counters = np.zeros(5, np.int64)
        self._clear()

    @property
    def counts(self) -> MultiwayCounts:
        """Each tuple of a scanned buffer is checked for removal and, unless it is out, compared."""
        return MultiwayCounts(*self._counters.tolist())

    @property
    def held(self) -> np.ndarray:
        """How many tuples are in the left and right buffer of each node."""
        return self._buckets.held.reshape(-1, 2).copy()

    def arrive(self, firsts: Sequence[int]) -> Iterator[np.ndarray]:
        yield from self._run(self._arrivals(firsts))

    def advance(self, floors: Sequence[int]) -> None:
        """Buffers have copies of what they need. What is dead has passed out of every period."""

    def refill(self) -> None:
        self._clear()
        counters = self._counters.copy()
        for _ in self._run(self._arrivals([window.floor for window in self._windows]), is_muted=True):
            raise AssertionError("combinations from the past")
        self._counters[:] = counters

    def free(self) -> None:
        self._clear()

    @property
    def _n_keys(self) -> int:
        return self._pipeline.has_key.shape[1]

    def _arrivals(self, firsts: Sequence[int]) -> Arrivals:
        return merge_arrivals(self._windows, firsts, self._n_keys, self._takes_turns)

    def _run(self, arrivals: Arrivals, is_muted: bool = False) -> Iterator[np.ndarray]:
        self._scans.state[wjoin_pipeline.NEXT] = 0
        capacity = min(FIRST_CAPACITY, multiway_index.COMBINATIONS_PER_CHUNK)
        status = wjoin_pipeline.NO_OUTPUT_ROOM
        while status != wjoin_pipeline.DONE:
            out = np.empty((len(self._windows), capacity), np.int64)
            status, n_out = self._step(arrivals, out, is_muted)
            if n_out:
                yield out[:, :n_out]
            if status == wjoin_pipeline.NO_SLOT:
                self._add_slots()
            elif status == wjoin_pipeline.CROWDED:
                self._add_buckets()
            elif status == wjoin_pipeline.NO_OUTPUT_ROOM:
                capacity = min(2 * capacity, multiway_index.COMBINATIONS_PER_CHUNK)

    def _step(self, arrivals: Arrivals, out: np.ndarray, is_muted: bool) -> tuple[int, int]:
        buffers = self._slots, self._buckets
        return wjoin_pipeline.run(arrivals, self._pipeline, *buffers, self._scans, out, is_muted, self._counters)

    def _clear(self) -> None:
        n_streams, n_buffers = len(self._windows), 2 * (len(self._windows) - 1)
        stack, state = np.zeros((n_streams, 4), np.int64), np.zeros(4, np.int64)
        self._scans = ScansUnderWay(np.full(n_streams, LONG_AGO), stack, state)
        self._slots = _empty_slots(0, len(self._windows), self._n_keys)
        self._buckets = _empty_buckets(np.ones(n_buffers, np.int64), np.full(n_buffers, 2 * LONG_AGO))
        self._add_slots()

    def _add_slots(self) -> None:
        old = self._slots
        n_old = len(old.low)
        new = _empty_slots(max(FIRST_SLOTS, 2 * n_old), len(self._windows), self._n_keys)
        for old_column, new_column in zip(old[:-1], new[:-1]):
            new_column[:n_old] = old_column
        new.following[n_old:-1] = np.arange(n_old + 1, len(new.low))
        new.following[-1] = NONE
        new.free[0] = n_old
        self._slots = new

    def _add_buckets(self) -> None:
        """More buckets for the buffers that are crowded: BUCKET_GROWTH times as many as there were."""
        old = self._buckets
        n_buckets = np.diff(old.starts)
        is_keyed = np.repeat(self._pipeline.node_keys.any(axis=1), 2)
        is_crowded = (old.held > wjoin_pipeline.MOST_PER_BUCKET * n_buckets) & is_keyed
        self._buckets = _empty_buckets(np.where(is_crowded, BUCKET_GROWTH * n_buckets, n_buckets), old.horizons)
        wjoin_buffers.regroup(old, self._buckets, self._slots, self._pipeline.node_keys)


def _spans(reach: np.ndarray) -> np.ndarray:
    """How much later than a tuple of each buffer a tuple from the other side may come that joins it."""
    spans = [(reach[:right, right].max(), reach[right, :right].max()) for right in range(1, len(reach))]
    return np.array(spans, np.int64).reshape(-1)


def _empty_slots(capacity: int, n_streams: int, n_keys: int) -> Slots:
    members, keys = (np.zeros((capacity, width), np.int64) for width in (n_streams, n_keys))
    low, high, following = (np.zeros(capacity, np.int64) for _ in range(3))
    return Slots(members, members.copy(), keys, low, high, following, np.array([NONE]))


def _empty_buckets(n_buckets: np.ndarray, horizons: np.ndarray) -> Buckets:
    starts = np.concatenate([[0], np.cumsum(n_buckets)]).astype(np.int64)
    first, last, before, after = (np.full(starts[-1], NONE) for _ in range(4))
    stalest, freshest = (np.full(len(n_buckets), NONE) for _ in range(2))
    visited_at = np.full(starts[-1], UNLISTED)
    held = np.zeros(len(n_buckets), np.int64)
    return Buckets(first, last, visited_at, before, after, starts, stalest, freshest, held, horizons)
