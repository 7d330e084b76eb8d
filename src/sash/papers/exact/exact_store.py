"""What EWJ and AH-EWJ have in common: memory, a disk segment and frequent blocks per stream, and the disk probe.

    DISKPROBE(i)     one sequential pass over the disk of the other stream. Each block is decided on once: it meets the
                     fresh rows of i that came after it and did not find it in memory, and then may become frequent.
    invalidation     the oldest blocks move from disk to memory. On the way they meet the fresh rows that have not met
                     them: a block that is neither on disk when those are probed nor was in memory when they came would
                     be missed. A copy among the frequent blocks becomes the block itself.

What is on disk is read through the disk alone, so that its counts are those of the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sash.papers.exact.block_memory import BlockMemory
from sash.papers.exact.disk_segment import DiskSegment
from sash.papers.exact.exact_kernels import disk_probe
from sash.papers.exact.exact_kernels.block_frames import COMPARED, END, FREQUENT, INVALIDATION, LATE, NOWHERE
from sash.papers.exact.exact_kernels.disk_probe import BLOCK, FreshRows, ReadBlocks
from sash.papers.exact.frequent_blocks import FrequentBlocks
from sash.papers.exact.work_clock import PairBuffer, WorkClock
from sash.store.block_disk import BlockDisk


@dataclass(frozen=True, slots=True)
class StoreShape:
    """How large a store is, in blocks, and how it chooses what is frequent."""

    n_frames: int
    block_rows: int
    n_buckets: int
    n_frequent: int
    """Of each stream."""
    basic_window: int
    alpha: float
    """What is left of productivities after an update."""
    lead: float = 0.0
    """By how much a block must be more productive than the one whose place it takes; and by which part of that:"""
    relative_lead: float = 0.0


class ExactStore:
    """Blocks of both streams. The memory and the disk of a stream are found at its side."""

    def __init__(self, shape: StoreShape, disks: Sequence[BlockDisk], clock: WorkClock):
        self.clock = clock
        self.memory = BlockMemory(shape.n_frames, shape.block_rows, shape.n_buckets)
        self.disks = [DiskSegment(disk, shape.basic_window, clock.wait_for_disk) for disk in disks]
        self.frequent = [FrequentBlocks(shape.n_frequent, shape.lead, shape.relative_lead) for _ in range(2)]
        self.evicted: list[int] = []
        """E: what was thrown out of the frequent blocks by the last probe."""
        self.found = PairBuffer()
        self.seqs = np.zeros(2, np.int64)
        """How many rows of each stream have been processed."""
        self.probed = [0, 0]
        """Rows below this number have met all of the other stream's disk."""
        self.n_probes = self.n_updates = 0
        self.is_silent = False
        """Whether all pairs are known: nothing is compared."""
        self._shape = shape

    def probe(self, side: int, fresh: FreshRows, is_update: bool) -> None:
        """All fresh rows of a stream meet the disk of the other one; `is_update`: which may change what is frequent."""
        other = 1 - side
        self.evicted = []
        if len(self.disks[other]) and not self.is_silent:
            self.n_probes += 1
            self.n_updates += is_update
            for blocks, records in self.disks[other].scan():
                self._pass(side, blocks, records, fresh, is_update)
        self.probed[side] = int(self.seqs[side])
        if is_update:
            blocks = np.union1d(self.disks[other].blocks, self.frequent[other].blocks)
            self.memory.decay(other, blocks, self._shape.alpha)

    def dump(self, side: int, blocks: Sequence[int]) -> None:
        """Writes blocks of memory to disk; they stay in memory."""
        self.disks[side].append(blocks, self.memory.records(list(blocks)))
        self.memory.is_on_disk[list(blocks)] = True

    def invalidate(self, side: int, n_blocks: int, fresh: FreshRows, grace_us: int = 0) -> np.ndarray:
        """Moves the oldest blocks of a stream from disk to memory, as many as are asked for or as are adjacent.

        `fresh` are the other stream's rows. A row that has ended longer than `grace_us` ago is late.
        """
        blocks, records = self.disks[side].take(n_blocks)
        if not self.is_silent:
            self._pass(1 - side, blocks, records, fresh, is_update=False)
        for place, block in enumerate(blocks.tolist()):
            rows = records[place, : self.memory.size(block)]
            self.clock.log.counters[LATE] += np.count_nonzero(rows[:, END] + grace_us < self.clock.now_us)
            self.memory.is_on_disk[block] = False
            if self.memory.is_frequent(block):
                self.frequent[side].remove(block)
                self.memory.move(side, block, INVALIDATION)
            else:
                self.memory.load(side, block, records[place], INVALIDATION)
                self.memory.residence.enter(block, int(self.seqs[1 - side]), self.probed[1 - side])
        return blocks

    def n_ready(self, side: int, chunk: int, sure_us: int) -> int:
        """How many blocks can move from disk to memory: a chunk of them, or fewer if no more are adjacent, or if they
        have ended for all rows after `sure_us`. A block that is still among the recent ones stays on disk.
        """
        blocks = self.disks[side].oldest(chunk)
        are_recent = self.memory.are_recent(blocks)
        n_ready = int(np.argmax(are_recent)) if are_recent.any() else len(blocks)
        is_whole = n_ready == len(blocks) and n_ready < len(self.disks[side])
        has_ended = bool(n_ready) and self.memory.last_end[blocks[0]] <= sure_us
        return n_ready if n_ready == chunk or is_whole or has_ended else 0

    def drop(self, side: int, block: int, first: int = 0) -> None:
        """A block leaves memory, of which rows below `first` have left before. If it is not on disk, it is gone."""
        self.memory.drop(side, block, first)
        self.memory.residence.leave(block, int(self.seqs[1 - side]))
        if not self.memory.is_on_disk[block]:
            self.memory.forget(block)

    def is_more_productive(self, side: int, block: int) -> bool:
        """Whether a block should be frequent rather than the least productive one that is."""
        return float(self.memory.productivity[block]) > self.frequent[side].bar(self.memory.productivity)

    def make_frequent(self, side: int, block: int) -> None:
        """A block of the recent segment becomes a frequent one, without leaving memory."""
        self._clear_place(side)
        self.memory.move(side, block, FREQUENT)
        self.frequent[side].add(block)

    @property
    def n_compared(self) -> int:
        return int(self.clock.log.counters[COMPARED])

    def _pass(self, side: int, blocks: np.ndarray, records: np.ndarray, fresh: FreshRows, is_update: bool) -> None:
        """Joins blocks of the other stream that were read with fresh rows of `side`."""
        other, memory = 1 - side, self.memory
        read = ReadBlocks(records, blocks, np.array([0, 0, 0, -1]))
        frequent = self.frequent[other]
        offer = np.array([frequent.bar(memory.productivity) if is_update else np.inf])
        while True:
            state = memory.frames, memory.heads, fresh, offer, self.clock.log, self.found.room
            reason = disk_probe.probe(side, read, *state)
            if reason == disk_probe.DONE:
                return
            if reason == disk_probe.NO_ROOM:
                self.found.make_room()
                continue
            self._admit(other, int(blocks[read.at[BLOCK]]), records[read.at[BLOCK]])
            offer[0] = frequent.bar(memory.productivity)
            read.at[:3] = read.at[BLOCK] + 1, 0, 0

    def _admit(self, side: int, block: int, records: np.ndarray) -> None:
        """A block that was read becomes a frequent one."""
        if self.memory.place(block) != NOWHERE:
            return
        self._clear_place(side)
        self.memory.load(side, block, records, FREQUENT)
        self.memory.residence.enter(block, int(self.seqs[1 - side]), self.probed[1 - side])
        self.frequent[side].add(block)

    def _clear_place(self, side: int) -> None:
        """Throws out the least productive frequent block if all places are taken."""
        if self.frequent[side].is_full:
            least = self.frequent[side].pop_least(self.memory.productivity)
            self.drop(side, least)
            self.evicted.append(least)


def fresh_rows(
    bounds: tuple[int, int], n_buckets: int, buckets: np.ndarray, seqs: np.ndarray, sizes: np.ndarray
) -> FreshRows:
    """Fresh rows, from one number up to another: so many rows (`sizes`) of a bucket share a number."""
    order = np.lexsort((seqs, buckets))
    starts = np.searchsorted(buckets[order], np.arange(n_buckets + 1))
    n_before = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
    return FreshRows(np.array(bounds), starts, seqs[order], n_before)
