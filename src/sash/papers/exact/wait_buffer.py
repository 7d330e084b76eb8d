"""The wait buffer of PartitionedJoin: one pool of blocks for the tuples of all partitions that wait (Exact, §6.3.1)."""

from __future__ import annotations

import numpy as np

from sash.papers.exact.exact_kernels import relation_frames
from sash.papers.exact.exact_kernels.relation_frames import STREAM_WIDTH, WaitLists


class WaitBuffer:
    """A list for each partition."""

    def __init__(self, n_blocks: int, block_rows: int, n_part: int):
        self.arrays = WaitLists(
            np.empty((n_blocks, block_rows, STREAM_WIDTH), np.int64),
            np.zeros(n_blocks, np.int64),
            np.full(n_blocks, -1),
            np.full(n_part, -1),
            np.full(n_part, -1),
            np.zeros(n_part, np.int64),
            np.arange(n_blocks)[::-1].copy(),
            np.array([n_blocks]),
        )

    @property
    def n_blocks(self) -> int:
        return len(self.arrays.free)

    @property
    def n_free(self) -> int:
        """Blocks that are in no list."""
        return int(self.arrays.n_free[0])

    @property
    def n_waiting(self) -> int:
        """Tuples of all lists."""
        return int(self.arrays.n_tuples.sum())

    def longest(self) -> int | None:
        """The partition for which most tuples wait, the lowest of several; None if nobody waits."""
        found = relation_frames.longest_list(self.arrays)
        return None if found < 0 else found

    def waiting_for(self, partition: int) -> np.ndarray:
        """The tuples of a list, in order of arrival."""
        parts, block = [np.empty((0, STREAM_WIDTH), np.int64)], int(self.arrays.tails[partition])
        while block >= 0:
            parts.append(self.arrays.records[block, : self.arrays.n_rows[block]])
            block = int(self.arrays.following[block])
        return np.concatenate(parts)

    def start_of(self, partition: int) -> np.ndarray:
        """Where joining a list begins, for `join_list`."""
        return np.array([self.arrays.tails[partition], relation_frames.NOWHERE_YET])

    def release(self, partition: int) -> None:
        """All tuples of a list have been joined."""
        relation_frames.release_list(partition, self.arrays)
