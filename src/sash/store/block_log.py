"""A log of blocks: the only thing of a window that has to survive.

    block 0        block 1              block 2
    [0 1 2 3 4]    [5 6 7 8]            [9 10 11 12]        rows
     x x x x x          x  x             dead rows are named in small notes, a block goes when all its rows are dead

A batch appends its blocks and drops expired ones; nothing is rewritten, so what a checkpoint costs follows the batch,
not the window. `take_changes` says what has happened since it was last asked, as entries to put and keys to delete,
which any key-value store can keep; `restore` reads such entries back. Blocks keep their numbers for ever; rows are
numbered anew by every process that reads the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.store.codec import decode_table, encode_table
from sash.store.rows import Rows
from sash.store.vector import Arena, Memory, Vector

BLOCK_PREFIX, NOTE_PREFIX = "b", "d"

Adapt: TypeAlias = Callable[[pa.Table], pa.Table]
"""Makes rows of a log's schema of rows that were kept with another one."""


def as_it_is(table: pa.Table) -> pa.Table:
    return table


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

    @property
    def is_kept(self) -> bool:
        return self.number >= 0

    @property
    def last(self) -> int:
        return self.first + self.n_rows

    @property
    def n_alive(self) -> int:
        return self.n_rows - self.n_dead


class BlockLog:
    """Append-only rows in blocks, with deletion by row number and by whole block."""

    def __init__(self, schema: pa.Schema, arena: Arena | None = None):
        arena = arena or Memory()
        self.schema = schema
        self._arena = arena
        self.rows = Rows(schema, arena)
        self.blocks: list[Block] = []
        self.next_number = 0
        self._dead = Vector(np.bool_, arena)
        self._puts: dict[str, bytes | Block] = {}
        """A block is encoded when it is asked for: many are gone by then, and in one process nobody asks."""
        self._deletes: set[str] = set()

    def append(self, table: pa.Table, is_kept: bool = True) -> Block:
        """Adds a block. One that is not kept serves this step only and must be dropped before the step ends."""
        table = table.combine_chunks()
        if not is_kept:
            return self._add(-1, table)
        block = self._add(self.next_number, table)
        self.next_number += 1
        self._puts[f"{BLOCK_PREFIX}{block.number}"] = block
        return block

    def read(self, block: Block) -> pa.Table:
        """A block's rows, dead ones included; good until the log changes."""
        return self.rows.read(block.first, block.n_rows)

    def is_dead(self, block: Block) -> np.ndarray:
        """Which of a block's rows were taken back; good until the log changes."""
        start = block.first - self.rows.base
        return self._dead.array[start : start + block.n_rows]

    def delete(self, rows: np.ndarray) -> None:
        """Marks rows dead; blocks without a living row are dropped."""
        rows = np.sort(rows)
        touched = []
        for block in self.blocks:
            low, high = np.searchsorted(rows, (block.first, block.last))
            if high > low:
                self._note_dead(block, rows[low:high] - block.first)
                touched.append(block)
        self.drop([block for block in touched if block.n_alive == 0])

    def drop(self, blocks: Iterable[Block]) -> None:
        """Removes whole blocks."""
        gone = {block.first for block in blocks}
        if not gone:
            return
        for block in self.blocks:
            if block.first in gone and block.is_kept:
                self._forget([f"{BLOCK_PREFIX}{block.number}", *block.notes])
        self.blocks = [block for block in self.blocks if block.first not in gone]

    def trim(self, *aligned: Vector) -> None:
        """Gives back the room of rows that are gone, once they are most. `aligned` are vectors with an item per row."""
        n_gone, n_rows = self.base - self.rows.base, self.rows.n_rows
        if 2 * n_gone > n_rows:
            for vector in (self._dead, *aligned):
                vector.drop(n_gone, n_rows)
            self.rows.drop_before(self.base)

    @property
    def base(self) -> int:
        """Rows below this number are gone."""
        return self.blocks[0].first if self.blocks else self.next_row

    @property
    def next_row(self) -> int:
        return self.rows.next_row

    @property
    def n_rows(self) -> int:
        """Rows held, dead ones included: what the state costs."""
        return sum(block.n_rows for block in self.blocks)

    @property
    def n_bytes(self) -> int:
        """Bytes of all blocks' rows in memory."""
        return sum(block.n_bytes for block in self.blocks)

    @property
    def is_sparse(self) -> bool:
        """Whether more than half of what is held is dead, so that rewriting it pays for itself."""
        return 2 * sum(block.n_alive for block in self.blocks) < self.n_rows

    def compact(self, cut: Callable[[pa.Table], Iterable[pa.Table]] = lambda rows: [rows]) -> None:
        """Writes the living rows as new blocks with new numbers; indexes over the log must be rebuilt.

        `cut` makes blocks of them, one if it is not given; what it leaves out is gone.
        """
        alive = pa.concat_tables(self.read(block).filter(pa.array(~self.is_dead(block))) for block in self.blocks)
        self.drop(list(self.blocks))
        self._clear(self.next_row)
        for rows in cut(alive.combine_chunks()):
            self.append(rows)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """The entries to put and the keys to delete since the last call."""
        puts = {key: encode_table(self.read(put)) if isinstance(put, Block) else put for key, put in self._puts.items()}
        changes = puts, sorted(self._deletes)
        self._puts, self._deletes = {}, set()
        return changes

    def entries(self) -> dict[str, bytes]:
        """Everything that is held, as entries that `restore` understands."""
        held: dict[str, bytes] = {}
        for block in self.blocks:
            held[f"{BLOCK_PREFIX}{block.number}"] = encode_table(self.read(block))
            if block.n_dead:
                held[f"{NOTE_PREFIX}{block.number}.0"] = np.flatnonzero(self.is_dead(block)).astype(np.int64).tobytes()
        return held

    def restore(self, entries: Mapping[str, bytes], next_number: int, adapt: Adapt = as_it_is) -> None:
        """Becomes the log that the entries describe. They are read one at a time."""
        self._clear(0)
        self.blocks, self.next_number = [], next_number
        by_number: dict[int, Block] = {}
        for number in sorted(int(key[1:]) for key in entries if key.startswith(BLOCK_PREFIX)):
            value = entries[f"{BLOCK_PREFIX}{number}"]
            by_number[number] = self._add(number, adapt(decode_table(value)))
            self._arena.release_pages()
        for key in entries:
            if key.startswith(NOTE_PREFIX):
                block = by_number[int(key[1:].split(".")[0])]
                self._mark_dead(block, np.frombuffer(entries[key], np.int64))
                block.notes.append(key)
        self._puts, self._deletes = {}, set()

    def _add(self, number: int, table: pa.Table) -> Block:
        block = Block(number, self.next_row, table.num_rows, table.nbytes)
        self._dead.write(self.rows.n_rows, np.zeros(table.num_rows, np.bool_))
        self.rows.append(table)
        self.blocks.append(block)
        return block

    def _clear(self, base: int) -> None:
        self.rows.clear(base)
        self._dead.resize(1)

    def _mark_dead(self, block: Block, offsets: np.ndarray) -> None:
        """Marks rows dead, by their place in the block; they may be dead already."""
        dead = self.is_dead(block)
        fresh = np.unique(offsets[~dead[offsets]])
        dead[fresh] = True
        block.n_dead += len(fresh)

    def _note_dead(self, block: Block, offsets: np.ndarray) -> None:
        self._mark_dead(block, offsets)
        if not block.is_kept:
            return
        key = f"{NOTE_PREFIX}{block.number}.{len(block.notes)}"
        block.notes.append(key)
        self._puts[key] = offsets.astype(np.int64).tobytes()

    def _forget(self, keys: list[str]) -> None:
        for key in keys:
            if self._puts.pop(key, None) is None:
                self._deletes.add(key)
