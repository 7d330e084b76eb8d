"""Tuples of one input in blocks that die whole: the log of a window, whatever arrays stand beside its rows.

The log is the truth; the arrays are rebuilt from it. A tuple is dead once its end has passed the clock. Blocks are cut
by the end of their tuples, so that at most `1 / CUTS` of a window lies dead in the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sash.errors import ResourceError
from sash.store.batch import BEGINNING, EXPIRES, int64_column
from sash.store.block import Block
from sash.store.block_log import Adapt, BlockLog, as_it_is
from sash.store.memory_budget import MemoryBudget
from sash.store.vector import Arena, Memory, Vector

CUTS = 8
MAX_CUTS_PER_BATCH = 64
FIRST_ROWS = 1024
MAX_GAPS = 8
MAX_BLOCK_ROWS = 1 << 18
NO_ROWS = np.empty(0, np.int64)


class BlockWindow(ABC):
    """Tuples by row: numbers that grow in order of arrival."""

    def __init__(
        self,
        schema: pa.Schema,
        span_us: int | None,
        arena: Arena | None = None,
        end: str = EXPIRES,
        may_seal: bool = False,
    ):
        """`end` is the column that tells when a tuple is dead: once the clock has passed it. `span_us` is about how
        long it lies ahead, None if tuples do not die by the clock. `may_seal`: whether its owner looks for tuples on
        disk as well, so that they may leave memory where it is limited.
        """
        self.arena = arena or Memory()
        self.may_seal = may_seal and self.arena.budget is not None
        self.log = BlockLog(schema, self.arena)
        self.n_rebuilds: int = 0
        """How often rows have got new numbers."""
        self.n_evicted = 0
        """Tuples that have left, so far."""
        self.clock = BEGINNING
        self._end = end
        self._cut_us = cut_length(span_us)
        self._spans: dict[int, tuple[int, int]] = {}

    def insert(self, batch: pa.Table, clock: int) -> None:
        """Adds tuples. Those that will be dead at `clock`, the clock after this step, are not put into the log."""
        if batch.num_rows:
            for part, is_kept in self._cut(batch, clock):
                self._note(self.log.append(part, is_kept), part)

    def evict(self, clock: int, retracted: np.ndarray = NO_ROWS) -> None:
        """Forgets what is dead at `clock`: the retracted rows, and every block whose tuples have all ended."""
        n_before = self.log.n_rows
        if len(retracted):
            self.log.delete(retracted)
        self.log.drop([block for block in self.log.blocks if self._spans[block.first][1] <= clock + 1])
        self._spans = {block.first: self._spans[block.first] for block in self.log.blocks}
        self.clock = clock
        self.n_evicted += n_before - self.log.n_rows
        if self.log.is_sparse or self._has_gaps:
            self.log.compact(lambda rows: (part for part, is_kept in self._cut(rows, clock) if is_kept))
            self._rebuild()
        else:
            self.log.trim(*self._vectors())

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int, adapt: Adapt = as_it_is) -> None:
        """Becomes the window that the log's entries describe; `adapt` makes tuples of them that were kept otherwise."""
        self.clock = clock
        self._begin_anew()
        self._spans = {}
        self.log.restore(entries, next_number, adapt, self._see_restored)

    @property
    def base(self) -> int:
        """The row that the arrays start with."""
        return self.log.rows.base

    @property
    def floor(self) -> int:
        """Rows below this number are not in memory: they are gone, or sealed."""
        return self.log.base

    @property
    def next_row(self) -> int:
        return self.log.next_row

    def are_in_memory(self, rows: np.ndarray) -> bool:
        """Whether all of these rows are in the arrays."""
        return not self.log.segments or not len(rows) or rows.min() >= self.base

    @abstractmethod
    def seal(self, n_rows: int) -> None:
        """Moves the oldest tuples of the head to disk: whole blocks, until there are so many."""

    @abstractmethod
    def _vectors(self) -> list[Vector]:
        """The arrays beside the rows."""

    @abstractmethod
    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
        """Puts a block's tuples into the arrays, from `at` on."""

    @property
    def _has_gaps(self) -> bool:
        """Whether the arrays are mostly room for rows that are gone, kept apart by a few that stay."""
        return self.log.next_row - self.log.base > MAX_GAPS * self.log.n_head_rows + FIRST_ROWS

    def _cut(self, batch: pa.Table, clock: int) -> Iterator[tuple[pa.Table, bool]]:
        """The batch as blocks: what dies within this step, then slices of the time of their end."""
        if self._cut_us is not None:
            lives = int64_column(batch, self._end) > clock + 1
            if not lives.all():
                yield batch.filter(pa.array(~lives)), False
                batch = batch.filter(pa.array(lives))
        yield from ((part, True) for part in sliced_by_end(batch, self._cut_us, self._end))

    def _note(self, block: Block, tuples: pa.Table) -> None:
        self._write(block.first - self.base, block, tuples)
        ends = int64_column(tuples, self._end)
        self._spans[block.first] = int(ends.min()), int(ends.max())

    def _rebuild(self) -> None:
        """Fills the arrays anew with the rows in memory."""
        self._begin_anew()
        for block in self.log.head:
            self._see(block)
            self.arena.release_pages()

    def _begin_anew(self) -> None:
        self.n_rebuilds += 1
        sealed = {block.first for block in self.log.blocks if block.segment is not None}
        self._spans = {first: span for first, span in self._spans.items() if first in sealed}
        for vector in self._vectors():
            vector.resize(max(self.log.n_head_rows, FIRST_ROWS))

    def _see(self, block: Block) -> None:
        """A block whose rows are in memory, but not yet in the arrays."""
        self._note(block, self.log.read(block))

    def _see_restored(self, block: Block) -> None:
        """The newest block so far of a log that is being restored. If memory is short, all go to disk."""
        self._see(block)
        budget = self.arena.budget
        if self.may_seal and budget is not None and budget.is_filled_by(budget.n_state_bytes):
            self._seal_again(budget)

    def _seal_again(self, budget: MemoryBudget) -> None:
        """Seals all, between steps: if the disk is full, whoever begins the next one is told."""
        try:
            self.seal(self.log.n_head_rows)
        except ResourceError as error:
            budget.refused = error


def cut_length(span_us: int | None) -> int | None:
    """How long a time of their end a block of a window covers; None if tuples do not expire."""
    return max(1, span_us // CUTS) if span_us else None


def sliced_by_end(batch: pa.Table, cut_us: int | None, end: str = EXPIRES) -> Iterator[pa.Table]:
    """The batch as blocks that die whole, or nearly so: slices of the time of their end, of bounded size."""
    if cut_us is None or not batch.num_rows:
        yield from _bounded(batch)
        return
    ends = int64_column(batch, end)
    span = int(ends.max()) - int(ends.min())
    slices = ends // max(cut_us, span // MAX_CUTS_PER_BATCH + 1)
    if np.any(slices[1:] < slices[:-1]):
        order = np.argsort(slices, kind="stable")
        batch, slices = batch.take(pa.array(order)), slices[order]
    bounds = [0, *(np.flatnonzero(slices[1:] != slices[:-1]) + 1).tolist(), len(slices)]
    for low, high in pairwise(bounds):
        yield from _bounded(batch.slice(low, high - low))


def _bounded(batch: pa.Table) -> Iterator[pa.Table]:
    """The batch in parts that are not too large for one entry of a store."""
    for start in range(0, batch.num_rows, MAX_BLOCK_ROWS):
        yield batch.slice(start, MAX_BLOCK_ROWS)
