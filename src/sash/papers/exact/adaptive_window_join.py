"""AH-EWJ, Adaptive Hash-partitioned Exact Window Join (Exact, ch. 5): EWJ in buckets, with one disk segment per stream.

    tuple ─ bucket ─ head block ─ full: joined with its bucket in memory ─ fresh ─ probe ─ stale ─ dump ─ flushed ─ gone
                                                                                     └ bypass: invalidation, no disk

Alg. 7. A block is joined when it is full, with full blocks alone, so that a pair is found by the one sealed later. When
a stream has `r` times its least recent memory of fresh blocks, the other one's disk is probed (Alg. 3). A block that
needs a frame takes it from EVICT (Alg. 6): from the other stream if that is the faster one (Eq. 5.1), so that memory
goes to the slower; from the bucket that is the least productive. While the disk of a stream is empty and blocks can be
invalidated in memory, they bypass it: as long as windows fit, nothing is written.

Rows are numbered by the joins of their stream, so that the rows of a block share a number; see `residence`. The rows of
an open head can be joined before it is full, by `settle`: those that come into it later have higher numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.papers.exact.exact_kernels import block_frames, exact_runs
from sash.papers.exact.exact_kernels.block_frames import INVALIDATION, KEY, REMOVED, SEQ, TS
from sash.papers.exact.exact_kernels.disk_probe import FreshRows
from sash.papers.exact.exact_kernels.exact_runs import AT, FedRows
from sash.papers.exact.exact_settings import AhEwjSettings
from sash.papers.exact.exact_store import ExactStore, StoreShape, fresh_rows
from sash.papers.exact.recent_buckets import RecentBuckets
from sash.papers.exact.work_clock import FoundPairs, WorkClock
from sash.store.batch import BEGINNING, NEVER
from sash.store.block_disk import BlockDisk
from sash.store.model_disk import ModelDisk


class AdaptiveWindowJoin:
    """Joins two streams whose rows are fed in order of time."""

    def __init__(
        self, settings: AhEwjSettings, disks: Sequence[BlockDisk] | None = None, clock: WorkClock | None = None
    ):
        """`disks` are those of the two streams, `ModelDisk`s if nothing is said; see `WorkClock` for the clock."""
        self.settings = settings
        self.clock = clock or WorkClock()
        disks = disks or [ModelDisk(settings.block_bytes, adjacent_blocks=settings.basic_window) for _ in range(2)]
        self.store = ExactStore(_shape(settings), disks, self.clock)
        self.recent = [RecentBuckets(settings.n_part, settings.train) for _ in range(2)]
        self.invalidation: list[list[int]] = [[], []]
        self.shares = [settings.n_recent // 2, settings.n_recent - settings.n_recent // 2]
        """How many frames each recent segment may have: half at first."""
        self.arrivals = [0.0, 0.0]
        """How many blocks have come of each stream lately."""
        self.n_bypassed = self.n_moved = 0
        """Blocks that did not see the disk, and frames that went from one stream to the other."""
        self._next_number = [0, 0]
        self._n_since_update = [0, 0]
        self._fresh_log: list[list[tuple[int, int, int]]] = [[], []]
        self._open_frames = np.full((2, settings.n_part), -1)
        self._joined = np.zeros((2, settings.n_part), np.int64)
        self._sure_us = self._slid_us = BEGINNING
        self._decay_us: float | None = None
        self._due = np.array([np.inf])

    def feed(
        self, records: np.ndarray, sides: np.ndarray, horizon: int = NEVER, is_silent: bool = False
    ) -> Iterator[FoundPairs]:
        """Takes in rows (`block_frames`: row, key, time, end) of both streams, in order of time; pairs, as found.

        No row that is fed later is older than `horizon`. `is_silent`: all pairs of these rows are known.
        """
        fed, store = FedRows(records, sides, np.array([0, is_silent])), self.store
        store.is_silent = is_silent
        if self.clock.is_virtual and np.isinf(self._due[0]):
            self._due[0] = self.settings.gap_us + float(records[0, TS]) if len(records) else np.inf
        reason = exact_runs.NO_FRAME
        while reason != exact_runs.DONE:
            state = store.memory.frames, store.memory.heads, self._open_frames, self._due, self.clock.log
            reason = exact_runs.fill_blocks(fed, *state)
            if reason == exact_runs.NO_FRAME:
                self._open_head(*self._place_of(fed, int(fed.state[AT])))
            elif reason == exact_runs.FULL:
                at = int(fed.state[AT]) - 1
                self._sure_us = min(int(records[at, TS]), horizon)
                self._seal(*self._place_of(fed, at))
            elif reason == exact_runs.IDLE:
                self._use_idle_time(float(records[fed.state[AT], TS]))
            yield from store.found.take() if store.found.is_full else ()
        yield from store.found.take()

    def settle(self) -> Iterator[FoundPairs]:
        """Joins the rows of open heads, and probes for all that is fresh: no pair of the rows so far is missing."""
        for side in (0, 1):
            for bucket in np.flatnonzero(self.recent[side].heads >= 0).tolist():
                self._join(side, bucket)
        for side in (0, 1):
            self._probe(side, is_update=False)
            yield from self.store.found.take()

    @property
    def disks(self) -> list[BlockDisk]:
        return [segment.disk for segment in self.store.disks]

    def _place_of(self, fed: FedRows, at: int) -> tuple[int, int]:
        """Stream and bucket of a row that is fed."""
        return int(fed.sides[at]), block_frames.bucket_of_key(fed.records[at, KEY], self.settings.n_part)

    def _seal(self, side: int, bucket: int) -> None:
        """The head of a bucket is full."""
        store, recent = self.store, self.recent[side]
        self._join(side, bucket)
        block = recent.close_head(bucket)
        store.memory.numbers[block] = self._next_number[side]
        store.memory.seal(block)
        self._next_number[side] += 1
        self._open_frames[side, bucket] = -1
        self._count_arrival(side)
        self._invalidate_if_due()
        if recent.n_fresh >= self.settings.r * self.settings.n_least:
            self._probe_in_turn(side)

    def _join(self, side: int, bucket: int) -> None:
        """The rows of a head that have not been joined yet meet their bucket in memory, and can be met from now on."""
        store, frame = self.store, int(self._open_frames[side, bucket])
        frames, first = store.memory.frames, int(self._joined[side, bucket])
        last = int(frames.n_rows[frame])
        if first == last:
            return
        frames.records[frame, first:last, SEQ] = store.seqs[side]
        upto = last if store.is_silent else first
        while upto < last:
            state = frames, store.memory.heads, frame, upto, self.clock.log, store.found.room
            upto = block_frames.meet_rows(*state)
            if upto < last:
                store.found.make_room()
        block_frames.link_rows(frames, store.memory.heads, frame, first, last)
        if not first:
            store.memory.residence.begin(int(frames.blocks[frame]), int(store.seqs[1 - side]))
        self._fresh_log[side].append((bucket, int(store.seqs[side]), last - first))
        store.seqs[side] += 1
        self._joined[side, bucket] = last

    def _open_head(self, side: int, bucket: int) -> None:
        """Gives a bucket a new head, in a free frame of the stream's share, or in one that is evicted for it."""
        recent, memory = self.recent[side], self.store.memory
        if self._is_full(side):
            self._evict(side)
        block = memory.open_block(side, bucket, -1)
        recent.open_head(bucket, block)
        self._open_frames[side, bucket] = memory.frame_of[block]
        self._joined[side, bucket] = 0

    def _is_full(self, side: int) -> bool:
        """Whether a stream has no free frame in its own share, whatever the other one has."""
        return len(self.recent[side]) >= self.shares[side]

    def _evict(self, side: int) -> None:
        """EVICT: frees a frame for a stream (Alg. 6)."""
        victim = 1 - side if self._can_supply(1 - side) else side
        recent, store = self.recent[victim], self.store
        if not recent.n_flushed and not recent.n_stale:
            self._make_stale(victim)
        if not recent.n_flushed and not self._bypass(victim):
            store.dump(victim, recent.flush(self.settings.basic_window, store.memory.numbers))
        if recent.n_flushed:
            productivity = np.where(recent.with_flushed(), store.memory.bucket_productivity(victim), np.inf)
            block = recent.pop_flushed(int(np.argmin(productivity)))
            if store.is_more_productive(victim, block):
                store.make_frequent(victim, block)
            else:
                store.drop(victim, block)
        if victim != side:
            self.shares[victim] -= 1
            self.shares[side] += 1
            self.n_moved += 1

    def _make_stale(self, side: int) -> None:
        """All blocks of a stream are fresh: they have to meet the disk before one of them can leave memory."""
        self._probe(side, is_update=False)

    def _can_supply(self, side: int) -> bool:
        """Whether a stream yields memory to the other one (Eq. 5.1)."""
        recent = self.recent[side]
        is_faster = self.arrivals[side] >= (1 + self.settings.rho) * self.arrivals[1 - side]
        return is_faster and len(recent) > self.settings.n_least and recent.n_flushed + recent.n_stale > 0

    def _bypass(self, side: int) -> bool:
        """Moves the oldest stale block to where it is invalidated, without the disk; whether that can be."""
        if len(self.store.disks[side]) or len(self.invalidation[side]) >= self.settings.n_invalidation:
            return False
        block = self.recent[side].pop_oldest_stale(self.store.memory.numbers)
        self.store.memory.move(side, block, INVALIDATION)
        self.invalidation[side].append(block)
        self.n_bypassed += 1
        return True

    def _probe_in_turn(self, side: int) -> None:
        """The probe for which there are enough fresh blocks, with an update once in an epoch."""
        self._n_since_update[side] += self.recent[side].n_fresh * self.settings.block_rows
        is_update = self._n_since_update[side] >= self.settings.epoch
        if is_update:
            self._n_since_update[side] = 0
        self._probe(side, is_update)

    def _probe(self, side: int, is_update: bool) -> None:
        self.store.probe(side, self._fresh(side), is_update)
        self._fresh_log[side].clear()
        self.recent[side].make_stale()

    def _fresh(self, side: int) -> FreshRows:
        """The rows of a stream that have been joined, but not probed."""
        bounds = self.store.probed[side], int(self.store.seqs[side])
        log = np.array(self._fresh_log[side], np.int64).reshape(-1, 3)
        return fresh_rows(bounds, self.settings.n_part, *log.T)

    def _use_idle_time(self, next_us: float) -> None:
        """Nothing waits until then: a stream is probed (§5.4.1)."""
        self.clock.wait_until(float(self._due[0]))
        side = self._idle_side()
        if self.recent[side].n_fresh and len(self.store.disks[1 - side]):
            self._probe_in_turn(side)
            next_us = self.clock.now_us
        self._due[0] = max(next_us, self.clock.now_us + self.settings.gap_us)

    def _idle_side(self) -> int:
        """The stream with more fresh blocks."""
        return int(self.recent[1].n_fresh > self.recent[0].n_fresh)

    def _count_arrival(self, side: int) -> None:
        """Counts a block, and decays the counts of both streams as time goes by."""
        now_us, epoch_us = self.clock.now_us, self.settings.epoch_us
        if self._decay_us is None:
            self._decay_us = now_us + epoch_us
        if now_us >= self._decay_us:
            n_epochs = int((now_us - self._decay_us) // epoch_us) + 1
            self.arrivals = [each * self.settings.alpha**n_epochs for each in self.arrivals]
            self._decay_us += n_epochs * epoch_us
        self.arrivals[side] += 1

    def _invalidate_if_due(self) -> None:
        """Windows slide: what has ended leaves; the oldest of the disk takes its place, a basic window at a time."""
        if self._sure_us < self._slid_us + self.settings.slide_us:
            return
        self._slid_us = self._sure_us
        for side in (0, 1):
            self._drop_ended(side)
            while n_ready := self._n_ready(side):
                grace_us = self.settings.slide_us
                blocks = self.store.invalidate(side, n_ready, self._fresh(1 - side), grace_us)
                self.invalidation[side] += blocks.tolist()
                self._drop_ended(side)

    def _drop_ended(self, side: int) -> None:
        """Blocks go that have ended, also for the rows that wait in open heads of the other stream to be joined."""
        memory, blocks = self.store.memory, np.array(self.invalidation[side], np.int64)
        has_ended = memory.last_end[blocks] <= self._first_waiting(1 - side)[memory.heads.buckets[blocks]]
        for block in blocks[has_ended].tolist():
            self.clock.log.counters[REMOVED] += memory.size(block)
            self.store.drop(side, block)
        self.invalidation[side] = blocks[~has_ended].tolist()

    def _first_waiting(self, side: int) -> np.ndarray:
        """For each bucket of a stream the least time of a row that is yet to be joined."""
        frames, memory = np.maximum(self._open_frames[side], 0), self.store.memory.frames
        is_waiting = (self._open_frames[side] >= 0) & (memory.n_rows[frames] > self._joined[side])
        joined = np.minimum(self._joined[side], self.settings.block_rows - 1)
        times = np.minimum(memory.records[frames, joined, TS], self._sure_us)
        return np.where(is_waiting, times, self._sure_us)

    def _n_ready(self, side: int) -> int:
        """How many blocks are read from disk to be invalidated; none while there is no room for a basic window."""
        n_free = self.settings.n_invalidation - len(self.invalidation[side])
        chunk = min(self.settings.basic_window, self.settings.n_invalidation)
        return self.store.n_ready(side, chunk, self._sure_us) if n_free >= chunk else 0


def _shape(settings: AhEwjSettings) -> StoreShape:
    n_fixed = 2 * (settings.n_frequent + settings.n_invalidation)
    return StoreShape(
        n_frames=settings.n_recent + n_fixed,
        block_rows=settings.block_rows,
        n_buckets=settings.n_part,
        n_frequent=settings.n_frequent,
        basic_window=settings.basic_window,
        alpha=settings.alpha,
        relative_lead=settings.rho,
    )
