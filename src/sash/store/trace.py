"""The signed tuples of an operator's input, and what they make happen as time goes by.

    tuple            +a [1, 9)      -a at 4, of the same       +b [2, 6)
    happens          +a at 1        -a at 4                    +b at 2, and by itself -b at 6

A tuple counts with its sign from `_ts` until before `_expires`. So one that is taken back early needs no searching:
both are kept, and from `_expires` on, where both stop to count, neither matters. Only tuples that never expire would
pile up; once the taken back are most of a log, they and what they take back are struck out together.

A trace that is *clocked* lets tuples expire by the clock it is handed (Time Probing, Pipelines §3.1). One that is not
is told by negative tuples that a W-EXPIRE below makes (§3.2); it keeps the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.store.batch import BEGINNING, EXPIRES, OP, TS, concat, int64_column, signs
from sash.store.block_log import BlockLog
from sash.store.block_window import cut_length, sliced_by_end
from sash.store.expiry_queue import ExpiryQueue
from sash.store.key_index import KeyIndex
from sash.store.keys import hash_rows, is_hashable, one_chunk
from sash.store.vector import Arena, Memory, Vector

DENSE = "_dense"
MIN_STRUCK_OUT = 1024

IdsOf: TypeAlias = Callable[[pa.Table], np.ndarray]
"""The dense id of every tuple's key. Called again on the same tuples when a trace is rebuilt."""


class Events:
    """What happens, in order of time, then id; of one id at one instant, what enters comes before what leaves.

    A *run* is what happens to one id at one instant.
    """

    def __init__(self, parts: list[pa.Table], times: np.ndarray, ids: np.ndarray, signs: np.ndarray):
        self._parts = parts
        self._order = _order_of(times, ids, signs)
        self.times, self.ids, self.signs = (
            (times, ids, signs) if self._order is None else (each[self._order] for each in (times, ids, signs))
        )

    def __len__(self) -> int:
        return len(self.times)

    def column(self, name: str) -> pa.Array:
        """A column of the tuples that events happen to."""
        chunks = [chunk for part in self._parts for chunk in part.column(name).chunks]
        array = pa.concat_arrays(chunks) if chunks else pa.array([], self._parts[0].schema.field(name).type)
        return array if self._order is None else array.take(pa.array(self._order))

    def int64(self, name: str) -> np.ndarray:
        """An integer column without NULLs."""
        return self.column(name).to_numpy(zero_copy_only=False)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where runs begin, and where the last one ends."""
        if not len(self):
            return np.zeros(1, np.int64)
        is_new = (self.times[1:] != self.times[:-1]) | (self.ids[1:] != self.ids[:-1])
        return np.concatenate([[0], np.flatnonzero(is_new) + 1, [len(self)]])

    @cached_property
    def run_times(self) -> np.ndarray:
        return self.times[self.starts[:-1]]

    @cached_property
    def run_ids(self) -> np.ndarray:
        return self.ids[self.starts[:-1]]


class Trace:
    """Tuples in a log, with the id of each tuple's key, and a queue of those that expire."""

    def __init__(
        self, schema: pa.Schema, window_us: int | None, expires_by_negatives: bool, arena: Arena | None = None
    ):
        """`window_us` is the longest life of a tuple if there is one."""
        arena = arena or Memory()
        self.log = BlockLog(schema, arena)
        self._cut_us = cut_length(window_us)
        self._ids = Vector(np.int64, arena)
        self._queue = None if expires_by_negatives else ExpiryQueue(arena)
        self._blocks: dict[int, tuple[int, int]] = {}
        """By the first row of a block: when the last of its tuples expires, and how many take another one back."""
        self.clock = BEGINNING
        """Up to which things have happened; has to survive beside the log."""

    def step(self, batch: pa.Table, ids: np.ndarray, clock: int) -> Events:
        """What happens up to and including `clock`, when these tuples, with these ids, have come.

        They must not be newer than the clock, and newer than the clock of the step before.
        """
        expires, ops = int64_column(batch, EXPIRES), signs(batch)
        stays = expires > clock
        parts, times, all_ids, all_signs = [batch], [int64_column(batch, TS)], [ids], [ops]
        if self._queue is not None:
            gone = np.flatnonzero(~stays)
            due_at, due = self._due(clock)
            parts += [batch.take(pa.array(gone)), self.log.rows.take(due)]
            times += [expires[gone], due_at]
            all_ids += [ids[gone], self._ids.array[due - self.log.rows.base]]
            all_signs += [-ops[gone], -signs(parts[-1])]
        events = Events(parts, *(np.concatenate(each) for each in (times, all_ids, all_signs)))
        self._keep(batch if stays.all() else batch.filter(pa.array(stays)), ids[stays])
        self.clock = clock
        return events

    def evict(self, ids_of: IdsOf) -> None:
        """Forgets what does not count any more."""
        dead = [block for block in self.log.blocks if self._blocks[block.first][0] <= self.clock]
        if dead:
            self.log.drop(dead)
            for block in dead:
                del self._blocks[block.first]
        n_negative = sum(n_negative for _, n_negative in self._blocks.values())
        if 4 * n_negative > self.log.n_rows + MIN_STRUCK_OUT:
            self._strike_out()
            self._index(ids_of)
        else:
            self.log.trim(self._ids)

    def _due(self, clock: int) -> tuple[np.ndarray, np.ndarray]:
        """When tuples expire, and their rows. A key that is gone has only some that take each other back."""
        assert self._queue is not None
        due_at, due = self._queue.pop(clock)
        is_known = self._ids.array[due - self.log.rows.base] >= 0
        return (due_at, due) if is_known.all() else (due_at[is_known], due[is_known])

    def pace(self, clock: int, n_max: int) -> int:
        """The latest time up to which at most about `n_max` tuples expire by themselves; `clock` at most."""
        return clock if self._queue is None else self._queue.pace(clock, n_max)

    def renumber(self, mapping: np.ndarray) -> None:
        """Takes on new ids, by the old ones; -1 for a key that is gone."""
        ids = self._ids.array[: self.log.rows.n_rows]
        ids[:] = np.where(ids < 0, -1, mapping[ids])

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int, ids_of: IdsOf) -> Iterator[Events]:
        """Becomes the trace that the log's entries and the clock describe; see `rebuild`."""
        self.log.restore(entries, next_number)
        self.clock = clock
        return self.rebuild(ids_of)

    def rebuild(self, ids_of: IdsOf) -> Iterator[Events]:
        """Finds out all ids anew; what counts comes back, block by block, as if it happened at once."""
        self._index(ids_of)
        for block in self.log.blocks:
            tuples = self.log.read(block)
            counts = np.flatnonzero(int64_column(tuples, EXPIRES) > self.clock)
            tuples = tuples.take(pa.array(counts))
            ids = self._ids.array[counts + block.first - self.log.rows.base]
            yield Events([tuples], np.zeros(len(counts), np.int64), ids, signs(tuples))

    def _keep(self, tuples: pa.Table, ids: np.ndarray) -> None:
        """Appends tuples in blocks; their ids go along while slices are cut and put in order."""
        for part in sliced_by_end(tuples.append_column(DENSE, pa.array(ids)), self._cut_us):
            self._append(part.drop_columns([DENSE]), int64_column(part, DENSE))

    def _append(self, tuples: pa.Table, ids: np.ndarray) -> None:
        block = self.log.append(tuples)
        at = block.first - self.log.rows.base
        self._ids.write(at, ids)
        self._note(block.first, tuples)

    def _note(self, first: int, tuples: pa.Table) -> None:
        expires = int64_column(tuples, EXPIRES)
        self._blocks[first] = int(expires.max()), int((signs(tuples) < 0).sum())
        if self._queue is not None:
            waits = np.flatnonzero(expires > self.clock)
            self._queue.push(expires[waits], first + waits)

    def _index(self, ids_of: IdsOf) -> None:
        self._blocks = {}
        if self._queue is not None:
            self._queue.clear()
        self._ids.resize(max(1, self.log.rows.n_rows))
        for block in self.log.blocks:
            tuples = self.log.read(block)
            self._ids.write(block.first - self.log.rows.base, ids_of(tuples))
            self._note(block.first, tuples)

    def _strike_out(self) -> None:
        """Removes every tuple that was taken back together with what takes it back, and all that has expired."""
        content = pa.schema([field for field in self.log.schema if field.name not in (TS, OP)])
        self.log.delete(np.concatenate([self._struck_out(content, *held) for held in self._alike(content)]))
        if self.log.blocks:
            self.log.compact(lambda tuples: sliced_by_end(tuples, self._cut_us))

    def _alike(self, content: pa.Schema) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """All tuples and their rows; where memory is limited in parts, with tuples of the same content in the same."""
        hashed = [field.name for field in content if is_hashable(field.type)]
        budget = self.log.arena.budget
        n_parts = 1 if budget is None or not hashed else -(-self.log.n_bytes // budget.step_bytes)
        for part in range(n_parts):
            tables, rows = [self.log.schema.empty_table()], [np.empty(0, np.int64)]
            for block in self.log.blocks:
                tuples, mine = self.log.read(block), np.arange(block.n_rows)
                if n_parts > 1:
                    hashes = hash_rows([one_chunk(tuples.column(name)) for name in hashed])
                    mine = np.flatnonzero(hashes % np.uint64(n_parts) == part)
                    tuples = tuples.take(pa.array(mine))
                tables.append(tuples)
                rows.append(block.first + mine)
            yield concat(tables), np.concatenate(rows)

    def _struck_out(self, content: pa.Schema, held: pa.Table, rows: np.ndarray) -> np.ndarray:
        """Of tuples, with all that have the same content, the rows that go."""
        if not len(rows):
            return rows
        alike, ops = KeyIndex(content).encode(held.select(content.names)), signs(held)
        retracted = np.bincount(alike[ops < 0], minlength=alike.max() + 1)
        order = np.lexsort((-ops, alike))
        place_in_kind = np.arange(len(order)) - np.searchsorted(alike[order], alike[order])
        goes = (ops[order] < 0) | (place_in_kind < retracted[alike[order]])
        goes |= int64_column(held, EXPIRES)[order] <= self.clock
        return rows[order[goes]]


def _order_of(times: np.ndarray, ids: np.ndarray, signs: np.ndarray) -> np.ndarray | None:
    """The order of events; None if they stand in it."""
    if len(times) < 2 or np.all(times[1:] > times[:-1]):
        return None
    return np.lexsort((-signs, ids, times))
