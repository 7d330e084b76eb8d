"""Runs queries in this process to their end: over tables, or over a script's files in order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.fs

from sash.cost.lookup_cost import relation_room
from sash.embedded.intake import Intake
from sash.embedded.query import Query
from sash.embedded.row_notes import REASON, REJECTED
from sash.embedded.running_job import RunningJob
from sash.io.files import FileSource, StreamFile, list_files
from sash.io.output_dir import CHANGES, REJECTS
from sash.io.sink import Part
from sash.io.table_version import gather_in_memory
from sash.io.timed import IDENTITY, read_stream_file, reject_rows, with_identity
from sash.operators.changes import read_times
from sash.operators.stream_clock import known_clock
from sash.plan.least_memory import require_memory
from sash.plan.query_plan import QueryPlan
from sash.plan.statistics import ROWS_PER_STEP
from sash.runtime.arrival_tables import ArrivalTables
from sash.runtime.job import Job, QueryRun, Report, Tally, strict_error
from sash.runtime.memory_settings import Size, configured
from sash.sql.catalog import StreamInfo
from sash.store.batch import BEGINNING
from sash.store.changes_reading import tell_final
from sash.store.mapped_table import MappedGather
from sash.store.memory_budget import MemoryBudget

BYTES_PER_PART = 1 << 27
"""About so many bytes of changes are written at once."""


def run_tables(
    plan: QueryPlan, tables: Mapping[str, pa.Table], relations: Mapping[str, pa.Table]
) -> tuple[pa.Table, Query]:
    """All changes of a plan over finite tables, whose rows are in order of arrival, and the query that made them.

    What should be told of the rows is left to the caller: `query.notes`, `query.n_late` and `query.rejected`.
    """
    query = Query(plan, relations)
    query.is_quiet = True
    changes = [query.push(name, part) for name, part in interleaved(plan.streams, tables)]
    changes.append(query.finish())
    return tell_final(pa.concat_tables(changes).combine_chunks(), known_clock(query.clock)), query


def run_files(job: Job, report: Report, memory: Size | None = None) -> dict[str, Tally]:
    """Runs a job over the files that are there now, and writes the outputs; `memory` is what its windows may take.

    Nothing is gone on from, so each output has to be new.
    """
    for each in job.members:
        each.output.refuse_occupied()
    budget = configured(memory).budget()
    require_memory([job.plan], budget)
    running = RunningJob(job.plan, job.relations, budget=budget)
    most_bytes = BYTES_PER_PART if budget is None else min(BYTES_PER_PART, budget.step_bytes)
    writers = {each.name: _Writer(each, most_bytes) for each in job.members}
    tallies = {name: writer.tally for name, writer in writers.items()}
    intake, tables = running.intake, _arrival_tables(job, running, budget)
    for stream, file in in_order_of_arrival(job.streams, job.filesystem):
        info = job.plan.streams[stream]
        for records in read_stream_file(job.streams[stream], file.path, info.time, job.filesystem, info.unit):
            _refuse_if_strict(job, records.rejects)
            _meet(running, tables, writers)
            for name, changes in running.push(stream, with_identity(records.rows, file.path, records.lines)):
                writers[name].take(changes)
            late, intake.late[stream] = intake.late[stream], []
            rejects = pa.concat_tables([records.rejects, *_take_rejected(intake, stream)])
            _refuse_if_strict(job, rejects)
            notes = intake.notes.take(but=REJECTED)  # the summary counts them
            n_read = records.rows.num_rows + records.rejects.num_rows
            for writer in writers.values():
                writer.write_step(stream, n_read, rejects, late)
                writer.publish(intake.clock)
                writer.tally.notes += notes
            _take_stock(running, tallies, report)
    _meet(running, tables, writers)
    for name, changes in running.finish():
        writers[name].take(changes)
    for writer in writers.values():
        writer.publish(intake.clock, is_last=True)
    _take_stock(running, tallies, report)
    return tallies


def _arrival_tables(job: Job, running: RunningJob, budget: MemoryBudget | None) -> ArrivalTables | None:
    """What is read as of arrival, if anything is. Under a limit, a table that is read may be in a file meanwhile."""
    if not job.arrivals:
        return None
    gather = gather_in_memory
    if budget is not None:
        gather = MappedGather(budget.spill, relation_room(budget.state_bytes))
    return ArrivalTables(job.arrivals, job.plan, is_in_order=True, holder=running.arrived, gather=gather)


def _meet(running: RunningJob, tables: ArrivalTables | None, writers: Mapping[str, _Writer]) -> None:
    """Begins a batch with what is now in the tables that are read as of arrival."""
    if tables is None:
        return
    batch = 0 if tables.batch is None else tables.batch + 1
    if batch:
        tables.leave(batch - 1, running.intake.clock, running.intake.newest_us)
    tables.enter(batch)
    running.meet(batch)
    notes = running.arrived.take_notes()
    for writer in writers.values():
        writer.versions = dict(tables.versions)
        writer.tally.notes += notes


class _Writer:
    """Writes and counts what one query answers. Changes are written as they come, `most_bytes` at a time, and are seen
    when their batch is published.
    """

    def __init__(self, run: QueryRun, most_bytes: int):
        self._run = run
        self._ledger = run.open_ledger()
        self._most_bytes = most_bytes
        self._held: list[pa.Table] = []
        self._parts: dict[str, list[Part]] = {}
        self.tally = Tally()
        self.versions: dict[str, str] = {}
        """Of tables, as the batch that is being made has met them."""

    def take(self, changes: pa.Table) -> None:
        """Some changes of the batch that is being made."""
        self._held.append(changes)
        if sum(table.nbytes for table in self._held) > self._most_bytes:
            self._write_changes()

    def write_step(self, stream: str, n_read: int, rejects: pa.Table, late: list[pa.Table]) -> None:
        """What else has come of some records of a stream."""
        self.tally.n_read += n_read
        self.tally.n_rejected += rejects.num_rows
        self.tally.add_late(stream, _count(late))
        self._write(REJECTS, [rejects])
        self._write(f"late/{stream}", late)

    def publish(self, clock_us: int, is_last: bool = False) -> None:
        """Makes visible, as one batch, what has come of a step: all changes up to a time. Nothing if there is none; but
        of an output that has begun, the last batch says how far it has come.
        """
        self._write_changes()
        parts, self._parts = self._parts, {}
        if parts or self.versions or (is_last and self._ledger.manifest.lines):
            # of every batch it is written down what it has met
            clock = known_clock(clock_us)
            self._ledger.publish(self.tally.n_batches, parts, None, self.versions, clock)

    def _write_changes(self) -> None:
        held, self._held = self._held, []
        self.tally.n_changes += _count(held)
        self._write(CHANGES, held)

    def _write(self, place: str, tables: list[pa.Table]) -> None:
        if not _count(tables):
            return
        written = self._parts.setdefault(place, [])
        name, sink = f"part-{self._run.identity}-{len(written)}", self._run.output.sink(place)
        rows = pa.concat_tables(tables)
        written.append(sink.write_part(self.tally.n_batches, name, rows, self._run.filesystem))


def _count(tables: Iterable[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def _take_stock(running: RunningJob, tallies: Mapping[str, Tally], report: Report) -> None:
    clock = running.intake.clock
    for name, tally in tallies.items():
        tally.n_state_rows, tally.n_state_bytes = running.pipeline.n_rows, running.pipeline.n_bytes
        tally.clock_us = known_clock(clock)
        tally.n_batches += 1
        report(name, tally)


def interleaved(streams: Mapping[str, StreamInfo], tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Slices of the streams' tables, so that none runs far ahead of the others; the order within a table stays."""

    def slices(name: str) -> Iterator[tuple[int, str, pa.Table]]:
        reached = BEGINNING
        for start in range(0, tables[name].num_rows, ROWS_PER_STEP):
            part = tables[name].slice(start, ROWS_PER_STEP)
            reached = max(reached, int(read_times(part.column(streams[name].time)).max()))
            yield reached, name, part

    for _, name, part in heapq.merge(*(slices(name) for name in streams), key=lambda item: item[:2]):
        yield name, part


def in_order_of_arrival(
    streams: Mapping[str, FileSource], filesystem: pyarrow.fs.FileSystem | None
) -> list[tuple[str, StreamFile]]:
    """The files that are there now, of all streams."""
    arrivals = [(name, file) for name, source in streams.items() for file in list_files(source, filesystem)]
    return sorted(arrivals, key=lambda item: (item[1].modified_us, item[1].path, item[0]))


def _refuse_if_strict(job: Job, rejects: pa.Table) -> None:
    if job.is_strict and rejects.num_rows:
        raise strict_error(rejects.slice(0, 1).to_pylist()[0])


def _take_rejected(intake: Intake, stream: str) -> list[pa.Table]:
    """Rejects for rows that were read and are too far ahead."""
    rejected, intake.rejected[stream] = intake.rejected[stream], []
    return [_reject(rows.drop_columns([REASON]), rows[REASON].to_pylist()) for rows in rejected]


def _reject(rows: pa.Table, reasons: Sequence[str]) -> pa.Table:
    file, line = (rows[field.name].to_pylist() for field in IDENTITY)
    return reject_rows(rows.drop_columns([field.name for field in IDENTITY]), file, np.array(line), reasons)
