"""The tuples of one input of a join while they can still join, and the arrays that indexes over them work with.

    rows      0 ………… 57  58 ……… 91  92 ………………… 140
              segment     segment     head: vectors, which an index works with
              on disk, in order of the key's hash; probed beside the index

A tuple is dead once its end has passed the clock: no tuple that can still arrive overlaps it. Where memory is limited,
the oldest tuples are sealed into segments. Whoever is sealed has a new number, for ever, and nothing else changes: it
is found by key, taken back and taken out by number like those in the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels.hash_join import END, NEXT, RECORD_WIDTH
from sash.kernels.hash_join import EXPIRES as EXPIRY
from sash.kernels.hash_join import TS as TIME
from sash.kernels.segment_join import EarlyEnds, SegmentPairs
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, SIGNED_NAMES, TS, int64_column
from sash.store.block import Block, at_once
from sash.store.block_log import Adapt, as_it_is
from sash.store.block_window import FIRST_ROWS, NO_ROWS, BlockWindow
from sash.store.expected_rows import ExpectedRows
from sash.store.segment import WindowSegment
from sash.store.segment_probe import NO_ROW, NONE_EARLY, PAIRS_PER_CHUNK, ProbeKeys, find, gathered, probe
from sash.store.segment_writer import SealedRows, write_segment
from sash.store.vector import Arena, Vector

KeyOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The 64-bit key of every tuple of a batch. Called again on the same tuples when the arrays are rebuilt."""


class Window(BlockWindow):
    """Tuples of one input, with a key each."""

    def __init__(
        self,
        schema: pa.Schema,
        key_of: KeyOf,
        window_us: int | None,
        arena: Arena | None = None,
        may_seal: bool = False,
    ):
        """`window_us` is the longest life of a tuple if there is one. `may_seal`: whether its owner looks for
        tuples on disk as well, so that they may leave memory.
        """
        super().__init__(schema, window_us, arena, may_seal=may_seal)
        self._early = NONE_EARLY
        """When sealed tuples left that did not wait for their `_expires`."""
        self._key_of = key_of
        self._id_columns = [name for name in schema.names if name.startswith(ID_PREFIX)]
        self._keys = Vector(np.int64, self.arena, capacity=FIRST_ROWS)
        self._records = Vector(np.int64, self.arena, RECORD_WIDTH, FIRST_ROWS)
        self._ids = Vector(np.int64, self.arena, len(self._id_columns)) if self._id_columns else None

    def expected(self, tuples: pa.Table) -> ExpectedRows:
        """Tuples that will come in, as they may be read before."""
        return ExpectedRows(tuples, self.next_row)

    def take(self, rows: np.ndarray, names: list[str]) -> pa.Table:
        """A copy of columns of the given rows, wherever they are."""
        return self.log.take(rows, names)

    def values(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_ts`, `_expires` and end of the given rows, wherever they are."""
        at = rows - self.base
        if self.are_in_memory(rows):
            return self.ts[at], self.records[at, EXPIRY], self.ends[at]
        ts, expires, ends = (np.empty(len(rows), np.int64) for _ in range(3))
        for segment, mine in self.log.by_segment(rows):
            ts[mine], expires[mine] = segment.lives(rows[mine])
            ends[mine] = self._ends_of(rows[mine], expires[mine])
        here = at >= 0
        ts[here], expires[here], ends[here] = self.ts[at[here]], self.records[at[here], EXPIRY], self.ends[at[here]]
        return ts, expires, ends

    def ts_of(self, rows: np.ndarray) -> np.ndarray:
        """When the given rows came, wherever they are."""
        return self.ts[rows - self.base] if self.are_in_memory(rows) else self.values(rows)[0]

    def keys_of(self, rows: np.ndarray) -> np.ndarray:
        """The keys of the given rows, wherever they are."""
        if self.are_in_memory(rows):
            return self.keys[rows - self.base]
        return self.keys_in(self.log.take(rows, self._payload))

    def keys_in(self, tuples: pa.Table) -> np.ndarray:
        """The keys of tuples."""
        return self._key_of(tuples)

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int, adapt: Adapt = as_it_is) -> None:
        self._early = NONE_EARLY
        super().restore(entries, next_number, clock, adapt)

    @property
    def has_early_ends(self) -> bool:
        """Whether sealed tuples were taken back, so that some may come back into memory."""
        return len(self._early.rows) > 0

    @property
    def _payload(self) -> list[str]:
        """The columns beside lives and signs."""
        return [name for name in self.log.schema.names if name not in SIGNED_NAMES]

    def end_early(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Tuples are taken back: they end now, and not at their `_expires`."""
        here = rows >= self.base
        self.ends[rows[here] - self.base] = times[here]
        self._early = _with_ends(self._early, rows[~here], times[~here])

    def probe_sealed(
        self, keys: np.ndarray, ts: np.ndarray, ends: np.ndarray, met: Set[str] = frozenset()
    ) -> Iterator[SegmentPairs]:
        """Sealed tuples that tuples with these keys and lives join, in chunks. Each is good until the next is asked
        for; its `tuples` are places in the arrays given here. Segments that they have `met`, by name, are left out.
        """
        segments = [segment for segment in self.log.segments if segment.name not in met]
        if not segments or not len(keys):
            return
        budget = self.arena.budget
        assert budget is not None
        n_pairs = min(PAIRS_PER_CHUNK, budget.n_pairs_at_once())
        probes = ProbeKeys(keys, ts, ends, n_pairs)
        found = (each for segment in segments for each in probe(segment, probes, self._early))
        yield from gathered(found, n_pairs // 2)

    def find_sealed(self, keys: np.ndarray, ids: np.ndarray, times: np.ndarray) -> np.ndarray:
        """For each negative the sealed tuple that it takes back, or -1; no tuple is found twice.

        Of tuples that are alike, each negative gets one of its own.
        """
        rows, claimed, waiting = np.full(len(keys), NO_ROW), self._early, np.arange(len(keys))
        while len(waiting) and self.log.segments:
            negatives = ProbeKeys.of_negatives(keys[waiting], times[waiting])
            found = find(self.log.segments, negatives, ids[waiting], claimed)
            _, first = np.unique(found, return_index=True)
            first = first[found[first] != NO_ROW]
            rows[waiting[first]] = found[first]
            claimed = _with_ends(claimed, found[first], np.full(len(first), BEGINNING))
            is_open = found != NO_ROW
            is_open[first] = False
            waiting = waiting[is_open]
        return rows

    def seal(self, n_rows: int) -> None:
        """Moves the oldest tuples of the head to disk: whole blocks, until there are so many."""
        blocks = self.log.oldest(n_rows)
        if not blocks:
            return
        rows = np.concatenate([np.arange(block.first, block.last) for block in blocks])
        at = rows - self.base
        records = self.records[at]
        ids = None if self._ids is None else self._ids.array[at]
        lives = records[:, TIME], records[:, EXPIRY]
        sealed = SealedRows(rows, self.keys[at], *lives, ids, self._labels_at(at), are_told=True)
        segment = write_segment(self.arena.spill_files, sealed, self.log.rows.take)
        early = np.flatnonzero(records[:, END] != records[:, EXPIRY])
        self.log.seal(blocks, segment, *self._vectors())
        if len(early):
            numbers = segment.rows_from(segment.first, int(rows[-1]) + 1)
            self._early = _with_ends(self._early, numbers[early], records[early, END])

    def evict(self, clock: int, retracted: np.ndarray = NO_ROWS) -> None:
        """As ever; of segments that are mostly dead, one a step comes back into the head."""
        super().evict(clock, retracted)
        if not len(self._early.rows):
            return
        lives = [(segment.first, segment.last) for segment in self.log.segments]
        kept = np.zeros(len(self._early.rows), np.bool_)
        for first, last in lives:
            kept |= (self._early.rows >= first) & (self._early.rows < last)
        self._early = EarlyEnds(self._early.rows[kept], self._early.ends[kept])
        for segment in self.log.segments:
            blocks = [block for block in self.log.blocks if block.segment is segment]
            if 2 * sum(block.n_alive for block in blocks) < sum(block.n_rows for block in blocks):
                self._bring_back(segment, blocks)
                return

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

    def _bring_back(self, segment: WindowSegment, blocks: list[Block]) -> None:
        """Sealed tuples that are alive become blocks of the head, with new numbers; some at a time, and if they find
        no room there, they are sealed again.
        """
        budget = self.arena.budget
        assert budget is not None
        origins = segment.origins(np.arange(segment.first, segment.last))
        order = np.argsort(origins)
        origins = origins[order]
        for some in at_once(blocks, self.log.arena.budget):
            alive = np.concatenate([np.flatnonzero(~self.log.is_dead(block)) + block.first for block in some])
            tuples = segment.take(segment.first + order[np.searchsorted(origins, alive)])
            self.log.drop(some)
            for part, is_kept in self._cut(tuples, self.clock):
                if is_kept and part.num_rows:
                    self._note(self.log.append(part), part)
            if budget.is_filled_by(budget.n_state_bytes):
                self._seal_again(budget)
        self._spans = {block.first: self._spans[block.first] for block in self.log.blocks}
        self.n_rebuilds += 1

    def _ends_of(self, rows: np.ndarray, expires: np.ndarray) -> np.ndarray:
        """When sealed rows leave, by when they expire."""
        early = self._early
        if not len(early.rows):
            return expires
        at = np.minimum(np.searchsorted(early.rows, rows), len(early.rows) - 1)
        return np.where(early.rows[at] == rows, early.ends[at], expires)

    def _labels_at(self, at: np.ndarray) -> np.ndarray | None:
        """What else is sealed of the rows at these places of the arrays."""
        return None

    def _vectors(self) -> list[Vector]:
        return [self._keys, self._records, *([] if self._ids is None else [self._ids])]

    def _write(self, at: int, block: Block, tuples: pa.Table) -> None:
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


def _with_ends(early: EarlyEnds, rows: np.ndarray, ends: np.ndarray) -> EarlyEnds:
    """With the ends of further rows; of one that has an end already, the new one counts."""
    if not len(rows):
        return early
    kept = ~np.isin(early.rows, rows)
    rows, ends = np.concatenate([early.rows[kept], rows]), np.concatenate([early.ends[kept], ends])
    order = np.argsort(rows)
    return EarlyEnds(rows[order], ends[order])
