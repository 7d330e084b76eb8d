"""A relation in a file, segment behind segment: what is not asked for is not in memory.

A file of this process has no name, so nothing of it outlives the process. One with a name is for all workers of a
machine, who map it. Neither is state: what is in it is written again where something starts again. A segment of a
relation that changes is written elsewhere in the file, and where it was is free for others.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.errors import ResourceError, SourceError
from sash.store.free_space import FreeSpace

KEY_COLUMN, ROW_COLUMN = "_sash_key", "_sash_row"
"""What is there beside the columns: the integer of the keys, by which rows are in order, and a row's number."""


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Where a segment is in its file, what it takes in memory, and its checksum."""

    first: int
    last: int
    n_bytes: int
    checksum: int


class RelationFile:
    """Segments by number."""

    def __init__(self, file: int, path: Path, places: Sequence[SegmentPlace] = ()):
        """`file` is open, and closed with this; `path` is for messages. See `unnamed`, `named` and `opened`."""
        self._file = file
        weakref.finalize(self, os.close, file)
        self._path = path
        self.places = list(places)
        self.sizes = np.array([each.n_bytes for each in places], np.int64)
        """Bytes that each segment takes in memory."""
        self.n_reads = np.zeros(len(places), np.int64)
        self.n_writes = np.ones(len(places), np.int64)
        """How often each segment was read, and written."""
        self._free = FreeSpace(max((each.last for each in places), default=0))
        self._map: mmap.mmap | None = None
        self._tables: dict[int, pa.Table] = {}
        """By segment that was mapped, where its columns are."""

    @classmethod
    def unnamed(cls, directory: Path) -> RelationFile:
        """A new one that goes with this process."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory, prefix="sash-relation-") as file:
                return cls(os.dup(file.fileno()), directory)
        except OSError as error:
            raise no_room(directory, error) from None

    @classmethod
    def named(cls, path: Path) -> RelationFile:
        """A new one that others can open."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), path)
        except OSError as error:
            raise no_room(path.parent, error) from None

    @classmethod
    def opened(cls, path: Path, places: Sequence[SegmentPlace]) -> RelationFile:
        """One that was written, perhaps by another process, with these places; its segments are mapped."""
        try:
            file = cls(os.open(path, os.O_RDONLY), path, places)
            n_bytes = max((each.last for each in places), default=0)
            if os.fstat(file._file).st_size < n_bytes:
                raise _damaged(path, f"it should have {n_bytes:,} bytes")
            file._map = mmap.mmap(file._file, n_bytes, prot=mmap.PROT_READ) if n_bytes else None
            return file
        except OSError as error:
            raise _damaged(path, error.strerror or str(error)) from None

    def __len__(self) -> int:
        return len(self.places)

    @property
    def directory(self) -> Path:
        """Where it is."""
        return self._path if self._path.is_dir() else self._path.parent

    def append(self, table: pa.Table) -> None:
        """Writes one more segment: rows in order of keys, each with its key and its number."""
        self.places.append(self._write(_encode(table), table.nbytes))
        self.sizes = np.append(self.sizes, table.nbytes)
        self.n_reads, self.n_writes = np.append(self.n_reads, 0), np.append(self.n_writes, 1)

    def rewrite(self, number: int, table: pa.Table) -> None:
        """Writes a segment anew. If there is no room for it, it is as it was."""
        old, self.places[number] = self.places[number], self._write(_encode(table), table.nbytes)
        self._free.give_back(old.first, old.last)
        self._tables.pop(number, None)
        self.sizes[number] = table.nbytes
        self.n_writes[number] += 1

    @property
    def n_bytes(self) -> int:
        """How long it is."""
        return self._free.end

    def read(self, number: int) -> pa.Table:
        """A segment, in memory; of a file that was opened, mapped there. Raises SourceError if it is damaged."""
        self.n_reads[number] += 1
        place = self.places[number]
        is_mapped = self._map is not None and place.last <= len(self._map)
        data = self._mapped(place) if is_mapped else self._copied(place)
        if len(data) < place.last - place.first or zlib.crc32(data) != place.checksum:
            raise _damaged(self._path, f"segment {number} is not as it was written")
        return pa.ipc.open_stream(pa.py_buffer(data)).read_all()

    def map(self, number: int) -> pa.Table:
        """A segment where it is: what is looked at of it is read by the system, page by page, and not checked."""
        if number not in self._tables:
            if self._map is None or len(self._map) < self.places[number].last:
                self._map = mmap.mmap(self._file, self._free.end, prot=mmap.PROT_READ)
            self._tables[number] = pa.ipc.open_stream(pa.py_buffer(self._mapped(self.places[number]))).read_all()
        return self._tables[number]

    def release(self, number: int) -> None:
        """Lets the system have the pages of a segment that is mapped: it is wanted no more."""
        place = self.places[number]
        if self._map is not None and place.last <= len(self._map):
            first = -(-place.first // mmap.PAGESIZE) * mmap.PAGESIZE
            if place.last - first >= mmap.PAGESIZE:
                self._map.madvise(mmap.MADV_DONTNEED, first, place.last - first)

    def sync(self) -> None:
        """What was written is safe from now on."""
        os.fsync(self._file)

    def _mapped(self, place: SegmentPlace) -> memoryview:
        assert self._map is not None
        return memoryview(self._map)[place.first : place.last]

    def _copied(self, place: SegmentPlace) -> bytearray:
        data = bytearray()
        while place.first + len(data) < place.last:
            part = os.pread(self._file, place.last - place.first - len(data), place.first + len(data))
            if not part:
                break
            data += part
        return data

    def _write(self, data: memoryview, n_bytes: int) -> SegmentPlace:
        first, n_written = self._free.take(len(data)), 0
        try:
            while n_written < len(data):
                n_written += os.pwrite(self._file, data[n_written:], first + n_written)
        except OSError as error:
            self._free.give_back(first, first + len(data))
            raise no_room(self._path, error) from None
        return SegmentPlace(first, first + n_written, n_bytes, zlib.crc32(data))


def _encode(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return memoryview(sink.getvalue())


def no_room(directory: Path, error: OSError) -> ResourceError:
    """What is said where segments cannot be written."""
    return ResourceError(
        f"segments of a relation cannot be written to `{directory}`: {error.strerror}; make room there, or let "
        "SASH_SPILL or `sash.configure(spill=…)` name a larger disk"
    )


def _damaged(path: Path, reason: str) -> SourceError:
    return SourceError(f"the segments of a relation in `{path}` cannot be read: {reason}; start the query again")
