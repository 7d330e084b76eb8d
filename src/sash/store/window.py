"""The tuples of one input while they can still join: a log of blocks, and the arrays that indexes over it work with.

The log is the truth; the arrays beside its rows are rebuilt from it. A tuple is dead once its end has passed the clock:
no tuple that can still arrive overlaps it. Blocks are cut by the time their tuples expire, so that they die whole and
at most `1 / CUTS` of a window lies dead in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels.hash_join import END, NEXT, RECORD_WIDTH
from sash.kernels.hash_join import EXPIRES as EXPIRY
from sash.kernels.hash_join import TS as TIME
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, TS, int64_column
from sash.store.block_log import Block, BlockLog
from sash.store.vector import Home, Memory, Vector

CUTS = 8
MAX_CUTS_PER_BATCH = 64
FIRST_ROWS = 1024
MAX_GAPS = 8
MAX_BLOCK_ROWS = 1 << 18

KeyOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The 64-bit key of every tuple of a batch. Called again on the same tuples when the arrays are rebuilt."""


class Window:
    """Tuples of one input, by row: numbers that grow in order of arrival."""

    def __init__(self, schema: pa.Schema, key_of: KeyOf, window_us: int | None, home: Home | None = None):
        """`window_us` is the longest life of a tuple if there is one."""
        self.home = home or Memory()
        self.log = BlockLog(schema, self.home)
        self.n_rebuilds = 0
        """How often rows have got new numbers."""
        self.n_evicted = 0
        """Tuples that have left, so far."""
        self.clock = BEGINNING
        self._key_of = key_of
        self._cut_us = cut_length(window_us)
        self._id_columns = [name for name in schema.names if name.startswith(ID_PREFIX)]
        self._spans: dict[int, tuple[int, int]] = {}
        self._keys = Vector(np.int64, self.home, capacity=FIRST_ROWS)
        self._records = Vector(np.int64, self.home, RECORD_WIDTH, FIRST_ROWS)
        self._ids = Vector(np.int64, self.home, len(self._id_columns)) if self._id_columns else None

    def insert(self, batch: pa.Table, clock: int) -> None:
        """Adds tuples. Those that will be dead at `clock`, the clock after this step, are not put into the log."""
        if batch.num_rows:
            for part, is_kept in self._cut(batch, clock):
                self._note(self.log.append(part, is_kept), part)

    def evict(self, clock: int, retired: np.ndarray) -> None:
        """Forgets what is dead at `clock`: the retired rows, and every block whose tuples have all expired."""
        n_before = self.log.n_rows
        if len(retired):
            self.log.delete(retired)
        self.log.drop([block for block in self.log.blocks if self._spans[block.first][1] <= clock + 1])
        self._spans = {block.first: self._spans[block.first] for block in self.log.blocks}
        self.clock = clock
        self.n_evicted += n_before - self.log.n_rows
        if self.log.is_sparse or self._has_gaps:
            self.log.compact(lambda rows: (part for part, is_kept in self._cut(rows, clock) if is_kept))
            self._rebuild()
        else:
            self.log.trim(self._keys, self._records, *([] if self._ids is None else [self._ids]))

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int) -> None:
        """Becomes the window that the log's entries describe."""
        self.log.restore(entries, next_number)
        self.clock = clock
        self._rebuild()

    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_ts`, `_expires` and end of the given rows."""
        at = rows - self.base
        return self.ts[at], self.records[at, EXPIRY], self.ends[at]

    @property
    def base(self) -> int:
        """The row that the arrays start with."""
        return self.log.rows.base

    @property
    def floor(self) -> int:
        """Rows below this number are gone."""
        return self.log.base

    @property
    def next_row(self) -> int:
        return self.log.next_row

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows from `base` on."""
        return self._keys.array

    @property
    def records(self) -> np.ndarray:
        """What is looked at of a row to join it, side by side; from `base` on."""
        return self._records.array

    @property
    def ts(self) -> np.ndarray:
        """When tuples come, from `base` on."""
        return self.records[:, TIME]

    @property
    def ends(self) -> np.ndarray:
        """When tuples leave: at their `_expires`, or when they were taken back; from `base` on."""
        return self.records[:, END]

    @property
    def ids(self) -> np.ndarray | None:
        """The identities of the rows from `base` on, if they have some."""
        return None if self._ids is None else self._ids.array

    def ids_of(self, batch: pa.Table) -> np.ndarray:
        """The identities of a batch's tuples."""
        ids = np.empty((batch.num_rows, len(self._id_columns)), np.int64)
        for column, name in enumerate(self._id_columns):
            ids[:, column] = int64_column(batch, name)
        return ids

    @property
    def _has_gaps(self) -> bool:
        """Whether the arrays are mostly room for rows that are gone, kept apart by a few that stay."""
        return self.log.next_row - self.log.base > MAX_GAPS * self.log.n_rows + FIRST_ROWS

    def _cut(self, batch: pa.Table, clock: int) -> Iterator[tuple[pa.Table, bool]]:
        """The batch as blocks: what dies within this step, then slices of the time of expiry."""
        if self._cut_us is not None:
            lives = int64_column(batch, EXPIRES) > clock + 1
            if not lives.all():
                yield batch.filter(pa.array(~lives)), False
                batch = batch.filter(pa.array(lives))
        yield from ((part, True) for part in sliced_by_expiry(batch, self._cut_us))

    def _note(self, block: Block, tuples: pa.Table) -> None:
        """Puts a block's tuples into the arrays."""
        at = block.first - self.base
        expires = int64_column(tuples, EXPIRES)
        self._keys.write(at, self._key_of(tuples))
        self._records.reserve(at + block.n_rows)
        records = self._records.array[at : at + block.n_rows]
        records[:, NEXT] = -1
        records[:, TIME] = int64_column(tuples, TS)
        records[:, EXPIRY] = expires
        records[:, END] = np.where(self.log.is_dead(block), BEGINNING, expires) if block.n_dead else expires
        if self._ids is not None:
            self._ids.write(at, self.ids_of(tuples))
        self._spans[block.first] = int(expires.min()), int(expires.max())

    def _rebuild(self) -> None:
        self.n_rebuilds += 1
        self._spans = {}
        for vector in (self._keys, self._records, *([] if self._ids is None else [self._ids])):
            vector.resize(max(self.log.n_rows, FIRST_ROWS))
        for block in self.log.blocks:
            self._note(block, self.log.read(block))
            self.home.relax()


def cut_length(window_us: int | None) -> int | None:
    """How long a time of expiry a block of a window covers; None if tuples do not expire."""
    return max(1, window_us // CUTS) if window_us else None


def sliced_by_expiry(batch: pa.Table, cut_us: int | None) -> Iterator[pa.Table]:
    """The batch as blocks that die whole, or nearly so: slices of the time of expiry, of bounded size."""
    if cut_us is None or not batch.num_rows:
        yield from _bounded(batch)
        return
    expires = int64_column(batch, EXPIRES)
    span = int(expires.max()) - int(expires.min())
    slices = expires // max(cut_us, span // MAX_CUTS_PER_BATCH + 1)
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
