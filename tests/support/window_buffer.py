"""A window of one input with circular buckets that find its tuples by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from sash.index.circular_buckets import CircularBuckets
from sash.index.join_index import LEFT
from sash.store.batch import NEVER, TS, int64_column
from sash.store.block_log import Adapt, as_it_is
from sash.store.block_window import NO_ROWS
from sash.store.vector import Arena
from sash.store.window import KeyOf, Window


class WindowBuffer(Window):
    """Tuples of one input while they can still join, found by key."""

    def __init__(
        self,
        schema: pa.Schema,
        key_of: KeyOf,
        window_us: int | None,
        n_buckets: int | None = None,
        arena: Arena | None = None,
    ):
        """`window_us` is the longest life of a tuple if there is one; `n_buckets` fixes their number."""
        super().__init__(schema, key_of, window_us, arena)
        self._buckets = CircularBuckets((self,), n_buckets, "probe", self.arena)

    def insert(self, batch: pa.Table, clock: int) -> None:
        first_new = self.next_row
        super().insert(batch, clock)
        self._buckets.insert(LEFT, first_new, self.next_row)

    def retract(self, batch: pa.Table, keys: np.ndarray) -> np.ndarray:
        """Ends the tuples with the same keys and identities at the batch's `_ts`. Returns their rows."""
        times = int64_column(batch, TS)
        rows = self._buckets.find(LEFT, keys, self.ids_of(batch), times)
        assert rows.min(initial=0) >= 0, "a tuple is taken back that is not there"
        self.ends[rows - self.base] = times
        return rows

    def probe(
        self, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, row_limit: int = NEVER
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs (probing tuple, row) that join, in chunks; rows from `row_limit` on are left out."""
        return self._buckets.probe(LEFT, keys, ts, ends, row_limit)

    def evict(self, clock: int, retracted: np.ndarray = NO_ROWS) -> None:
        n_rebuilds = self.n_rebuilds
        super().evict(clock, retracted)
        self._buckets.advance(clock)
        if self.n_rebuilds > n_rebuilds:
            self._buckets.refill()

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int, adapt: Adapt = as_it_is) -> None:
        super().restore(entries, next_number, clock, adapt)
        self._buckets.advance(clock)
        self._buckets.refill()

    @property
    def n_scanned(self) -> int:
        """Tuples looked at so far."""
        return self._buckets.counts.scans
