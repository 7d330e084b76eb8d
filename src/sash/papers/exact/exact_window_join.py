"""EWJ, Exact Window Join (Exact, ch. 3): nested loops over windows that are larger than memory.

    a stream's window   newest                                                          oldest
    memory              recent: head, fresh …, dumped …        frequent: copies         invalidation
    disk                                     ──────────────── in order of arrival ─────

Alg. 2, tuple by tuple: into the head block; joined with all that is in memory of the other stream; tuples that have
ended leave the invalidation segment, which is refilled from the oldest end of the disk. A full head makes room for
another one: the oldest recent block leaves memory, which is on disk by then. When a part `r` of the recent segment is
fresh, the fresh blocks are dumped in one go (the mature dump) and the disk of the other stream is probed (Alg. 1).

The law: every pair whose lives overlap is found once, by the rule of `residence`: at once if the older one's block is
in memory, else by a probe. `settle` probes what is fresh, so that nothing is pending after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from sash.papers.exact.exact_kernels import exact_runs
from sash.papers.exact.exact_kernels.block_frames import TS
from sash.papers.exact.exact_kernels.disk_probe import FreshRows
from sash.papers.exact.exact_kernels.exact_runs import AT, FedRows, TupleSegments
from sash.papers.exact.exact_settings import EwjSettings
from sash.papers.exact.exact_store import ExactStore, StoreShape, fresh_rows
from sash.papers.exact.work_clock import FoundPairs, WorkClock
from sash.store.batch import BEGINNING, NEVER
from sash.store.block_disk import BlockDisk
from sash.store.model_disk import ModelDisk


class ExactWindowJoin:
    """Joins two streams whose rows are fed in order of time. It keeps what it needs of a row to join it, no more."""

    def __init__(self, settings: EwjSettings, disks: Sequence[BlockDisk] | None = None, clock: WorkClock | None = None):
        """`disks` are those of the two streams, `ModelDisk`s if nothing is said; see `WorkClock` for the clock."""
        self.settings = settings
        self.clock = clock or WorkClock()
        disks = disks or [ModelDisk(settings.block_bytes, adjacent_blocks=settings.basic_window) for _ in range(2)]
        self.store = ExactStore(_shape(settings), disks, self.clock)
        self._segments = TupleSegments(
            open=np.full(2, -1),
            seqs=self.store.seqs,
            ring=np.full((2, settings.n_invalidation), -1),
            ring_at=np.zeros((2, 3), np.int64),
        )
        self.recent: tuple[deque[int], deque[int]] = (deque(), deque())
        """The blocks of each stream's recent segment, the oldest first; the last one is the head."""
        self.n_fresh = [0, 0]
        """Full blocks that were not dumped."""
        self._n_since_update = [0, 0]
        self._next_number = [0, 0]
        self._sure_us = BEGINNING
        for side in (0, 1):
            self._start_head(side)

    def feed(
        self, records: np.ndarray, sides: np.ndarray, horizon: int = NEVER, is_silent: bool = False
    ) -> Iterator[FoundPairs]:
        """Takes in rows (`block_frames`: row, key, time, end) of both streams, in order of time; pairs, as found.

        No row that is fed later is older than `horizon`. `is_silent`: all pairs of these rows are known.
        """
        fed = FedRows(records, sides, np.array([0, is_silent]))
        self.store.is_silent = is_silent
        reason = exact_runs.NO_ROOM
        while reason != exact_runs.DONE:
            memory = self.store.memory
            state = memory.frames, memory.heads, self._segments, horizon, self.clock.log, self.store.found.room
            reason = exact_runs.run_tuples(fed, *state)
            if reason == exact_runs.NO_ROOM:
                self.store.found.make_room()
            elif reason != exact_runs.DONE:
                at = int(fed.state[AT]) - 1
                self._sure_us = min(int(records[at, TS]), horizon)
                self._after(int(sides[at]))
            yield from self.store.found.take() if self.store.found.is_full else ()
        yield from self.store.found.take()

    def settle(self) -> Iterator[FoundPairs]:
        """Probes for all rows that have not been probed: then no pair of the rows so far is missing."""
        for side in (0, 1):
            self._probe(side, is_update=False)
            yield from self.store.found.take()

    @property
    def disks(self) -> list[BlockDisk]:
        return [segment.disk for segment in self.store.disks]

    def _after(self, side: int) -> None:
        """A tuple of a stream has filled its head, or something can be invalidated."""
        frames = self.store.memory.frames
        if frames.n_rows[self._segments.open[side]] == self.settings.block_rows:
            self._end_head(side)
        for each in (0, 1):
            self._invalidate(each)

    def _end_head(self, side: int) -> None:
        self.store.memory.seal(self.recent[side][-1])
        self.n_fresh[side] += 1
        if len(self.recent[side]) == self.settings.n_recent:
            self._drop_tail(side)
        self._start_head(side)
        if self.n_fresh[side] >= self.settings.r * self.settings.n_recent:
            self._dump_and_probe(side)

    def _drop_tail(self, side: int) -> None:
        block = self.recent[side].popleft()
        assert self.store.memory.is_on_disk[block], "a fresh block would be lost"
        self.store.drop(side, block)

    def _start_head(self, side: int) -> None:
        memory = self.store.memory
        block = memory.open_block(side, 0, self._next_number[side])
        memory.residence.begin(block, int(self.store.seqs[1 - side]))
        self._next_number[side] += 1
        self.recent[side].append(block)
        self._segments.open[side] = memory.frame_of[block]

    def _dump_and_probe(self, side: int) -> None:
        """The mature dump, and the probe that belongs to it."""
        n_fresh = self.n_fresh[side]
        self.store.dump(side, list(self.recent[side])[-1 - n_fresh : -1])
        self._n_since_update[side] += n_fresh * self.settings.block_rows
        self.n_fresh[side] = 0
        is_update = self._n_since_update[side] >= self.settings.epoch
        if is_update:
            self._n_since_update[side] = 0
        self._probe(side, is_update)

    def _probe(self, side: int, is_update: bool) -> None:
        self.store.probe(side, self._fresh(side), is_update)

    def _fresh(self, side: int) -> FreshRows:
        first, last = self.store.probed[side], int(self.store.seqs[side])
        seqs = np.arange(first, last)
        return fresh_rows((first, last), 1, np.zeros_like(seqs), seqs, np.ones_like(seqs))

    def _invalidate(self, side: int) -> None:
        """Frames whose tuples have all ended are free, and take the oldest of the disk when there is room for a chunk.

        A chunk is a basic window, or what the segment can hold. A block that is still among the recent ones stays.
        """
        ring, (start, count, place) = self._segments.ring[side], self._segments.ring_at[side]
        size = self.settings.n_invalidation
        while count and place == self.store.memory.frames.n_rows[ring[start]]:
            self.store.drop(side, int(self.store.memory.frames.blocks[ring[start]]), int(place))
            start, count, place = (start + 1) % size, count - 1, 0
        chunk = min(self.settings.basic_window, size)
        while size - count >= chunk and (n_ready := self.store.n_ready(side, chunk, self._sure_us)):
            for block in self.store.invalidate(side, n_ready, self._fresh(1 - side)).tolist():
                ring[(start + count) % size] = self.store.memory.frame_of[block]
                count += 1
        self._segments.ring_at[side] = start, count, place


def _shape(settings: EwjSettings) -> StoreShape:
    n_blocks = settings.n_recent + settings.n_frequent + settings.n_invalidation
    return StoreShape(
        n_frames=2 * n_blocks,
        block_rows=settings.block_rows,
        n_buckets=1,
        n_frequent=settings.n_frequent,
        basic_window=settings.basic_window,
        alpha=settings.alpha,
        lead=settings.delta,
    )
