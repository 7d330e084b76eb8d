"""Runs queries in this process to their end: over tables, or over a script's files in order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.fs

from sash.embedded.intake import Intake
from sash.embedded.query import Query
from sash.embedded.row_notes import REASON, REJECTED
from sash.embedded.running_job import Answer, RunningJob
from sash.io.files import FileSource, StreamFile, list_files
from sash.io.output_dir import CHANGES, REJECTS
from sash.io.timed import IDENTITY, read_stream_file, reject_rows, with_identity
from sash.operators.changes import read_times
from sash.plan.query_plan import QueryPlan
from sash.plan.statistics import ROWS_PER_STEP
from sash.runtime.job import Job, QueryRun, Report, Tally, strict_error
from sash.runtime.memory_settings import Size, configured
from sash.sql.bound_query import StreamInfo
from sash.store.batch import BEGINNING


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
    return pa.concat_tables(changes).combine_chunks(), query


def run_files(job: Job, report: Report, memory: Size | None = None) -> dict[str, Tally]:
    """Runs a job over the files that are there now, and writes the outputs; `memory` is what its windows may take.

    Nothing is gone on from, so each output has to be new.
    """
    for each in job.members:
        each.output.refuse_occupied()
    writers = {each.name: _Writer(each) for each in job.members}
    running = RunningJob(job.plan, job.relations, budget=configured(memory).budget())
    tallies = {name: writer.tally for name, writer in writers.items()}
    intake = running.intake
    for stream, file in in_order_of_arrival(job.streams, job.filesystem):
        info = job.plan.streams[stream]
        for records in read_stream_file(job.streams[stream], file.path, info.time, job.filesystem, info.unit):
            _refuse_if_strict(job, records.rejects)
            answers = running.push(stream, with_identity(records.rows, file.path, records.lines))
            changes = _by_query(answers)
            late, intake.late[stream] = intake.late[stream], []
            rejects = pa.concat_tables([records.rejects, *_take_rejected(intake, stream)])
            _refuse_if_strict(job, rejects)
            notes = intake.notes.take(but=REJECTED)  # the summary counts them
            n_read = records.rows.num_rows + records.rejects.num_rows
            for name, writer in writers.items():
                told = {REJECTS: [rejects], CHANGES: changes.get(name, []), f"late/{stream}": late}
                writer.write_step(stream, n_read, told)
                writer.tally.notes += notes
            _take_stock(running, tallies, report)
    changes = _by_query(running.finish())
    for name, writer in writers.items():
        writer.publish({CHANGES: changes.get(name, [])})
    _take_stock(running, tallies, report)
    return tallies


class _Writer:
    """Writes and counts what one query answers."""

    def __init__(self, run: QueryRun):
        self._run = run
        self._ledger = run.open_ledger()
        self.tally = Tally()

    def write_step(self, stream: str, n_read: int, tables: Mapping[str, list[pa.Table]]) -> None:
        """What has come of some records of a stream, by place, as one batch."""
        self.tally.n_read += n_read
        self.tally.n_rejected += _count(tables[REJECTS])
        self.tally.add_late(stream, _count(tables[f"late/{stream}"]))
        self.publish(tables)

    def publish(self, tables: Mapping[str, list[pa.Table]]) -> None:
        """Rows by place, as one batch; nothing if there are none."""
        self.tally.n_changes += _count(tables[CHANGES])
        batch, name, output = self.tally.n_batches, f"part-{self._run.identity}-0", self._run.output
        parts = {
            place: [output.sink(place).write_part(batch, name, pa.concat_tables(rows), self._run.filesystem)]
            for place, rows in tables.items()
            if _count(rows)
        }
        if parts:
            self._ledger.publish(batch, parts)


def _count(tables: Iterable[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def _take_stock(running: RunningJob, tallies: Mapping[str, Tally], report: Report) -> None:
    clock = running.intake.clock
    for name, tally in tallies.items():
        tally.n_state_rows, tally.n_state_bytes = running.pipeline.n_rows, running.pipeline.n_bytes
        tally.clock_us = clock if clock > BEGINNING + 1 else None
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


def _by_query(answers: Iterable[Answer]) -> dict[str, list[pa.Table]]:
    """The changes of a step."""
    changes: dict[str, list[pa.Table]] = {}
    for name, table in answers:
        changes.setdefault(name, []).append(table)
    return changes
