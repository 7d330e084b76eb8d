"""Exactly once: which rows of a stream have found a block of the other one in memory.

    rows of i, as processed     0 … 17 18 19 … 40 41 … 55 56 …
    block p of the other                [18        41)  [55 …        in memory, out of it, in memory again

Rows of a stream are numbered as they are processed, and of two rows that join the later one owns the pair. For every
block the ranges of the other stream's numbers are kept that were processed while it was in memory. An owner in a range
has found the block's rows there and then. All other owners that came after the block are joined with it when they are
probed. A number is in a range or not: no pair is lost, none is found twice.

Ranges that were probed since say nothing of rows to come, so a block has few. It may be forgotten when it has ended for
all rows to come, and those that came before have met it.
"""

from __future__ import annotations

import numpy as np

from sash.papers.exact.exact_kernels.disk_probe import MAX_RANGES
from sash.store.batch import NEVER


class Residence:
    """Blocks by number, and when each was in memory, in the other stream's count."""

    def __init__(self, capacity: int):
        self.born = np.zeros(capacity, np.int64)
        self.ranges = np.zeros((capacity, MAX_RANGES, 2), np.int64)
        self.n_ranges = np.zeros(capacity, np.int64)

    def resize(self, capacity: int) -> None:
        """Makes room for more blocks."""
        n_more = capacity - len(self.born)
        self.born = np.pad(self.born, (0, n_more))
        self.ranges = np.pad(self.ranges, ((0, n_more), (0, 0), (0, 0)))
        self.n_ranges = np.pad(self.n_ranges, (0, n_more))

    def begin(self, block: int, seq: int) -> None:
        """A block is new, and in memory from the other stream's row `seq` on."""
        self.born[block] = seq
        self.n_ranges[block] = 1
        self.ranges[block, 0] = seq, NEVER

    def leave(self, block: int, seq: int) -> None:
        """It leaves memory; the row `seq` is the first that does not find it there."""
        assert self.is_in(block)
        self.ranges[block, self.n_ranges[block] - 1, 1] = seq

    def enter(self, block: int, seq: int, probed: int) -> None:
        """It is in memory again, from row `seq` on; all rows below `probed` have met it, wherever it was."""
        assert not self.is_in(block)
        n_ranges = self.n_ranges[block]
        kept = [each for each in self.ranges[block, :n_ranges].tolist() if each[1] > probed]
        assert len(kept) < MAX_RANGES, "a block has been in and out too often since the last probe"
        self.ranges[block, : len(kept) + 1] = [*kept, [seq, NEVER]]
        self.n_ranges[block] = len(kept) + 1

    def is_in(self, block: int) -> bool:
        """Whether it is in memory."""
        n_ranges = self.n_ranges[block]
        return bool(n_ranges) and self.ranges[block, n_ranges - 1, 1] == NEVER

    def found(self, block: int, seq: int) -> bool:
        """Whether a row found it in memory; asked of rows that have not been probed."""
        return any(low <= seq < high for low, high in self.ranges[block, : self.n_ranges[block]].tolist())
