"""The stage before the shuffle: reads rows, sorts out what is late or broken, filters, projects, packs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.fs

from sash.io.files import FileSource, is_visible
from sash.io.records import Records
from sash.io.time_column import tell_times
from sash.io.timed import read_stream_file, reject_rows, with_identity
from sash.operators.changes import read_times
from sash.plan.physical import Plan
from sash.spark.control import hear
from sash.spark.exchange import ROWS_PER_MESSAGE, Message, Packer, message, to_all_groups, to_record_batches
from sash.spark.segments import Cut, Cutter, Segment, merge_unordered, unordered
from sash.spark.source_log import local_path
from sash.store.batch import BEGINNING, concat

MOST_KEPT = 1000
"""Of a file, the state keeps the text of at most so many rows that wait for what follows."""
Pack = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def pack_frame(packer: Packer) -> Pack:
    """For `mapInArrow` over a user's frame, whose columns are the stream's."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_record_batches(_pack_frame(packer, batches))

    return pack


def pack_files(packer: Packer, source: FileSource, filesystem: pyarrow.fs.FileSystem | None) -> Pack:
    """For `mapInArrow` over a frame of (path, modified_us): the files themselves are read here."""
    info = packer.plan.streams[packer.stream]
    read = partial(read_stream_file, source, time=info.time, filesystem=filesystem, unit=info.unit)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, modified_us in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if is_visible(source, local_path(path), filesystem):  # of a glob Spark also takes hidden directories
                    yield from to_record_batches(_pack_file(packer, read, local_path(path), modified_us))

    return pack


def pack_punctuation(plan: Plan, n_groups: int, stamp: str) -> Pack:
    """For `mapInArrow` over the control frame of (path, content), of a run with this stamp."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                heard = hear(content, local_path(path), stamp)
                said = message("complete", {"complete_us": heard.complete_us}, stream=heard.stream)
                yield from to_record_batches(to_all_groups(said, plan, n_groups))

    return pack


def file_origin(path: str, modified_us: int) -> str:
    """Files arrive in order of modification time, then of name."""
    return f"{modified_us:020d} {path}"


@dataclass(slots=True)
class _Tally:
    """What one reader has counted of a stream."""

    n_read: int = 0
    n_late: int = 0
    n_rejected: int = 0


def _pack_frame(packer: Packer, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
    """The rows have no order: they count as if they came in order of their times."""
    info = packer.plan.streams[packer.stream]
    schema = pa.schema([info.schema.field(name) for name in packer.plan.columns_read(packer.stream)])
    tally, segment = _Tally(), Segment()
    for batch in _regrouped(batches):
        timed = tell_times(batch, info.time, info.unit)
        tally.n_read += batch.num_rows
        if timed.is_timed is not None:
            tally.n_rejected += len(timed.reasons)
            timeless, lines = batch.filter(pa.array(~timed.is_timed)), np.zeros(len(timed.reasons), np.int64)
            yield message("rejects", reject_rows(timeless, packer.stream, lines, timed.reasons), stream=packer.stream)
        rows = timed.good.cast(schema)
        ts = read_times(rows.column(info.time))
        segment = merge_unordered([segment, unordered(ts)])
        yield from packer.rows(rows, ts, "")
    if tally.n_read:
        yield from packer.arrival("", asdict(tally) | asdict(segment))


def _pack_file(
    packer: Packer, read: Callable[[str], Iterator[Records]], path: str, modified_us: int
) -> Iterator[Message]:
    reader = FileReader(packer, path, file_origin(path, modified_us))
    for records in read(path):
        yield from reader.take(records)
    yield from reader.end()


class FileReader:
    """Reads one file: packs its rows, segment by segment, and tells of each segment."""

    def __init__(self, packer: Packer, path: str, origin: str):
        self._packer = packer
        self._info = packer.plan.streams[packer.stream]
        self._path, self._origin = path, origin
        self._cutter, self._tally = Cutter(self._info), _Tally()
        self._number, self._segment = 0, Segment()
        self._open: tuple[pa.Table, np.ndarray] | None = None
        """Rows, and their lines, at the end of what was read, that are far ahead of the others."""

    def take(self, records: Records) -> Iterator[Message]:
        """The next stretch of the file."""
        self._tally.n_read += records.rows.num_rows + records.rejects.num_rows
        if records.rejects.num_rows:
            self._tally.n_rejected += records.rejects.num_rows
            yield message("rejects", records.rejects, stream=self._packer.stream)
        rows, lines = records.rows, records.lines
        if self._open is not None:
            rows, lines = concat([self._open[0], rows]), np.concatenate([self._open[1], lines])
        ts = read_times(rows.column(self._info.time))
        cut = self._cutter.cut(ts)
        n_closed = len(ts) - cut.n_open
        self._open = (rows.slice(n_closed), lines[n_closed:]) if cut.n_open else None
        for number, low, high in _stretches(cut, n_closed):
            yield from self._enter(number)
            is_late = None if cut.is_late is None else cut.is_late[low:high]
            yield from self._pack(rows.slice(low, high - low), ts[low:high], lines[low:high], is_late)

    def end(self) -> Iterator[Message]:
        """The end of the file; what is still open is left to the groups."""
        if self._open is not None:
            rows, lines = self._open
            yield from self._enter(self._cutter.number)
            self._segment.below_us = _known(self._cutter.clock.newest_us)
            self._segment.is_open, self._segment.n_newest = True, rows.num_rows
            yield from self._pack(rows, read_times(rows.column(self._info.time)), lines, None)
        yield from self._tell(self._tally, self._kept())

    def _kept(self) -> list[tuple[int, str]]:
        """Line and text of the rows that are open, if they are few."""
        if self._open is None or self._open[0].num_rows > MOST_KEPT:
            return []
        rows, lines = self._open
        shown = reject_rows(rows, self._path, lines, [""] * rows.num_rows)
        return list(zip(shown["line"].to_pylist(), shown["text"].to_pylist()))

    def _pack(self, rows: pa.Table, ts: np.ndarray, lines: np.ndarray, is_late: np.ndarray | None) -> Iterator[Message]:
        self._segment.add(ts, is_late)
        if is_late is not None and is_late.any():
            self._tally.n_late += int(np.count_nonzero(is_late))
            late = with_identity(rows, self._path, lines).filter(pa.array(is_late))
            yield message("late", late, stream=self._packer.stream)
            rows, ts = rows.filter(pa.array(~is_late)), ts[~is_late]
        yield from self._packer.rows(rows, ts, self._segment_origin())

    def _enter(self, number: int) -> Iterator[Message]:
        """Goes on to a segment; tells of the one that is over, if there was any of it."""
        if number == self._number:
            return
        if self._segment.first_us is not None:
            yield from self._tell(_Tally())
        self._number, self._segment = number, Segment(is_doubtful=number % 2 == 1)

    def _tell(self, tally: _Tally, kept: Sequence[tuple[int, str]] = ()) -> Iterator[Message]:
        facts = asdict(tally) | asdict(self._segment) | {"path": self._path, "segment": self._number, "kept": kept}
        yield from self._packer.arrival(self._segment_origin(), facts)

    def _segment_origin(self) -> str:
        """Segments of a file stand between it and the next file."""
        return f"{self._origin}\t{self._number:012d}" if self._number else self._origin


def _stretches(cut: Cut, n_rows: int) -> Iterator[tuple[int, int, int]]:
    """The segments that stand in so many rows of a cut: number, from which row, to which."""
    if cut.numbers is None:
        yield cut.number, 0, n_rows
        return
    starts = np.flatnonzero(np.diff(cut.numbers[:n_rows], prepend=-1))
    for low, high in pairwise([*starts.tolist(), n_rows]):
        yield int(cut.numbers[low]), low, high


def _known(time_us: int) -> int | None:
    return None if time_us == BEGINNING else time_us


def _regrouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Spark's batches put together, so that few large messages travel."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= ROWS_PER_MESSAGE:
            yield pa.Table.from_batches(held).combine_chunks()
            held = []
    if sum(part.num_rows for part in held):
        yield pa.Table.from_batches(held).combine_chunks()
