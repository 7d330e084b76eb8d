"""Blocks of a log, and blocks as entries of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sash.store.codec import encode_table
from sash.store.memory_budget import MemoryBudget
from sash.store.segment import WindowSegment

BLOCK_PREFIX, NOTE_PREFIX = "b", "d"


@dataclass(slots=True)
class Block:
    """Rows `first .. last - 1`; `notes` are the log entries that say which of them are dead."""

    number: int
    """In the log; -1 if the block is not kept."""
    first: int
    n_rows: int
    n_bytes: int = 0
    """Of its rows in memory."""
    notes: list[str] = field(default_factory=list)
    n_dead: int = 0
    segment: WindowSegment | None = None
    """Where its rows are once it is sealed."""
    gone: np.ndarray | None = None
    """Of a sealed block, the places of its dead rows, ascending."""

    @property
    def is_kept(self) -> bool:
        return self.number >= 0

    @property
    def last(self) -> int:
        return self.first + self.n_rows

    @property
    def n_alive(self) -> int:
        return self.n_rows - self.n_dead


class BlockEntries(Mapping[str, bytes]):
    """Blocks as entries of a store, made as they are asked for. Those of one segment are best asked for one after the
    other: it is read once for all.
    """

    def __init__(
        self, blocks: Sequence[Block], read: Callable[[Block], pa.Table], is_dead: Callable[[Block], np.ndarray]
    ):
        """`read` and `is_dead` are of the log whose blocks they are."""
        self._read_block, self._is_dead = read, is_dead
        self._blocks = {f"{BLOCK_PREFIX}{block.number}": block for block in blocks}
        self._notes = {f"{NOTE_PREFIX}{block.number}.0": block for block in blocks if block.n_dead}
        self._read: tuple[WindowSegment, np.ndarray, pa.Table] | None = None
        """The segment that was read last: the numbers that its rows had, and the rows, in their order."""

    def __getitem__(self, key: str) -> bytes:
        if key in self._notes:
            return np.flatnonzero(self._is_dead(self._notes[key])).astype(np.int64).tobytes()
        return encode_table(self._rows_of(self._blocks[key]))

    def __iter__(self) -> Iterator[str]:
        yield from self._blocks
        yield from self._notes

    def __len__(self) -> int:
        return len(self._blocks) + len(self._notes)

    def _rows_of(self, block: Block) -> pa.Table:
        if block.segment is None:
            return self._read_block(block)
        if self._read is None or self._read[0] is not block.segment:
            self._read = None  # before there is another one
            origins = block.segment.origins(np.arange(block.segment.first, block.segment.last))
            order = np.argsort(origins)
            rows = block.segment.take(block.segment.first + order)
            self._read = block.segment, origins[order], rows
        _, origins, rows = self._read
        first, last = np.searchsorted(origins, (block.first, block.last))
        return rows.slice(first, last - first)


def at_once(blocks: Iterable[Block], budget: MemoryBudget | None) -> Iterator[list[Block]]:
    """Blocks in their order, as many at a time as a step may have in memory; all where nothing limits it."""
    some, n_bytes = list[Block](), 0
    for block in blocks:
        if budget is not None and some and n_bytes + block.n_bytes > budget.step_bytes:
            yield some
            some, n_bytes = [], 0
        some.append(block)
        n_bytes += block.n_bytes
    if some:
        yield some
