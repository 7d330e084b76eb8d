"""Runs the tasks of RPWJ: memory with disk, and disk with disk by nested loops over clusters (Exact, §4.4).

    md    every cluster of `M_read` blocks of the disk is looked up in memory
    dd    for every cluster of the left disk, all of the right one, both in clusters of `M_read / 2` blocks: their order
          must stay, so there is no sorting

Comparisons are counted of blocks that have not met as a whole, as nested loops would make them; pairs are found by key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.papers.exact.block_memory import BlockMemory
from sash.papers.exact.exact_kernels import block_frames, progressive_runs
from sash.papers.exact.exact_kernels.block_frames import COMPARED, PER_COMPARISON
from sash.papers.exact.exact_kernels.disk_probe import ReadBlocks
from sash.papers.exact.exact_kernels.progressive_runs import DONE, NO_ROOM, ClusterBlocks, DiskTimes, KeyChains
from sash.papers.exact.partition_runs import Cluster, PartitionRuns
from sash.papers.exact.work_clock import PairBuffer, WorkClock


class TaskJoiner:
    """Joins parts of partitions that have not met."""

    def __init__(self, memory: BlockMemory, clock: WorkClock, found: PairBuffer, m_read: int):
        self._memory, self._clock, self._found, self._m_read = memory, clock, found, m_read

    def join_memory(self, side: int, blocks: np.ndarray, runs: PartitionRuns, last_task: int) -> None:
        """The memory of a stream's partition with the other one's disk.

        `blocks` are those of memory: when the last row of each arrived, and its size; `last_task` is when they were
        joined with the disk before.
        """
        for cluster in runs.clusters(self._m_read):
            self._compare(*self._count(blocks, cluster, last_task))
            read, reason = _read(cluster), NO_ROOM
            while reason != DONE:
                state = self._memory.frames, self._memory.heads, self._clock.log, self._found.room
                reason = progressive_runs.join_memory(side, read, cluster.dts, last_task, *state)
                if reason == NO_ROOM:
                    self._found.make_room()

    def join_disks(
        self,
        runs: tuple[PartitionRuns, PartitionRuns],
        task_times: Sequence[Sequence[int]],
        last: np.ndarray,
        last_ats: np.ndarray,
    ) -> None:
        """Both disks of a partition. `last` is what the last such task has seen of each, `last_ats` when the last row
        of each block arrived.
        """
        half, tasks = max(1, self._m_read // 2), [np.array(times, np.int64) for times in task_times]
        for outer in runs[0].clusters(half):
            chains = self._chain(outer)
            for inner in runs[1].clusters(half):
                times = DiskTimes(outer.dts, inner.dts, tasks[0], tasks[1], last)
                sizes = self._memory.heads.sizes
                one, other = (ClusterBlocks(sizes[each.blocks], last_ats[each.blocks]) for each in (outer, inner))
                self._compare(*progressive_runs.count_new(one, other, times))
                self._join_clusters(outer, chains, inner, times)

    def _join_clusters(self, outer: Cluster, chains: KeyChains, inner: Cluster, times: DiskTimes) -> None:
        reads, reason = (_read(outer), _read(inner)), NO_ROOM
        while reason != DONE:
            state = times, self._memory.heads, self._clock.log, self._found.room
            reason = progressive_runs.join_disks(reads[0], chains, reads[1], *state)
            if reason == NO_ROOM:
                self._found.make_room()

    def _count(self, blocks: np.ndarray, cluster: Cluster, last_task: int) -> tuple[int, int]:
        """How many pairs of rows of memory and disk a cluster makes compare, and how many rows are gone over for it."""
        sizes, n_compared, n_scanned = self._memory.heads.sizes, 0, 0
        last_ats, n_rows = blocks.T
        are_met = np.zeros(len(blocks), bool)
        for dts in np.unique(cluster.dts).tolist():
            is_new = (dts < last_ats) & ~((last_task > last_ats) & (dts < last_task))
            n_read = int(sizes[cluster.blocks[cluster.dts == dts]].sum())
            n_compared += int(n_rows[is_new].sum()) * n_read
            n_scanned += n_read if is_new.any() else 0
            are_met |= is_new
        return n_compared, n_scanned + int(n_rows[are_met].sum())

    def _chain(self, cluster: Cluster) -> KeyChains:
        n_slots = len(cluster.blocks) * self._memory.block_rows
        chains = KeyChains(np.empty(1 << max(4, n_slots.bit_length()), np.int64), np.empty(n_slots, np.int64))
        progressive_runs.chain_cluster(cluster.records, cluster.blocks, self._memory.heads, chains)
        return chains

    def _compare(self, n_pairs: int, n_scanned: int) -> None:
        self._clock.log.counters[COMPARED] += n_pairs
        block_frames.charge(self._clock.log, PER_COMPARISON, n_pairs)
        block_frames.scan(self._clock.log, n_scanned)


def _read(cluster: Cluster) -> ReadBlocks:
    return ReadBlocks(cluster.records, cluster.blocks, np.zeros(3, np.int64))
