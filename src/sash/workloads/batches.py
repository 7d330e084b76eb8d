"""A workload's rows in batches, in order of when each is complete: as files of them would appear.

stream a   ·  ·  · │ ·   ·  · │            Cut(rows=3): a batch is due when its last row comes
stream b     ·   ·    ·│  · ·  ·│

stream a   ·  ·  ·  │·   ·  ·  │           Cut(every_us=…): at the end of each stretch of time that has rows
stream b     ·   ·  │ ·   · ·  │
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import PlanError
from sash.workloads.columns import read_times, times_column
from sash.workloads.law import require
from sash.workloads.workload import Workload, WorkloadStream


@dataclass(frozen=True, slots=True)
class Cut:
    """How large a batch is: so many rows of its stream, or the rows of so much time."""

    rows: int | None = None
    every_us: int | None = None

    def __post_init__(self):
        if (self.rows is None) == (self.every_us is None):
            raise PlanError("a batch is cut by rows or by time; say one of them")
        require(self.rows is None or self.rows >= 1, "file-rows", self.rows, "at least 1")
        require(self.every_us is None or self.every_us >= 1, "file-every", self.every_us, "at least one microsecond")


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a stream that follow each other. `due_us`: when all of them have come."""

    stream: str
    rows: pa.Table
    due_us: int


def batches(workload: Workload, cut: Cut, start_us: int | None = None) -> Iterator[Batch]:
    """All rows, each once and in the order of its stream; batches in order of when they are due.

    If `start_us` is given, all times are moved so that the workload starts then. How rows are cut never changes them.
    """
    begin_us = workload.start_us if start_us is None else start_us
    moved_us = begin_us - workload.start_us
    cuts = [_cut_stream(workload, stream, cut, moved_us) for stream in workload.streams]
    return heapq.merge(*cuts, key=lambda batch: batch.due_us)


def _cut_stream(workload: Workload, stream: WorkloadStream, cut: Cut, moved_us: int) -> Iterator[Batch]:
    begin_us = workload.start_us + moved_us
    pending: list[pa.Table] = []
    current, newest_us, n_before = 0, begin_us, 0
    for generated in workload.generate(stream.name):
        rows = _move(generated, stream.time, moved_us) if moved_us else generated
        newest = np.maximum.accumulate(np.maximum(read_times(rows.column(stream.time)), newest_us))
        numbers = _number_batches(newest, cut, n_before, begin_us)
        for part in _parts(numbers):
            if pending and numbers[part.start] != current:
                yield _close(stream, pending, cut, (current, newest_us, begin_us))
                pending = []
            pending.append(rows.slice(part.start, part.stop - part.start))
            current, newest_us = int(numbers[part.start]), int(newest[part.stop - 1])
        n_before += rows.num_rows
    if pending:
        yield _close(stream, pending, cut, (current, newest_us, begin_us))


def _number_batches(newest: np.ndarray, cut: Cut, n_before: int, begin_us: int) -> np.ndarray:
    """Which batch each row is in. A row that is late counts by the newest time before it: then it arrives."""
    if cut.rows is not None:
        return np.arange(n_before, n_before + len(newest)) // cut.rows
    assert cut.every_us is not None
    return (newest - begin_us) // cut.every_us


def _parts(numbers: np.ndarray) -> Iterator[slice]:
    """Where equal numbers stand."""
    bounds = np.flatnonzero(np.diff(numbers)) + 1
    starts = [0, *bounds.tolist()] if len(numbers) else []
    for start, stop in zip(starts, [*starts[1:], len(numbers)]):
        yield slice(start, stop)


def _close(stream: WorkloadStream, parts: list[pa.Table], cut: Cut, times: tuple[int, int, int]) -> Batch:
    number, newest_us, begin_us = times
    due_us = newest_us if cut.every_us is None else begin_us + (number + 1) * cut.every_us
    return Batch(stream.name, pa.concat_tables(parts), due_us)


def _move(rows: pa.Table, time: str, moved_us: int) -> pa.Table:
    column = rows.column(time)
    moved = times_column(read_times(column) + moved_us, column.type.tz)
    return rows.set_column(rows.schema.get_field_index(time), rows.schema.field(time), moved)
