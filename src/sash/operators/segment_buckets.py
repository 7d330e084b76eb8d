"""Rows of a relation by segment: through files where they are many, so that `BUCKET_BYTES` of them are in memory.

rows, as they come ── buckets, files of many segments ── one by one: sorted, segment by segment
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.store.batch import int64_column
from sash.store.codec import decode_table, encode_table
from sash.store.relation_file import KEY_COLUMN, ROW_COLUMN, no_room

BUCKET_BYTES = 8 << 20
"""So much of a relation is sorted at once."""
MOST_BUCKETS = 256
SEGMENT_COLUMN = "_sash_segment"


def number_rows(rows: pa.Table, keys: np.ndarray, first: int, segments: np.ndarray) -> pa.Table:
    """Rows with their keys, their numbers, from one on, and their segments; columns are called 0, 1, 2 …"""
    numbers = np.arange(first, first + rows.num_rows)
    rows = rows.rename_columns([str(number) for number in range(rows.num_columns)])
    for name, values in ((KEY_COLUMN, keys), (ROW_COLUMN, numbers), (SEGMENT_COLUMN, segments)):
        rows = rows.append_column(name, pa.array(values))
    return rows


def by_segment(
    numbered: Iterable[pa.Table], n_segments: int, n_bytes: int, directory: Path
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each segment, in order of keys, and those of a key in order of their numbers. Segments without rows
    are left out, or empty. `n_bytes` is about what there is of rows.
    """
    n_buckets = max(1, min(MOST_BUCKETS, n_segments, -(-n_bytes // BUCKET_BYTES)))
    bounds = np.linspace(0, n_segments, n_buckets + 1).astype(np.int64)
    with ExitStack() as opened:
        file = None if n_buckets == 1 else opened.enter_context(closing(_OpenFile(directory)))
        buckets = [_Bucket(file) for _ in range(n_buckets)]
        for rows in numbered:
            for bucket, own in zip(buckets, _split(rows, bounds)):
                bucket.add(own)
        for bucket, (first, last) in zip(buckets, pairwise(bounds.tolist())):
            yield from _segments(bucket.take(), first, last)


class _OpenFile:
    """A file without a name, so that nothing of it outlives the process; it goes with this."""

    def __init__(self, directory: Path):
        self._directory = directory
        with self._telling_of_room():
            directory.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=directory, prefix="sash-cut-", buffering=0)  # noqa: SIM115
        self._end = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Where it is then: its first byte, and how many there are."""
        with self._telling_of_room():
            n_written = 0
            while n_written < len(data):
                n_written += os.pwrite(self._file.fileno(), data[n_written:], self._end + n_written)
        self._end += len(data)
        return self._end - len(data), len(data)

    def read(self, first: int, n_bytes: int) -> bytes:
        return os.pread(self._file.fileno(), n_bytes, first)

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _telling_of_room(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise no_room(self._directory, error) from None


class _Bucket:
    """Rows of neighbouring segments: in memory if there are no others, else in a file."""

    def __init__(self, file: _OpenFile | None):
        self._file = file
        self._held: list[pa.Table] = []
        self._places: list[tuple[int, int]] = []
        """In the file, in order."""

    def add(self, rows: pa.Table) -> None:
        if self._file is None:
            self._held.append(rows)
        elif rows.num_rows:
            self._places.append(self._file.append(encode_table(rows)))

    def take(self) -> pa.Table | None:
        """All of them; None if there are none."""
        if self._file is not None:
            self._held = [decode_table(self._file.read(*place)) for place in self._places]
        held, self._held = self._held, []
        return pa.concat_tables(held).combine_chunks() if held else None


def _split(rows: pa.Table, bounds: np.ndarray) -> Iterator[pa.Table]:
    """The rows of each bucket, which has the segments between two bounds."""
    if len(bounds) == 2:
        yield rows
        return
    buckets = np.searchsorted(bounds, int64_column(rows, SEGMENT_COLUMN), side="right") - 1
    order = np.argsort(buckets, kind="stable")
    ends = np.searchsorted(buckets[order], np.arange(len(bounds))).tolist()
    for first, last in pairwise(ends):
        yield rows.take(pa.array(order[first:last]))


def _segments(rows: pa.Table | None, first: int, last: int) -> Iterator[tuple[int, pa.Table]]:
    """The segments of a bucket, from the first to the one before the last."""
    if rows is None:
        return
    segments = int64_column(rows, SEGMENT_COLUMN)
    order = np.lexsort((int64_column(rows, ROW_COLUMN), int64_column(rows, KEY_COLUMN), segments))
    bounds = np.searchsorted(segments[order], np.arange(first, last + 1)).tolist()
    kept = rows.drop_columns([SEGMENT_COLUMN])
    for number, (low, high) in enumerate(pairwise(bounds), first):
        yield number, kept.take(pa.array(order[low:high])) if low < high else kept.slice(0, 0)
