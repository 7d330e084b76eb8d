"""The stage before the shuffle: reads rows, sorts out what is late or broken, filters, projects, packs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.fs

from sash.operators.changes import read_times
from sash.operators.stream_clock import StreamClock
from sash.plan.physical import Plan
from sash.plan.shared_plan import SharedPlan
from sash.sources.files import FileSource
from sash.sources.records import Records
from sash.sources.timed import read_stream_file, timeless_rejects, with_identity
from sash.spark.exchange import ROWS_PER_MESSAGE, Message, Packer, message, to_all_groups, to_record_batches
from sash.store.batch import is_timed

Pack = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def pack_frame(packer: Packer) -> Pack:
    """For `mapInArrow` over a user's frame, whose columns are the stream's."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_record_batches(_pack_frame(packer, batches))

    return pack


def pack_files(packer: Packer, source: FileSource, filesystem: pa.fs.FileSystem | None) -> Pack:
    """For `mapInArrow` over a frame of (path, modified_us): the files themselves are read here."""
    read = partial(read_stream_file, source, time=packer.plan.streams[packer.stream].time, filesystem=filesystem)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, modified_us in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield from to_record_batches(_pack_file(packer, read, _local_path(path), modified_us))

    return pack


def pack_punctuation(plan: Plan | SharedPlan, n_groups: int) -> Pack:
    """For `mapInArrow` over the control frame of (stream, complete_us)."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for stream, complete_us in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                said = message("complete", {"complete_us": complete_us}, stream=stream)
                yield from to_record_batches(to_all_groups(said, plan, n_groups))

    return pack


def _local_path(path: str) -> str:
    """Spark writes local paths as `file:/path`; paths on other file systems stay the URIs that they are."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def file_origin(path: str, modified_us: int) -> str:
    """Files arrive in order of modification time, then of name."""
    return f"{modified_us:020d} {path}"


@dataclass(slots=True)
class _Tally:
    """What one reader has seen of a stream."""

    n_read: int = 0
    n_late: int = 0
    n_rejected: int = 0
    oldest_us: int | None = None
    newest_us: int | None = None

    def add(self, ts: np.ndarray) -> None:
        if len(ts):
            low, high = int(ts.min()), int(ts.max())
            self.oldest_us = low if self.oldest_us is None else min(low, self.oldest_us)
            self.newest_us = high if self.newest_us is None else max(high, self.newest_us)

    def facts(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in self.__slots__}


def _pack_frame(packer: Packer, batches: Iterator[pa.RecordBatch]) -> Iterator[Message]:
    info = packer.plan.streams[packer.stream]
    schema = pa.schema([info.schema.field(name) for name in packer.plan.columns_read(packer.stream)])
    tally = _Tally()
    for batch in _regrouped(batches):
        rows = batch.cast(schema)
        tally.n_read += rows.num_rows
        has_time = is_timed(rows.column(info.time))
        if not has_time.all():
            missing = rows.filter(pa.array(~has_time))
            tally.n_rejected += missing.num_rows
            lines = np.zeros(missing.num_rows, np.int64)
            rejects = timeless_rejects(missing, info.time, packer.stream, lines)
            yield message("rejects", rejects, stream=packer.stream)
            rows = rows.filter(pa.array(has_time))
        ts = read_times(rows.column(info.time))
        tally.add(ts)
        yield from packer.rows(rows, ts, "")
    if tally.n_read:
        yield from packer.arrival("", tally.facts())


def _pack_file(
    packer: Packer, read: Callable[[str], Iterator[Records]], path: str, modified_us: int
) -> Iterator[Message]:
    info = packer.plan.streams[packer.stream]
    origin = file_origin(path, modified_us)
    clock, tally = StreamClock(info.slack_us), _Tally()
    for records in read(path):
        rows = records.rows
        tally.n_read += rows.num_rows + records.rejects.num_rows
        if records.rejects.num_rows:
            tally.n_rejected += records.rejects.num_rows
            yield message("rejects", records.rejects, stream=packer.stream)
        ts = read_times(rows.column(info.time))
        admitted = clock.admit(ts)
        if not admitted.all():
            tally.n_late += int(np.count_nonzero(~admitted))
            late = with_identity(rows, path, records.lines).filter(pa.array(~admitted))
            yield message("late", late, stream=packer.stream)
            rows, ts = rows.filter(pa.array(admitted)), ts[admitted]
        tally.add(ts)
        yield from packer.rows(rows, ts, origin)
    yield from packer.arrival(origin, tally.facts() | {"path": path})


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
