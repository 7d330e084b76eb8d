"""The tuples of one input of a join of many, in order of time, while a tuple that is still to come can join them.

    rows      0 ………… 57  58 ……… 91  92 ………………… 140
              segment     segment     head: vectors in order of time, which an index works with
              on disk, in order of the hash of each key; each covers a time of its own

Where memory is limited, the oldest tuples are sealed into segments. They have new numbers then, for ever, which do not
follow their times; they are probed by key and by time, and taken out by number like those in the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.kernels.probes import EXPIRY, LINKS, TIME
from sash.store.batch import EXPIRES, TS, int64_column
from sash.store.block import Block
from sash.store.block_window import FIRST_ROWS, NO_ROWS, BlockWindow
from sash.store.keyed_segment import KeyedRows, KeyedSegment, write_keyed
from sash.store.keys import encode_keys
from sash.store.segment import WindowSegment
from sash.store.segment_probe import ProbeKeys, probe
from sash.store.vector import Arena, Vector


class SealedFound(NamedTuple):
    """Sealed rows that were looked for: by which of those that look, and when the rows came."""

    seekers: np.ndarray
    rows: np.ndarray
    ts: np.ndarray


class OrderedWindow(BlockWindow):
    """Tuples of one input, inserted in order of `_ts`. They are dead once the clock has passed their `_ts`: whoever
    evicts says which clock that is.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[tuple[str, ...]],
        span_us: int,
        arena: Arena | None = None,
        may_seal: bool = False,
        probed: Sequence[int] | None = None,
    ):
        """`keys` are the columns of each key of a tuple, () where there is none; `span_us` how long tuples are held.
        `may_seal`: whether its owner looks for tuples on disk as well, so that they may leave memory; then `probed`
        are the keys by which, all if None.
        """
        super().__init__(schema, span_us, arena, TS, may_seal)
        self._key_columns = tuple(keys)
        present = [number for number, columns in enumerate(keys) if columns]
        self._probed_keys = present if probed is None else list(probed)
        self._sealed_keys = [*self._probed_keys, *(number for number in present if number not in self._probed_keys)]
        self._lives_us: dict[int, int] = {}
        """By the first row of a segment, how long its tuples are in their window; see `KeyedSegment`."""
        self._ts = Vector(np.int64, self.arena, capacity=FIRST_ROWS)
        self._keys = Vector(np.int64, self.arena, max(1, len(keys)), FIRST_ROWS)
        self._records = Vector(np.int64, self.arena, LINKS + max(1, len(keys)), FIRST_ROWS)

    @property
    def ts(self) -> np.ndarray:
        """When tuples came, from `base` on; never less than the one before."""
        return self._ts.array

    @property
    def expires(self) -> np.ndarray:
        """When tuples leave their window, from `base` on."""
        return self._records.array[:, EXPIRY]

    @property
    def keys(self) -> np.ndarray:
        """The keys of the rows from `base` on, side by side; 0 where there is none."""
        return self._keys.array

    @property
    def records(self) -> np.ndarray:
        """What is looked at of a row as one follows a chain, side by side: its life, and for each key room for the row
        that is next; from `base` on.
        """
        return self._records.array

    def first_since(self, time: int) -> int:
        """The first row that is not gone and not older than a time."""
        at = self.floor - self.base
        return self.floor + int(np.searchsorted(self.ts[at : self.next_row - self.base], time))

    def times_since(self, time: int) -> np.ndarray:
        """When the tuples came that are not gone and not older than a time, wherever they are; ascending."""
        sealed = [ts[ts >= time] for segment in self.log.segments for _, ts in segment.all_times()]
        head = self.ts[self.first_since(time) - self.base : self.next_row - self.base]
        return np.concatenate([np.sort(np.concatenate(sealed)), head]) if sealed else head

    def keys_of(self, rows: np.ndarray, key: int) -> np.ndarray:
        """A key of the given rows, wherever they are."""
        at = rows - self.base
        if self.are_in_memory(rows):
            return self.keys[at, key]
        keys, place, here = np.empty(len(rows), np.int64), self._sealed_keys.index(key), at >= 0
        for segment, mine in self.log.by_segment(rows):
            keys[mine] = self._keyed(segment).keys(place, rows[mine])
        keys[here] = self.keys[at[here], key]
        return keys

    def expires_of(self, rows: np.ndarray, ts: np.ndarray) -> np.ndarray:
        """When the given rows, which came at these times, leave their window; wherever they are."""
        at = rows - self.base
        if self.are_in_memory(rows):
            return self.expires[at]
        expires, here = np.empty(len(rows), np.int64), at >= 0
        for segment, mine in self.log.by_segment(rows):
            expires[mine] = self._keyed(segment).expires(rows[mine], ts[mine])
        expires[here] = self.expires[at[here]]
        return expires

    def probe_sealed(
        self, key: int, keys: np.ndarray, since: np.ndarray, until: np.ndarray, n_at_once: int
    ) -> Iterator[SealedFound]:
        """Sealed tuples with one of these keys that came within its period, both ends included; some at a time, each
        time of one segment.
        """
        place, seekers = self._probed_keys.index(key), ProbeKeys(keys, since, until + 1, n_at_once)
        for segment in map(self._keyed, self.log.segments):
            for found in probe(segment.by_key(place), seekers):
                yield SealedFound(found.tuples.copy(), segment.rows_of(place, found.rows), found.ts.copy())

    def scan_sealed(self, since: int, until: int) -> Iterator[SealedFound]:
        """Sealed tuples that came within a period, both ends included, in order of time; some at a time."""
        for segment in self.log.segments:
            if segment.min_ts > until or segment.max_end <= since:
                continue
            for rows, ts in segment.all_times():
                places = np.flatnonzero((ts >= since) & (ts <= until))
                places = places[np.argsort(ts[places], kind="stable")]
                yield SealedFound(NO_ROWS, rows[places], ts[places])

    def seal(self, n_rows: int) -> None:
        """Moves the oldest tuples of the head to disk: whole blocks, until there are so many."""
        blocks = self.log.oldest(n_rows)
        if not blocks:
            return
        rows = np.concatenate([np.arange(block.first, block.last) for block in blocks])
        at = rows - self.base
        keys = self.keys[at][:, self._sealed_keys]
        sealed = KeyedRows(rows, keys, len(self._probed_keys), self.ts[at], self.expires[at])
        segment, life_us = write_keyed(self.arena.spill_files, sealed, self.log.rows.take)
        self.log.seal(blocks, segment, *self._vectors())
        older = {each.first: self._lives_us[each.first] for each in self.log.segments[:-1]}
        self._lives_us = older | {segment.first: life_us}

    def _keyed(self, segment: WindowSegment) -> KeyedSegment:
        return KeyedSegment(segment, self._lives_us[segment.first])

    def _vectors(self) -> list[Vector]:
        return [self._ts, self._keys, self._records]

    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
        self._ts.write(at, int64_column(tuples, TS))
        self._keys.reserve(at + block.n_rows)
        self._records.reserve(at + block.n_rows)
        records = self._records.array[at : at + block.n_rows]
        records[:, TIME] = int64_column(tuples, TS)
        records[:, EXPIRY] = int64_column(tuples, EXPIRES)
        keys = self._keys.array[at : at + block.n_rows]
        for number, columns in enumerate(self._key_columns):
            keys[:, number] = encode_keys(tuples, columns) if columns else 0
