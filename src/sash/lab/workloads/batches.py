"""A workload's rows in batches, in order of when each is complete: as files of them would appear.

stream a   ·  ·  · │ ·   ·  · │            BatchCut(rows=3): a batch is due when its last row comes
stream b     ·   ·    ·│  · ·  ·│

stream a   ·  ·  ·  │·   ·  ·  │           BatchCut(every_us=…): at the end of each stretch of time that has rows
stream b     ·   ·  │ ·   · ·  │
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import PlanError
from sash.lab.workloads.arrow_columns import read_times, times_column, zone_of
from sash.lab.workloads.law import require
from sash.lab.workloads.workload import Workload, WorkloadStream


@dataclass(frozen=True, slots=True)
class BatchCut:
    """How large a batch is: so many rows of its stream, or the rows of so much time."""

    rows: int | None = None
    every_us: int | None = None

    def __post_init__(self):
        if (self.rows is None) == (self.every_us is None):
            raise PlanError("a batch is cut by rows or by time; say one of them")
        require(self.rows is None or self.rows >= 1, "file-rows", self.rows, "at least 1")
        require(self.every_us is None or self.every_us >= 1, "file-every", self.every_us, "at least one microsecond")

    def number(self, n_before: int, elapsed_us: np.ndarray) -> np.ndarray:
        """Which batch of their stream rows are in: those after the first `n_before`, that come at these times."""
        if self.every_us is not None:
            return elapsed_us // self.every_us
        return np.arange(n_before, n_before + len(elapsed_us)) // (self.rows or 1)

    def due(self, number: int, elapsed_us: int) -> int:
        """When a batch is complete whose last row comes at `elapsed_us`."""
        return elapsed_us if self.every_us is None else (number + 1) * self.every_us


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of a stream that follow each other. `due_us`: when all of them have come."""

    stream: str
    rows: pa.Table
    due_us: int


def batches(workload: Workload, cut: BatchCut, start_us: int | None = None) -> Iterator[Batch]:
    """All rows, each once and in the order of its stream; batches in order of when they are due.

    If `start_us` is given, all times are moved so that the workload starts then. How rows are cut never changes them.
    """
    begin_us = workload.start_us if start_us is None else start_us
    cuts = [_cut_stream(_moved(workload, stream, begin_us), stream, cut, begin_us) for stream in workload.streams]
    return heapq.merge(*cuts, key=lambda batch: batch.due_us)


def _moved(workload: Workload, stream: WorkloadStream, begin_us: int) -> Iterator[pa.Table]:
    """The rows of a stream as if the workload had started then."""
    moved_us = begin_us - workload.start_us
    for rows in workload.generate(stream.name):
        if moved_us:
            column = rows.column(stream.time)
            times = times_column(read_times(column) + moved_us, zone_of(column))
            rows = rows.set_column(rows.schema.get_field_index(stream.time), rows.schema.field(stream.time), times)
        yield rows


def _cut_stream(tables: Iterable[pa.Table], stream: WorkloadStream, cut: BatchCut, begin_us: int) -> Iterator[Batch]:
    """A row that is late counts by the newest time before it, as that is when it comes."""
    pending: list[pa.Table] = []
    current, newest_us, n_before = 0, begin_us, 0
    for rows in tables:
        newest = np.maximum.accumulate(np.maximum(read_times(rows.column(stream.time)), newest_us))
        numbers = cut.number(n_before, newest - begin_us)
        for part in _parts(numbers):
            if pending and numbers[part.start] != current:
                yield Batch(stream.name, pa.concat_tables(pending), begin_us + cut.due(current, newest_us - begin_us))
                pending = []
            pending.append(rows.slice(part.start, part.stop - part.start))
            current, newest_us = int(numbers[part.start]), int(newest[part.stop - 1])
        n_before += rows.num_rows
    if pending:
        yield Batch(stream.name, pa.concat_tables(pending), begin_us + cut.due(current, newest_us - begin_us))


def _parts(numbers: np.ndarray) -> Iterator[slice]:
    """Where equal numbers stand."""
    bounds = np.flatnonzero(np.diff(numbers)) + 1
    starts = [0, *bounds.tolist()] if len(numbers) else []
    for start, stop in zip(starts, [*starts[1:], len(numbers)]):
        yield slice(start, stop)
