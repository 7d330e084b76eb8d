"""A relation on disk, cut into segments: an extent each, which is read as a whole or not at all.

What stays in memory of a segment is how many rows and blocks it has. A row is its number and its key: whoever has the
number has the row. The last block of a segment is filled up with rows of number -1, which nobody asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.papers.exact.exact_kernels.relation_frames import RELATION_WIDTH, STREAM_WIDTH
from sash.store.batch import int64_column
from sash.store.block_disk import BlockDisk, Extent


class RelationRows(NamedTuple):
    """Rows of a relation: the number and the key of each. NULL is no key: nothing is equal to it."""

    rows: np.ndarray
    keys: np.ndarray


def relation_rows(keys: pa.Array | pa.ChunkedArray) -> RelationRows:
    """Rows by their keys, counted from 0; those without a key are left out, as they join with nobody."""
    return RelationRows(*_with_keys(keys))


def stream_tuples(keys: pa.Array | pa.ChunkedArray, times_us: np.ndarray, first_row: int = 0) -> np.ndarray:
    """Tuples of a stream as joins are fed: number, key and arrival. Those without a key never wait: they are cut."""
    rows, values = _with_keys(keys)
    records = np.empty((len(rows), STREAM_WIDTH), np.int64)
    records[:, 0], records[:, 1], records[:, 2] = rows + first_row, values, np.asarray(times_us)[rows]
    return records


class RelationSegments:
    """Segments by number."""

    def __init__(self, disk: BlockDisk, block_rows: int, wait: Callable[[float], None]):
        """`wait` is called with the seconds that each read takes. Writing takes none: it is done beforehand."""
        self.disk = disk
        self.n_rows = np.zeros(0, np.int64)
        self.n_reads = np.zeros(0, np.int64)
        """How often each segment was read."""
        self._block_rows, self._wait = block_rows, wait
        self._extents: list[Extent] = []

    def __len__(self) -> int:
        return len(self._extents)

    @property
    def n_blocks(self) -> np.ndarray:
        """The size of each segment."""
        return -(-self.n_rows // self._block_rows)

    @property
    def n_largest(self) -> int:
        """Blocks of the largest segment."""
        return int(self.n_blocks.max(initial=0))

    def append(self, relation: RelationRows) -> None:
        """One more segment, with its rows in this order."""
        self._extents.append(self.disk.append(self._as_blocks(relation)))
        self.n_rows = np.append(self.n_rows, len(relation.rows))
        self.n_reads = np.append(self.n_reads, 0)

    def replace(self, number: int, relation: RelationRows) -> None:
        """Other rows for a segment."""
        old, self._extents[number] = self._extents[number], self.disk.append(self._as_blocks(relation))
        self.disk.free(old)
        self.n_rows[number] = len(relation.rows)

    def read(self, number: int) -> np.ndarray:
        """All blocks of a segment."""
        extent, before = self._extents[number], self.disk.counts.seconds
        (blocks,) = self.disk.read(extent, [(0, extent.n_blocks)])
        self._wait(self.disk.counts.seconds - before)
        self.n_reads[number] += 1
        return blocks

    def rows(self, number: int) -> RelationRows:
        """The rows of a segment, read from disk, in their order there."""
        records = self.read(number).reshape(-1, RELATION_WIDTH)[: self.n_rows[number]]
        return RelationRows(records[:, 0].copy(), records[:, 1].copy())

    def _as_blocks(self, relation: RelationRows) -> np.ndarray:
        n_blocks = -(-len(relation.rows) // self._block_rows)
        records = np.full((n_blocks * self._block_rows, RELATION_WIDTH), -1)
        records[: len(relation.rows), 0], records[: len(relation.rows), 1] = relation
        return records.reshape(n_blocks, self._block_rows, RELATION_WIDTH)


def _with_keys(keys: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    chunked = keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([keys])
    table = pa.table({"key": chunked.cast(pa.int64()), "row": np.arange(len(chunked))})
    table = table.filter(table.column("key").is_valid())
    return int64_column(table, "row"), int64_column(table, "key")
