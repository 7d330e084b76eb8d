"""A log of blocks: the only thing of a window that has to survive.

    block 0        block 5              block 9
    [0 1 2 3 4]    [5 6 7 8]            [9 10 11 12]        rows, numbered for ever
     x x x x x          x  x             dead rows are named in small notes, a block goes when all its rows are dead

A batch appends its blocks and drops expired ones; nothing is rewritten, so what a checkpoint costs follows the batch,
not the window. `take_changes` says what has happened since it was last asked, as entries to put and keys to delete,
which any key-value store can keep; `restore` reads such entries back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

BLOCK_PREFIX, NOTE_PREFIX = "b", "d"


@dataclass(slots=True)
class Block:
    """Rows `first .. first + len(table) - 1`; `dead` marks those taken back, `notes` the log entries that say so."""

    first: int
    table: pa.Table
    dead: np.ndarray
    is_kept: bool = True
    notes: list[str] = field(default_factory=list)
    n_dead: int = 0

    @property
    def last(self) -> int:
        return self.first + self.table.num_rows

    @property
    def n_alive(self) -> int:
        return self.table.num_rows - self.n_dead

    def kill(self, offsets: np.ndarray) -> None:
        """Marks rows dead, by their place in the block; they may be dead already."""
        fresh = np.unique(offsets[~self.dead[offsets]])
        self.dead[fresh] = True
        self.n_dead += len(fresh)


class BlockLog:
    """Append-only rows in blocks, with deletion by row number and by whole block."""

    def __init__(self, schema: pa.Schema):
        self.schema = schema
        self.blocks: list[Block] = []
        self.next_row = 0
        self._puts: dict[str, bytes] = {}
        self._deletes: set[str] = set()

    def append(self, table: pa.Table, is_kept: bool = True) -> Block:
        """Adds a block. One that is not kept serves this step only and must be dropped before the step ends."""
        table = table.combine_chunks()
        block = Block(self.next_row, table, np.zeros(table.num_rows, dtype=bool), is_kept)
        self.next_row = block.last
        self.blocks.append(block)
        if is_kept:
            self._puts[f"{BLOCK_PREFIX}{block.first}"] = encode_table(table)
        return block

    def delete(self, rows: np.ndarray) -> None:
        """Marks rows dead; blocks without a living row are dropped."""
        rows = np.sort(rows)
        touched = []
        for block in self.blocks:
            low, high = np.searchsorted(rows, (block.first, block.last))
            if high > low:
                self._mark_dead(block, rows[low:high] - block.first)
                touched.append(block)
        self.drop([block for block in touched if block.n_alive == 0])

    def drop(self, blocks: Iterable[Block]) -> None:
        """Removes whole blocks."""
        gone = {block.first for block in blocks}
        if not gone:
            return
        for block in self.blocks:
            if block.first in gone and block.is_kept:
                self._forget([f"{BLOCK_PREFIX}{block.first}", *block.notes])
        self.blocks = [block for block in self.blocks if block.first not in gone]

    def take(self, rows: np.ndarray) -> pa.Table:
        """The given rows, in the given order."""
        if not len(rows):
            return self.schema.empty_table()
        if len(self.blocks) == 1:
            return self.blocks[0].table.take(pa.array(rows - self.blocks[0].first))
        firsts = np.fromiter((block.first for block in self.blocks), np.int64, len(self.blocks))
        starts = np.cumsum([0] + [block.table.num_rows for block in self.blocks[:-1]])
        owner = np.searchsorted(firsts, rows, side="right") - 1
        return pa.concat_tables(block.table for block in self.blocks).take(
            pa.array(rows - firsts[owner] + starts[owner])
        )

    @property
    def base(self) -> int:
        """Rows below this number are gone."""
        return self.blocks[0].first if self.blocks else self.next_row

    @property
    def n_rows(self) -> int:
        """Rows held, dead ones included: what the state costs."""
        return sum(block.table.num_rows for block in self.blocks)

    @property
    def n_bytes(self) -> int:
        return sum(block.table.nbytes for block in self.blocks)

    @property
    def is_sparse(self) -> bool:
        """Whether more than half of what is held is dead, so that rewriting it pays for itself."""
        return 2 * sum(block.n_alive for block in self.blocks) < self.n_rows

    def compact(self, cut: Callable[[pa.Table], Iterable[pa.Table]] = lambda rows: [rows]) -> None:
        """Writes the living rows as new blocks with new numbers; indexes over the log must be rebuilt.

        `cut` makes blocks of them, one if it is not given; what it leaves out is gone.
        """
        alive = pa.concat_tables(block.table.filter(pa.array(~block.dead)) for block in self.blocks)
        self.drop(list(self.blocks))
        for rows in cut(alive):
            self.append(rows)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """The entries to put and the keys to delete since the last call."""
        changes = self._puts, sorted(self._deletes)
        self._puts, self._deletes = {}, set()
        return changes

    def entries(self) -> dict[str, bytes]:
        """Everything that is held, as entries that `restore` understands."""
        held: dict[str, bytes] = {}
        for block in self.blocks:
            held[f"{BLOCK_PREFIX}{block.first}"] = encode_table(block.table)
            if block.dead.any():
                held[f"{NOTE_PREFIX}{block.first}.0"] = np.flatnonzero(block.dead).astype(np.int64).tobytes()
        return held

    def restore(self, entries: Mapping[str, bytes], next_row: int) -> None:
        """Becomes the log that the entries describe."""
        tables = {int(key[1:]): decode_table(value) for key, value in entries.items() if key.startswith(BLOCK_PREFIX)}
        self.blocks = [
            Block(first, table, np.zeros(table.num_rows, dtype=bool)) for first, table in sorted(tables.items())
        ]
        by_first = {block.first: block for block in self.blocks}
        for key, value in entries.items():
            if key.startswith(NOTE_PREFIX):
                block = by_first[int(key[1:].split(".")[0])]
                block.kill(np.frombuffer(value, np.int64))
                block.notes.append(key)
        self.next_row = next_row
        self._puts, self._deletes = {}, set()

    def _mark_dead(self, block: Block, offsets: np.ndarray) -> None:
        block.kill(offsets)
        if not block.is_kept:
            return
        key = f"{NOTE_PREFIX}{block.first}.{len(block.notes)}"
        block.notes.append(key)
        self._puts[key] = offsets.astype(np.int64).tobytes()

    def _forget(self, keys: list[str]) -> None:
        for key in keys:
            if self._puts.pop(key, None) is None:
                self._deletes.add(key)


def encode_table(table: pa.Table) -> bytes:
    """A table as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def decode_table(data: bytes) -> pa.Table:
    """The table that `encode_table` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
