"""The window buffer of one input: a log of blocks, and the circular buckets that find its tuples by key.

The log is the truth; arrays and buckets are rebuilt from it. A tuple is dead once its end has passed the clock: no
tuple that can still arrive overlaps it. Blocks are cut by the time their tuples expire, so that they die whole and at
most `1 / CUTS` of a window lies dead in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels import circular_buckets
from sash.store.batch import BEGINNING, EXPIRES, NEVER, TS, int64_column
from sash.store.block_log import Block, BlockLog

CUTS = 8
MAX_CUTS_PER_BATCH = 64
FIRST_BUCKETS = 1024
PAIRS_PER_PROBE = 1 << 20
MAX_GAPS = 8

Buckets: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Start, capacity, tail and count of every bucket, and the slots that all of them lie in."""

KeyOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The 64-bit key of every tuple of a batch. Called again on the same tuples when the buffer is rebuilt."""


class WindowBuffer:
    """Tuples of one input while they can still join, found by key."""

    def __init__(self, schema: pa.Schema, key_of: KeyOf, window_us: int | None, n_buckets: int | None = None):
        """`window_us` is the longest life of a tuple if there is one; `n_buckets` fixes their number (WNL: 1)."""
        self.log = BlockLog(schema)
        self.n_scanned = 0
        self._key_of = key_of
        self._cut_us = max(1, window_us // CUTS) if window_us else None
        self._fixed_buckets = n_buckets
        self._id_columns = [name for name in schema.names if name.startswith("_id.")]
        self._clock = BEGINNING
        self._clear(n_buckets or FIRST_BUCKETS, 0)

    def insert(self, batch: pa.Table, clock: int) -> None:
        """Adds tuples. Those that will be dead at `clock`, the clock after this step, are not put into the log."""
        if not batch.num_rows:
            return
        for part, is_kept in self._cut(batch, clock):
            self._index(self.log.append(part, is_kept))

    def retire(self, batch: pa.Table, keys: np.ndarray) -> np.ndarray:
        """Ends the tuples with the same keys and identities at the batch's `_ts`. Returns their rows."""
        rows = np.empty(batch.num_rows, np.int64)
        circular_buckets.find(
            keys, self._ids_of(batch), self.keys, self.ids, self.ends, self._base, *self._buckets, rows
        )
        assert rows.min(initial=0) >= 0, "a tuple is taken back that never came"
        self.ends[rows - self._base] = int64_column(batch, TS)
        return rows

    def probe(
        self, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, row_limit: int = NEVER
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (probing tuple, row) that join, in chunks; rows from `row_limit` on are left out."""
        capacity, first = PAIRS_PER_PROBE, 0
        while first < len(keys):
            out_probe, out_row = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            upto, n_out, n_scanned = circular_buckets.probe(
                keys, ts, ends, first, row_limit,
                self.keys, self.ts, self.ends, self._base, self._clock, *self._buckets, out_probe, out_row,
            )  # fmt: skip
            self.n_scanned += n_scanned
            if n_out:
                yield out_probe[:n_out], out_row[:n_out]
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
        elif self.log.base - self._base > self._n_indexed // 2:
            self._shift()

    def restore(self, entries: Mapping[str, bytes], next_row: int, clock: int) -> None:
        """Becomes the buffer that the log's entries describe."""
        self.log.restore(entries, next_row)
        self._clock = clock
        self._rebuild()

    @property
    def _has_gaps(self) -> bool:
        """Whether the arrays are mostly room for rows that are gone, kept apart by a few that stay."""
        return self._base + self._n_indexed - self.log.base > MAX_GAPS * self.log.n_rows + FIRST_BUCKETS

    @property
    def base(self) -> int:
        """The row that the arrays start with."""
        return self._base

    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_ts`, `_expires` and end of the given rows."""
        at = rows - self._base
        return self.ts[at], self.expires[at], self.ends[at]

    def _cut(self, batch: pa.Table, clock: int) -> Iterator[tuple[pa.Table, bool]]:
        """The batch as blocks: what dies within this step, then slices of the time of expiry."""
        expires = int64_column(batch, EXPIRES)
        if self._cut_us is None:
            yield batch, True
            return
        lives = expires > clock + 1
        if not lives.all():
            yield batch.filter(pa.array(~lives)), False
            batch, expires = batch.filter(pa.array(lives)), expires[lives]
        if not len(expires):
            return
        span = int(expires.max()) - int(expires.min())
        slices = expires // max(self._cut_us, span // MAX_CUTS_PER_BATCH + 1)
        if np.any(slices[1:] < slices[:-1]):
            order = np.argsort(slices, kind="stable")
            batch, slices = batch.take(pa.array(order)), slices[order]
        bounds = [0, *(np.flatnonzero(slices[1:] != slices[:-1]) + 1).tolist(), len(slices)]
        for low, high in pairwise(bounds):
            yield batch.slice(low, high - low), True

    def blocks_expiring(self, clock: int) -> list[Block]:
        """The blocks with a tuple that expires at `clock` or before."""
        return [block for block in self.log.blocks if self._spans[block.first][0] <= clock]

    def _index(self, block: Block) -> None:
        """Puts a block's tuples into the arrays and buckets; more buckets when they have become too few."""
        n_new = block.table.num_rows
        at = block.first - self._base
        self._reserve(at + n_new)
        self.keys[at : at + n_new] = self._key_of(block.table)
        self.ts[at : at + n_new] = int64_column(block.table, TS)
        self.expires[at : at + n_new] = int64_column(block.table, EXPIRES)
        self.ends[at : at + n_new] = np.where(block.dead, BEGINNING, self.expires[at : at + n_new])
        self.ids[at : at + n_new] = self._ids_of(block.table)
        self._n_indexed = at + n_new
        expires = self.expires[at : at + n_new]
        self._spans[block.first] = int(expires.min()), int(expires.max())
        if self._fixed_buckets is None and self.log.n_rows > 2 * len(self._buckets[0]):
            n_buckets = 4 * len(self._buckets[0])
            while self.log.n_rows > 2 * n_buckets:
                n_buckets *= 4
            self._fill_buckets(n_buckets)
        else:
            self._insert_rows(block.first, block.last)

    def _insert_rows(self, first: int, last: int) -> None:
        while True:
            first, self._top = circular_buckets.insert(
                first, last, self.keys, self.ends, self._base, self._clock, *self._buckets, self._top
            )
            if first == last:
                return
            start, capacity, tail, count, slots = self._buckets
            self._buckets = start, capacity, tail, count, np.concatenate([slots, np.empty_like(slots)])

    def _rebuild(self) -> None:
        self._clear(len(self._buckets[0]), self.log.base)
        for block in self.log.blocks:
            self._index(block)

    def _shift(self) -> None:
        """Moves the arrays so that they start at the log's first row, and refills the buckets without the dead."""
        gone = self.log.base - self._base
        for name in ("keys", "ts", "expires", "ends", "ids"):
            array = getattr(self, name)
            setattr(self, name, array[gone:].copy())
        self._base, self._n_indexed = self.log.base, self._n_indexed - gone
        self._fill_buckets(len(self._buckets[0]))

    def _clear(self, n_buckets: int, base: int) -> None:
        self.keys, self.ts, self.expires, self.ends = (np.empty(FIRST_BUCKETS, np.int64) for _ in range(4))
        self.ids = np.empty((FIRST_BUCKETS, len(self._id_columns)), np.int64)
        self._base, self._n_indexed = base, 0
        self._spans: dict[int, tuple[int, int]] = {}
        self._empty_buckets(n_buckets)

    def _empty_buckets(self, n_buckets: int) -> None:
        start, capacity, tail, count = (np.zeros(n_buckets, np.int64) for _ in range(4))
        slots = np.empty(max(4 * n_buckets, 1024), np.int64)
        self._buckets: Buckets = start, capacity, tail, count, slots
        self._top = 0

    def _fill_buckets(self, n_buckets: int) -> None:
        self._empty_buckets(n_buckets)
        for block in self.log.blocks:
            self._insert_rows(block.first, min(block.last, self._base + self._n_indexed))

    def _reserve(self, n_rows: int) -> None:
        if n_rows <= len(self.keys):
            return
        room = max(n_rows, 2 * len(self.keys))
        for name in ("keys", "ts", "expires", "ends", "ids"):
            old = getattr(self, name)
            new = np.empty((room, *old.shape[1:]), np.int64)
            new[: len(old)] = old
            setattr(self, name, new)

    def _ids_of(self, batch: pa.Table) -> np.ndarray:
        ids = np.empty((batch.num_rows, len(self._id_columns)), np.int64)
        for column, name in enumerate(self._id_columns):
            ids[:, column] = int64_column(batch, name)
        return ids
