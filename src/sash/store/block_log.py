"""A log of blocks: the only thing of a window that has to survive.

    block 0        block 1              block 2
    [0 1 2 3 4]    [5 6 7 8]            [9 10 11 12]        rows
     x x x x x          x  x             dead rows are named in small notes, a block goes when all its rows are dead

The oldest blocks may be sealed: their rows are then in a segment on disk, under new numbers, and only what is known of
the block stays in memory. They are read, marked dead and dropped like the others; the rest is the log's head.

A batch appends its blocks and drops expired ones; nothing is rewritten, so what a checkpoint costs follows the batch,
not the window. `take_changes` says what has happened since it was last asked, as entries to put and keys to delete,
which any key-value store can keep; `restore` reads such entries back. Blocks keep their numbers for ever; rows are
numbered anew by every process that reads the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.store.block import BLOCK_PREFIX, NOTE_PREFIX, Block, BlockEntries, at_once
from sash.store.codec import decode_table, encode_table
from sash.store.log_segments import free_unused, original_rows, put_guides_away, split_by_segment
from sash.store.rows import Rows
from sash.store.segment import WindowSegment
from sash.store.vector import Arena, Memory, Vector

Adapt: TypeAlias = Callable[[pa.Table], pa.Table]
"""Makes rows of a log's schema of rows that were kept with another one."""


def as_it_is(table: pa.Table) -> pa.Table:
    return table


class BlockLog:
    """Append-only rows in blocks, with deletion by row number and by whole block."""

    def __init__(self, schema: pa.Schema, arena: Arena | None = None):
        arena = arena or Memory()
        self.schema = schema
        self.arena = arena
        self.rows = Rows(schema, arena)
        self.blocks: list[Block] = []
        self.segments: list[WindowSegment] = []
        """Those that hold the rows of sealed blocks, in order of their rows."""
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
        if block.segment is not None:
            return block.segment.take(block.segment.rows_from(block.first, block.last), self.schema.names)
        return self.rows.read(block.first, block.n_rows)

    def take(self, rows: np.ndarray, names: list[str] | None = None) -> pa.Table:
        """A copy of the given rows, in the given order, of all or some columns; wherever they are."""
        names = self.schema.names if names is None else names
        if not self.segments or not len(rows) or rows.min() >= self.rows.base:
            return self.rows.take(rows, names)
        if np.any(rows[1:] < rows[:-1]):
            order = np.argsort(rows, kind="stable")
            return self.take(rows[order], names).take(pa.array(np.argsort(order)))
        parts = [segment.take(rows[mine[0] : mine[-1] + 1], names) for segment, mine in self.by_segment(rows)]
        n_sealed = int(np.searchsorted(rows, self.rows.base))
        return pa.concat_tables([*parts, self.rows.take(rows[n_sealed:], names)]).combine_chunks()

    def by_segment(self, rows: np.ndarray) -> Iterator[tuple[WindowSegment, np.ndarray]]:
        """The segments that hold some of the rows, and which of them; those in memory are left out."""
        return split_by_segment(self.segments, self.rows.base, rows)

    def is_dead(self, block: Block) -> np.ndarray:
        """Which of a block's rows were taken back; good until the log changes."""
        if block.gone is not None:
            flags = np.zeros(block.n_rows, np.bool_)
            flags[block.gone] = True
            return flags
        start = block.first - self.rows.base
        return self._dead.array[start : start + block.n_rows]

    def delete(self, rows: np.ndarray) -> None:
        """Marks rows dead; blocks without a living row are dropped."""
        rows = np.sort(original_rows(self.segments, self.rows.base, rows))
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
        self.segments = free_unused(self.segments, self.blocks)

    def trim(self, *aligned: Vector) -> None:
        """Gives back the room of rows that are gone, once they are most. `aligned` are vectors with an item per row."""
        if 2 * (self.base - self.rows.base) > self.rows.n_rows:
            self._drop_before(self.base, aligned)

    def oldest(self, n_rows: int) -> list[Block]:
        """The oldest blocks of the head, until there are so many rows."""
        blocks, n_found = list[Block](), 0
        for block in self.head:
            if n_found >= n_rows:
                break
            blocks.append(block)
            n_found += block.n_rows
        return blocks

    def seal(self, blocks: Iterable[Block], segment: WindowSegment, *aligned: Vector) -> None:
        """From now on the rows of these blocks, the oldest in memory, are in the segment; their room is given back."""
        for block in blocks:
            block.gone = np.flatnonzero(self.is_dead(block))
            block.segment = segment
        self.segments.append(segment)
        self._drop_before(self.base, aligned)
        put_guides_away(self.segments, self, self.arena.budget)

    def gone_in_segments(self) -> dict[str, np.ndarray]:
        """By the name of a segment's file, the dead rows among its own, by the numbers that they had; ascending."""
        found: dict[str, list[np.ndarray]] = {}
        for block in self.blocks:
            if block.segment is not None and block.gone is not None and len(block.gone):
                found.setdefault(block.segment.name, []).append(block.first + block.gone)
        return {name: np.concatenate(each) for name, each in found.items()}

    @property
    def head(self) -> list[Block]:
        """The blocks whose rows are in memory: the newest."""
        return self.blocks[self._n_sealed :]

    @property
    def base(self) -> int:
        """Rows below this number are not in memory: they are gone, or sealed."""
        n_sealed = self._n_sealed
        return self.blocks[n_sealed].first if n_sealed < len(self.blocks) else self.next_row

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
    def n_head_rows(self) -> int:
        """Rows held in memory, dead ones included."""
        return sum(block.n_rows for block in self.head)

    @property
    def n_disk_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.n_file_bytes for segment in self.segments)

    @property
    def n_guide_bytes(self) -> int:
        """What is known by heart of all segments."""
        return sum(segment.n_guide_bytes for segment in self.segments)

    @property
    def is_sparse(self) -> bool:
        """Whether more than half of what is held in memory is dead, so that rewriting it pays for itself."""
        return 2 * sum(block.n_alive for block in self.head) < self.n_head_rows

    def compact(self, cut: Callable[[pa.Table], Iterable[pa.Table]] = lambda rows: [rows]) -> None:
        """Writes the living rows of the head as new blocks with new numbers; indexes over them must be rebuilt.

        `cut` makes blocks of them, one if it is not given; what it leaves out is gone.
        """
        for blocks in at_once(self.head, self.arena.budget):
            alive = pa.concat_tables(self.read(block).filter(pa.array(~self.is_dead(block))) for block in blocks)
            self.drop(blocks)
            if self.n_head_rows:
                self.trim()
            else:
                self._clear(self.next_row)
            for rows in cut(alive.combine_chunks()):
                self.append(rows)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """The entries to put and the keys to delete since the last call."""
        puts = {key: encode_table(self.read(put)) if isinstance(put, Block) else put for key, put in self._puts.items()}
        changes = puts, sorted(self._deletes)
        self._puts, self._deletes = {}, set()
        return changes

    def entries(self) -> Mapping[str, bytes]:
        """Everything that is held, as entries that `restore` understands; made as they are asked for, until the log
        changes.
        """
        return BlockEntries(self.blocks, self.read, self.is_dead)

    def restore(
        self,
        entries: Mapping[str, bytes],
        next_number: int,
        adapt: Adapt = as_it_is,
        see: Callable[[Block], None] = lambda block: None,
    ) -> None:
        """Becomes the log that the entries describe. They are read one at a time, the oldest first, and `see` is called
        with each block; it may seal those that it has seen.
        """
        self.drop(list(self.blocks))
        self._clear(0)
        self.next_number = next_number
        notes: dict[int, list[str]] = {}
        for key in entries:
            if key.startswith(NOTE_PREFIX):
                notes.setdefault(int(key[1:].split(".")[0]), []).append(key)
        for number in sorted(int(key[1:]) for key in entries if key.startswith(BLOCK_PREFIX)):
            block = self._add(number, adapt(decode_table(entries[f"{BLOCK_PREFIX}{number}"])))
            block.notes = notes.get(number, [])
            for key in block.notes:
                self._mark_dead(block, np.frombuffer(entries[key], np.int64))
            see(block)
            self.arena.release_pages()
        self._puts, self._deletes = {}, set()

    @property
    def _n_sealed(self) -> int:
        """Blocks that are sealed: they stand before all others."""
        return bisect_left(self.blocks, True, key=lambda block: block.segment is None) if self.segments else 0

    def _add(self, number: int, table: pa.Table) -> Block:
        block = Block(number, self.next_row, table.num_rows, table.nbytes)
        self._dead.write(self.rows.n_rows, np.zeros(table.num_rows, np.bool_))
        self.rows.append(table)
        self.blocks.append(block)
        return block

    def _drop_before(self, row: int, aligned: Iterable[Vector]) -> None:
        n_gone, n_rows = row - self.rows.base, self.rows.n_rows
        for vector in (self._dead, *aligned):
            vector.drop(n_gone, n_rows)
        self.rows.drop_before(row)

    def _clear(self, base: int) -> None:
        self.rows.clear(base)
        self._dead.resize(1)

    def _mark_dead(self, block: Block, offsets: np.ndarray) -> None:
        """Marks rows dead, by their place in the block; they may be dead already."""
        if block.gone is None:
            dead = self.is_dead(block)
            dead[offsets] = True
            block.n_dead = int(np.count_nonzero(dead))
        else:
            block.gone = np.union1d(block.gone, offsets)
            block.n_dead = len(block.gone)

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
