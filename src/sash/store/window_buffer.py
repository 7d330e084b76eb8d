"""The window buffer of one input: a log of blocks, and the circular buckets that find its tuples by key.

The log is the truth; the arrays beside its rows and the buckets are rebuilt from it. A tuple is dead once its end has
passed the clock: no tuple that can still arrive overlaps it. Blocks are cut by the time their tuples expire, so that
they die whole and at most `1 / CUTS` of a window lies dead in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels import circular_buckets
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, NEVER, TS, int64_column
from sash.store.block_log import Block, BlockLog
from sash.store.vector import Home, Memory, Vector

CUTS = 8
MAX_CUTS_PER_BATCH = 64
FIRST_BUCKETS = 1024
PAIRS_PER_PROBE = 1 << 20
MAX_GAPS = 8
MAX_SLACK = 8
MAX_BLOCK_ROWS = 1 << 18

KeyOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The 64-bit key of every tuple of a batch. Called again on the same tuples when the buffer is rebuilt."""


class WindowBuffer:
    """Tuples of one input while they can still join, found by key."""

    def __init__(
        self,
        schema: pa.Schema,
        key_of: KeyOf,
        window_us: int | None,
        n_buckets: int | None = None,
        home: Home | None = None,
    ):
        """`window_us` is the longest life of a tuple if there is one; `n_buckets` fixes their number (WNL: 1)."""
        home = home or Memory()
        self.log = BlockLog(schema, home)
        self.n_scanned = 0
        self.n_rebuilds = 0
        """How often rows have got new numbers."""
        self._home = home
        self._key_of = key_of
        self._cut_us = cut_length(window_us)
        self._fixed_buckets = n_buckets
        self._id_columns = [name for name in schema.names if name.startswith(ID_PREFIX)]
        self._clock = BEGINNING
        self._spans: dict[int, tuple[int, int]] = {}
        self._keys, self._ends = (Vector(np.int64, home, capacity=FIRST_BUCKETS) for _ in range(2))
        self._ids = Vector(np.int64, home, len(self._id_columns)) if self._id_columns else None
        self._heads = Vector(np.int64, home, circular_buckets.HEAD_WIDTH)
        self._slots = Vector(np.int64, home)
        self._empty_buckets(n_buckets or FIRST_BUCKETS)

    def insert(self, batch: pa.Table, clock: int) -> None:
        """Adds tuples. Those that will be dead at `clock`, the clock after this step, are not put into the log."""
        if not batch.num_rows:
            return
        for part, is_kept in self._cut(batch, clock):
            self._index(self.log.append(part, is_kept), part)

    def retire(self, batch: pa.Table, keys: np.ndarray) -> np.ndarray:
        """Ends the tuples with the same keys and identities at the batch's `_ts`. Returns their rows."""
        rows = np.empty(batch.num_rows, np.int64)
        ids = np.empty((1, 0), np.int64) if self._ids is None else self._ids.array
        circular_buckets.find(
            keys, self._ids_of(batch), self._keys.array, ids, self._ends.array, self.base,
            self._heads.array, self._slots.array, rows,
        )  # fmt: skip
        assert rows.min(initial=0) >= 0, "a tuple is taken back that never came"
        self._ends.array[rows - self.base] = int64_column(batch, TS)
        return rows

    def probe(
        self, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, row_limit: int = NEVER
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (probing tuple, row) that join, in chunks; rows from `row_limit` on are left out."""
        capacity, first = PAIRS_PER_PROBE, 0
        while first < len(keys):
            last = min(len(keys), first + self._home.step)
            out_probe, out_row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            upto, n_out, n_scanned = circular_buckets.probe(
                keys, ts, ends, first, last, row_limit,
                self._keys.array, self.log.rows.int64(TS), self._ends.array, self.base, self._clock,
                self._heads.array, self._slots.array, out_probe, out_row,
            )  # fmt: skip
            self.n_scanned += n_scanned
            if n_out:
                yield out_probe[:n_out], out_row[:n_out]
            self._home.relax()
            capacity = capacity if upto > first else 2 * capacity
            first = upto

    def evict(self, clock: int, retired: np.ndarray) -> None:
        """Forgets what is dead at `clock`: the retired rows, and every block whose tuples have all expired."""
        if len(retired):
            self.log.delete(retired)
        self.log.drop([block for block in self.log.blocks if self._spans[block.first][1] <= clock + 1])
        self._spans = {block.first: self._spans[block.first] for block in self.log.blocks}
        self._clock = clock
        if self.log.is_sparse or self._has_gaps:
            self.log.compact(lambda rows: (part for part, is_kept in self._cut(rows, clock) if is_kept))
            self._rebuild()
        else:
            self.log.trim(self._keys, self._ends, *([] if self._ids is None else [self._ids]))

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int) -> None:
        """Becomes the buffer that the log's entries describe."""
        self.log.restore(entries, next_number)
        self._clock = clock
        self._rebuild()

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """The keys of the given rows."""
        return self._keys.array[rows - self.base]

    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_ts`, `_expires` and end of the given rows."""
        at = rows - self.base
        return self.log.rows.int64(TS)[at], self.log.rows.int64(EXPIRES)[at], self._ends.array[at]

    @property
    def base(self) -> int:
        """The row that the arrays start with."""
        return self.log.rows.base

    @property
    def _has_gaps(self) -> bool:
        """Whether the arrays are mostly room for rows that are gone, kept apart by a few that stay."""
        return self.log.next_row - self.log.base > MAX_GAPS * self.log.n_rows + FIRST_BUCKETS

    def _cut(self, batch: pa.Table, clock: int) -> Iterator[tuple[pa.Table, bool]]:
        """The batch as blocks: what dies within this step, then slices of the time of expiry."""
        if self._cut_us is not None:
            lives = int64_column(batch, EXPIRES) > clock + 1
            if not lives.all():
                yield batch.filter(pa.array(~lives)), False
                batch = batch.filter(pa.array(lives))
        yield from ((part, True) for part in sliced_by_expiry(batch, self._cut_us))

    def _index(self, block: Block, tuples: pa.Table) -> None:
        """Puts a block's tuples into the arrays and buckets; more buckets when they have become too few."""
        at = block.first - self.base
        expires = int64_column(tuples, EXPIRES)
        self._keys.write(at, self._key_of(tuples))
        self._ends.write(at, np.where(self.log.is_dead(block), BEGINNING, expires))
        if self._ids is not None:
            self._ids.write(at, self._ids_of(tuples))
        self._spans[block.first] = int(expires.min()), int(expires.max())
        if self._fixed_buckets is None and self.log.n_rows > 2 * len(self._heads):
            n_buckets = 4 * len(self._heads)
            while self.log.n_rows > 2 * n_buckets:
                n_buckets *= 4
            self._fill_buckets(n_buckets, block.last)
        else:
            self._insert_rows(block.first, block.last)

    def _insert_rows(self, first: int, last: int) -> None:
        """Puts rows into their buckets. Buckets that have left too much room behind are all filled anew."""
        while first < last:
            stop = min(last, first + self._home.step)
            first, self._top = circular_buckets.insert(
                first, stop, self._keys.array, self._ends.array, self.base, self._clock,
                self._heads.array, self._slots.array, self._top,
            )  # fmt: skip
            self._home.relax()
            if first == stop:
                continue
            if len(self._slots) > MAX_SLACK * (self.log.n_rows + len(self._heads)):
                self._fill_buckets(len(self._heads), last)
                return
            self._slots.resize(2 * len(self._slots))

    def _rebuild(self) -> None:
        self.n_rebuilds += 1
        self._spans = {}
        n_rows = self.log.n_rows
        for vector in (self._keys, self._ends, *([] if self._ids is None else [self._ids])):
            vector.resize(max(n_rows, FIRST_BUCKETS))
        self._empty_buckets(len(self._heads))
        for block in self.log.blocks:
            self._index(block, self.log.read(block))

    def _empty_buckets(self, n_buckets: int) -> None:
        self._heads.resize(n_buckets)
        self._heads.array[:] = 0
        self._slots.resize(max(4 * n_buckets, 1024))
        self._top = 0

    def _fill_buckets(self, n_buckets: int, last: int) -> None:
        """Puts all living rows below `last` into fresh buckets."""
        self._empty_buckets(n_buckets)
        for block in self.log.blocks:
            if block.first < last:
                self._insert_rows(block.first, min(block.last, last))

    def _ids_of(self, batch: pa.Table) -> np.ndarray:
        ids = np.empty((batch.num_rows, len(self._id_columns)), np.int64)
        for column, name in enumerate(self._id_columns):
            ids[:, column] = int64_column(batch, name)
        return ids


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
