"""The signed tuples of an operator's input, and what they make happen as time goes by.

    tuple            +a [1, 9)      -a at 4, of the same       +b [2, 6)
    happens          +a at 1        -a at 4                    +b at 2, and by itself -b at 6

A tuple counts with its sign from `_ts` until before `_expires`. So one that is taken back early needs no searching:
both are kept, and from `_expires` on, where both stop to count, neither matters. Only tuples that never expire would
pile up; once the taken back are most of a log, they and what they take back are struck out together.

A trace that is *clocked* lets tuples expire by the clock it is handed (Time Probing, Pipelines §3.1). One that is not
is told by negative tuples that a W-EXPIRE below makes (§3.2); it keeps the same log.

Tuples are kept only to be given back when they expire. Where memory is limited the oldest are sealed, in files in order
of expiry, which are read as the clock comes to them, see `store/sealed_expiries.py`; the log knows of them as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.errors import ResourceError
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, TS, concat, int64_column, signs
from sash.store.block import Block
from sash.store.block_log import BlockLog
from sash.store.block_window import cut_length, sliced_by_end
from sash.store.events import Events
from sash.store.expiry_queue import ExpiryQueue
from sash.store.memory_budget import GROWTH, LEAST_ROWS, LEAST_SHARE, TRACE_BYTES, MemoryBudget
from sash.store.sealed_expiries import SealedExpiries
from sash.store.segment_writer import LEAST_BATCH_BYTES, SealedRows
from sash.store.strike_out import find_struck_out
from sash.store.vector import Arena, Memory, Vector

DENSE = "_dense"
MIN_STRUCK_OUT = 1024

IdsOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The dense id of every tuple's key. Called again on the same tuples when a trace is rebuilt."""


class Trace:
    """Tuples in a log, with the id of each tuple's key, and a queue of those that expire."""

    def __init__(
        self,
        schema: pa.Schema,
        window_us: int | None,
        expires_by_negatives: bool,
        arena: Arena | None = None,
        identity: pa.Schema | None = None,
    ):
        """`window_us` is the longest life of a tuple if there is one. By the columns of `identity`, among them
        `_expires`, a tuple names the one that it takes back; all but time and sign if it is not given.
        """
        arena = arena or Memory()
        self._identity = identity or pa.schema([field for field in schema if field.name not in (TS, OP)])
        self.log = BlockLog(schema, arena)
        self._cut_us = cut_length(window_us)
        self._ids = Vector(np.int64, arena)
        self._queue = None if expires_by_negatives else ExpiryQueue(arena)
        self._sealed = SealedExpiries(arena)
        self._blocks: dict[int, tuple[int, int]] = {}
        """By the first row of a block: when the last of its tuples expires, and how many take another one back."""
        self.clock = BEGINNING
        """Up to which things have happened; has to survive beside the log."""

    def step(self, batch: pa.Table, ids: np.ndarray, clock: int) -> Events:
        """What happens up to and including `clock`, when these tuples, with these ids, have come.

        They must not be newer than the clock, and newer than the clock of the step before.
        """
        leaving, leaving_ids = self._pass_on(batch, ids, clock)
        parts, all_ids = [batch, *leaving], [ids, *leaving_ids]
        times = [int64_column(batch, TS), *(int64_column(each, EXPIRES) for each in leaving)]
        happens = [signs(batch), *(-signs(each) for each in leaving)]
        return Events(parts, *(np.concatenate(each) for each in (times, all_ids, happens)))

    def expire(self, batch: pa.Table, clock: int) -> pa.Table:
        """The tuples, of either sign, that expire up to and including `clock`, when these have come. Ids do not matter.

        What holds for those of `step` holds for these.
        """
        leaving, _ = self._pass_on(batch, np.zeros(batch.num_rows, np.int64), clock)
        return concat([batch.schema.empty_table(), *leaving])

    def _pass_on(self, batch: pa.Table, ids: np.ndarray, clock: int) -> tuple[list[pa.Table], list[np.ndarray]]:
        """Keeps what comes, and goes on to `clock`: tuples that expire by then, and their ids."""
        self.make_room(batch.num_rows, batch.nbytes)
        stays, leaving = int64_column(batch, EXPIRES) > clock, list[tuple[pa.Table, np.ndarray]]()
        if self._queue is not None:
            gone = np.flatnonzero(~stays)
            leaving = [(batch.take(pa.array(gone)), ids[gone]), *self._due(clock)]
        self._keep(batch if stays.all() else batch.filter(pa.array(stays)), ids[stays])
        self.clock = clock
        return [tuples for tuples, _ in leaving], [its_ids for _, its_ids in leaving]

    def evict(self) -> None:
        """Forgets what does not count any more."""
        dead = [block for block in self.log.blocks if self._blocks[block.first][0] <= self.clock]
        if dead:
            self.log.drop(dead)
            self._forget_dropped()
        n_negative = sum(n_negative for _, n_negative in self._blocks.values())
        if 4 * n_negative > self.log.n_rows + MIN_STRUCK_OUT:
            self._strike_out()
        else:
            self.log.trim(self._ids)

    def _due(self, clock: int) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Tuples that expire, and their ids. A key that is gone has only some that take each other back."""
        assert self._queue is not None
        for sealed in self._sealed.pop(clock):
            is_known = sealed.ids >= 0
            yield sealed.tuples if is_known.all() else sealed.tuples.filter(pa.array(is_known)), sealed.ids[is_known]
        _, rows = self._queue.pop(clock)
        ids = self._ids.array[rows - self.log.rows.base]
        is_known = ids >= 0
        if not is_known.all():
            rows, ids = rows[is_known], ids[is_known]
        yield self.log.rows.take(rows), ids

    def pace(self, clock: int, n_max: int) -> int:
        """The latest time up to which at most about `n_max` tuples expire by themselves; `clock` at most."""
        if self._queue is None:
            return clock
        budget = self.log.arena.budget
        if budget is not None and self.log.blocks:
            n_fitting = budget.step_bytes * self.log.n_rows // max(1, self.log.n_bytes)
            n_max = min(n_max, max(LEAST_ROWS, n_fitting))
        paced = self._queue.pace(clock, n_max)
        return self._sealed.pace(paced, n_max) if len(self._sealed) else paced

    def renumber(self, mapping: np.ndarray) -> None:
        """Takes on new ids, by the old ones; -1 for a key that is gone."""
        ids = self._ids.array[: self.log.rows.n_rows]
        ids[:] = np.where(ids < 0, -1, mapping[ids])
        self._sealed.renumber(mapping)

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int, ids_of: IdsOf) -> Iterator[Events]:
        """Becomes the trace that the log's entries and the clock describe. What counts comes back, part by part, as if
        it happened at once.
        """
        self.clock = clock
        self._blocks = {}
        self._sealed.keep([])
        if self._queue is not None:
            self._queue.clear()
        self.log.restore(entries, next_number, see=partial(self._see_restored, ids_of))
        return self._counting()

    def rebuild(self, ids_of: IdsOf) -> Iterator[Events]:
        """Finds out all ids anew; what counts comes back as from `restore`. No key may have gone by `renumber`."""
        mapping = Vector(np.int64, self.log.arena)
        n_known = 0
        for tuples, _, ids in self._sealed.read(self._n_bytes_at_once, self.clock):
            n_ids = int(ids.max()) + 1
            if n_ids > n_known:
                mapping.write(n_known, np.full(n_ids - n_known, -1))
                n_known = n_ids
            mapping.array[ids] = ids_of(tuples)
        self._sealed.renumber(mapping.array[:n_known])
        mapping.free()
        self._ids.array[: self.log.rows.n_rows] = -1  # also of rows that are gone, but still in the way
        for block in self.log.head:
            self._identify(ids_of, block)
        return self._counting()

    def _counting(self) -> Iterator[Events]:
        """What counts, as events."""
        for tuples, _, ids in self._sealed.read(self._n_bytes_at_once, self.clock):
            yield Events([tuples], np.zeros(len(ids), np.int64), ids, signs(tuples))
        for block in self.log.head:
            counts = np.flatnonzero(self._counts(block))
            tuples = self.log.read(block).take(pa.array(counts))
            ids = self._ids.array[counts + block.first - self.log.rows.base]
            yield Events([tuples], np.zeros(len(counts), np.int64), ids, signs(tuples))

    def _counts(self, block: Block) -> np.ndarray:
        """Which tuples of a block in memory have not expired, and were not struck out."""
        start = block.first - self.log.rows.base
        counts = self.log.rows.int64(EXPIRES)[start : start + block.n_rows] > self.clock
        return counts & ~self.log.is_dead(block) if block.n_dead else counts

    def _identify(self, ids_of: IdsOf, block: Block) -> None:
        """Finds out the ids of a block's tuples that count."""
        counts = self._counts(block)
        ids = np.full(block.n_rows, -1)
        ids[counts] = ids_of(self.log.read(block).filter(pa.array(counts)))
        self._ids.write(block.first - self.log.rows.base, ids)

    def _keep(self, tuples: pa.Table, ids: np.ndarray) -> None:
        """Appends tuples in blocks; their ids go along while slices are cut and put in order."""
        for part in sliced_by_end(tuples.append_column(DENSE, pa.array(ids)), self._cut_us):
            block = self.log.append(part.drop_columns([DENSE]))
            self._ids.write(block.first - self.log.rows.base, int64_column(part, DENSE))
            self._note(block, part)

    def _note(self, block: Block, tuples: pa.Table) -> None:
        self._blocks[block.first] = int(int64_column(tuples, EXPIRES).max()), int((signs(tuples) < 0).sum())
        self._await(block)

    def _await(self, block: Block) -> None:
        """Puts the tuples of a block in memory into the queue."""
        if self._queue is not None:
            waits = np.flatnonzero(self._counts(block))
            start = block.first - self.log.rows.base
            self._queue.push(self.log.rows.int64(EXPIRES)[start + waits], block.first + waits)

    def _forget_dropped(self) -> None:
        self._blocks = {block.first: self._blocks[block.first] for block in self.log.blocks}
        self._sealed.keep(self.log.segments)

    def make_room(self, n_rows: int = 0, n_bytes: int = 0) -> None:
        """Seals what must leave memory before so much comes in: half of the head at a time.

        A head that is small beside what else is kept stays. If the disk has no room, all stays as it is, and the budget
        knows why.
        """
        budget = self.log.arena.budget
        if budget is None:
            return
        coming = int(GROWTH * (n_bytes + TRACE_BYTES * n_rows))
        if budget.n_state_bytes + max(coming, int((GROWTH - 1) * budget.n_state_bytes)) <= budget.state_bytes:
            return
        # A vector that is full grows by more than what comes, and a file is what it becomes without room for that.
        while budget.n_state_bytes + max(coming, int((GROWTH - 1) * self._n_head_bytes)) > budget.state_bytes:
            if not self._seal(-(-self.log.n_head_rows // 2), budget):
                return

    def _seal(self, n_rows: int, budget: MemoryBudget) -> bool:
        """Moves the oldest tuples to disk, whole blocks; whether that was worth while, and there was room."""
        if LEAST_SHARE * self._n_head_bytes < budget.state_bytes or not self.log.head:
            return False
        blocks = self.log.oldest(n_rows)
        rows = np.concatenate([np.arange(block.first, block.last) for block in blocks])
        at = rows - self.log.rows.base
        ts, expires = (self.log.rows.int64(name)[at] for name in (TS, EXPIRES))
        try:
            segment = self._sealed.write(
                SealedRows(rows, self._ids.array[at], ts, expires), self.log.rows.take, self.clock
            )
        except ResourceError as error:
            budget.refused = error
            return False
        self.log.seal(blocks, segment, self._ids)
        self._sealed.strike_out(self.log.gone_in_segments())
        self._await_anew()
        return True

    def _await_anew(self) -> None:
        """Fills the queue with what is in memory."""
        if self._queue is not None:
            self._queue.clear()
            for block in self.log.head:
                self._await(block)

    def _see_restored(self, ids_of: IdsOf, block: Block) -> None:
        self._identify(ids_of, block)
        self._note(block, self.log.read(block))
        budget = self.log.arena.budget
        if budget is not None and budget.is_filled_by(budget.n_state_bytes):
            self._seal(self.log.n_head_rows, budget)

    @property
    def _n_head_bytes(self) -> int:
        return sum(block.n_bytes + TRACE_BYTES * block.n_rows for block in self.log.head)

    @property
    def _n_bytes_at_once(self) -> int:
        """How much of what is on disk is read at once."""
        budget = self.log.arena.budget
        return NEVER if budget is None else max(LEAST_BATCH_BYTES, budget.step_bytes // 4)

    def _strike_out(self) -> None:
        """Removes every tuple that was taken back together with what takes it back, and all that has expired.

        On disk they are only marked; of a file that is mostly marked, the rest comes back into memory.
        """
        budget = self.log.arena.budget
        n_parts = 1 if budget is None else -(-self.log.n_bytes // budget.step_bytes)
        expired = [block.first + np.flatnonzero(~self._counts(block)) for block in self.log.head]
        self.log.delete(np.concatenate([find_struck_out(self._living, self._identity, n_parts), *expired]))
        self._forget_dropped()
        self._sealed.strike_out(self.log.gone_in_segments())
        self._blocks = {first: (last_us, 0) for first, (last_us, _) in self._blocks.items()}
        self._bring_back()
        self._compact()

    def _living(self) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """All that counts, and its rows."""
        for tuples, rows, _ in self._sealed.read(self._n_bytes_at_once, self.clock):
            yield tuples, rows
        for block in self.log.head:
            counts = np.flatnonzero(self._counts(block))
            yield self.log.read(block).take(pa.array(counts)), block.first + counts

    def _bring_back(self) -> None:
        """What is left of files that were mostly struck out becomes blocks in memory."""
        for segment in list(self.log.segments):
            blocks = [block for block in self.log.blocks if block.segment is segment]
            if 2 * sum(block.n_alive for block in blocks) < sum(block.n_rows for block in blocks):
                living = list(self._sealed.read_file(segment, self._n_bytes_at_once, self.clock))
                self.log.drop(blocks)
                self._forget_dropped()
                for tuples, _, ids in living:
                    self.make_room(tuples.num_rows, tuples.nbytes)
                    self._keep(tuples, ids)

    def _compact(self) -> None:
        """Writes what is left of the head as new blocks; ids go along."""
        if self._queue is not None:
            self._queue.clear()
        if not self.log.head:
            return
        base, moved = self.log.rows.base, list[np.ndarray]()
        places = [np.arange(block.first - base, block.last - base) for block in self.log.head]
        alive = [each[~self.log.is_dead(block)] for each, block in zip(places, self.log.head)]
        ids = self._ids.array[np.concatenate(alive)]

        def cut(tuples: pa.Table) -> Iterator[pa.Table]:
            n_moved = sum(map(len, moved))
            numbered = tuples.append_column(DENSE, pa.array(ids[n_moved : n_moved + tuples.num_rows]))
            for part in sliced_by_end(numbered, self._cut_us):
                moved.append(int64_column(part, DENSE))
                yield part.drop_columns([DENSE])

        self.log.compact(cut)
        self._ids.resize(max(1, self.log.rows.n_rows))
        for block, its_ids in zip(self.log.head, moved, strict=True):
            self._ids.write(block.first - self.log.rows.base, its_ids)
            self._note(block, self.log.read(block))
        self._forget_dropped()
