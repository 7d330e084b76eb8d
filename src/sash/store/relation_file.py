"""A relation in a file, segment behind segment: what is not asked for is not in memory.

The file has no name, so nothing of it outlives the process, and it is no state: a relation does not change, so it is
written again where something starts again.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.errors import ResourceError

KEY_COLUMN, ROW_COLUMN = "_sash_key", "_sash_row"
"""What is there beside the columns: the integer of the keys, by which rows are in order, and a row's number."""


class RelationFile:
    """Segments by number."""

    def __init__(self, directory: Path):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory, prefix="sash-relation-") as file:
                self._file = os.dup(file.fileno())
        except OSError as error:
            raise _no_room(directory, error) from None
        weakref.finalize(self, os.close, self._file)
        self._directory = directory
        self._spans: list[tuple[int, int]] = []
        """Where each segment begins, and where it ends."""
        self.sizes = np.zeros(0, np.int64)
        """Bytes that each segment takes in memory."""
        self.n_reads = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._spans)

    def append(self, relation: pa.Table, keys: np.ndarray, rows: np.ndarray) -> None:
        """Writes a segment: these rows of a relation, of which each has a key."""
        chosen = rows[np.lexsort((rows, keys[rows]))]
        table = relation.take(pa.array(chosen))
        table = table.append_column(KEY_COLUMN, pa.array(keys[chosen])).append_column(ROW_COLUMN, pa.array(chosen))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._write(memoryview(sink.getvalue()))
        self.sizes = np.append(self.sizes, table.nbytes)
        self.n_reads = np.append(self.n_reads, 0)

    def read(self, number: int) -> pa.Table:
        """A segment, in memory."""
        self.n_reads[number] += 1
        first, last = self._spans[number]
        data = bytearray()
        while first + len(data) < last:
            data += os.pread(self._file, last - first - len(data), first + len(data))
        return pa.ipc.open_stream(pa.py_buffer(data)).read_all().combine_chunks()

    def map(self, number: int) -> pa.Table:
        """A segment where it is: what is looked at of it is read by the system, page by page."""
        first, last = self._spans[number]
        mapped = memoryview(mmap.mmap(self._file, last, prot=mmap.PROT_READ))
        return pa.ipc.open_stream(pa.py_buffer(mapped[first:])).read_all()

    def _write(self, data: memoryview) -> None:
        first, n_written = self._spans[-1][1] if self._spans else 0, 0
        try:
            while n_written < len(data):
                n_written += os.pwrite(self._file, data[n_written:], first + n_written)
        except OSError as error:
            raise _no_room(self._directory, error) from None
        self._spans.append((first, first + n_written))


def _no_room(directory: Path, error: OSError) -> ResourceError:
    return ResourceError(
        f"segments of a relation cannot be written to `{directory}`: {error.strerror}; make room there, or let "
        "SASH_SPILL or `sash.configure(spill=…)` name a larger disk"
    )
