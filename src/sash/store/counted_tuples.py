"""The tuples of a window of rows, in total order: whoever came first leaves first.

    rows     oldest ──────────────────────────────── newest
             x x x ▏▏▏▏   segment    segment    head
             have left

Only the oldest are ever looked at again, so where memory is limited the window may be on disk: each segment is read
from one end to the other, and removed as a file when its last tuple has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sash.store.block import Block
from sash.store.segment import WindowSegment
from sash.store.timed_log import TimedLog
from sash.store.vector import Arena


class CountedTuples(TimedLog):
    """Tuples in a log, in total order."""

    def __init__(self, schema: pa.Schema, arena: Arena, may_seal: bool):
        """`may_seal`: whether they leave in the order in which they came."""
        super().__init__(schema, arena)
        self._may_seal = may_seal
        self._offsets: dict[int, int] = {}
        """By the first row of a sealed block, its place in the segment."""

    @property
    def n_alive(self) -> int:
        """How many are in the window."""
        return sum(block.n_alive for block in self.log.blocks)

    def oldest(self, n_rows: int) -> np.ndarray:
        """The numbers of so many, in total order."""
        found: list[np.ndarray] = [np.empty(0, np.int64)]
        for block in self.log.blocks:
            if n_rows <= 0:
                break
            alive = np.flatnonzero(~self.log.is_dead(block))[:n_rows]
            found.append(alive + self._first_of(block))
            n_rows -= len(alive)
        return np.concatenate(found)

    def change(self, entering: pa.Table, leaving: np.ndarray) -> None:
        """Adds tuples, and takes out those with these numbers."""
        if len(leaving):
            self.log.delete(leaving)
        if entering.num_rows:
            self.make_room(entering.nbytes)
            self.log.append(entering)
        if self.log.is_sparse:
            self.log.compact()
        self.log.trim()
        self._offsets = {block.first: self._offsets[block.first] for block in self._sealed}

    def make_room(self, n_bytes: int = 0) -> None:
        """As ever, if they may leave memory."""
        if self._may_seal:
            super().make_room(n_bytes)

    def restore(self, entries: Mapping[str, bytes], next_number: int) -> None:
        """Becomes what the log's entries describe. They are sealed as they come in if they are too many."""
        self._offsets = {}
        self.log.restore(entries, next_number, see=lambda block: self.make_room(block.n_bytes))

    @property
    def _sealed(self) -> list[Block]:
        return [block for block in self.log.blocks if block.segment is not None]

    def _first_of(self, block: Block) -> int:
        """The number of its first row, wherever it is."""
        return block.first if block.segment is None else block.segment.first + self._offsets[block.first]

    def _note_sealed(self, segment: WindowSegment, blocks: Sequence[Block], times: np.ndarray) -> None:
        """They are in order of time, so rows lie there as they lay in the log."""
        ends = np.cumsum([block.n_rows for block in blocks])
        self._offsets |= {block.first: int(end) - block.n_rows for block, end in zip(blocks, ends, strict=True)}
