"""Runs queries in this process to their end: over tables, or over a script's files in order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

import pyarrow as pa

from sash.embedded.query import Query
from sash.operators.changes import read_times
from sash.plan.physical import Plan
from sash.plan.statistics import ROWS_PER_STEP
from sash.run import QueryRun, Report, Tally, strict_error
from sash.sources.files import StreamFile, list_files
from sash.sources.records import Records
from sash.sources.sink import FileSink
from sash.sources.timed import read_stream_file, with_identity
from sash.sql.query import StreamInfo
from sash.store.batch import BEGINNING


def run_tables(plan: Plan, tables: Mapping[str, pa.Table], relations: Mapping[str, pa.Table]) -> tuple[pa.Table, Query]:
    """All changes of a plan over finite tables, whose rows are in order of arrival, and the query that made them."""
    query = Query(plan, relations)
    changes = [query.push(name, part) for name, part in interleaved(plan.streams, tables)]
    changes.append(query.finish())
    return pa.concat_tables(changes).combine_chunks(), query


def run_files(run: QueryRun, report: Report) -> Tally:
    """Runs a script's query over the files that are there now, and writes its outputs."""
    query, tally = Query(run.plan, run.relations), Tally()
    for stream, file in in_order_of_arrival(run):
        for records in read_stream_file(run.streams[stream], file.path, run.plan.streams[stream].time, run.filesystem):
            _set_aside(run, records, tally)
            _write(run, query.push(stream, with_identity(records.rows, file.path, records.lines)), tally)
            _write_late(run, query, stream, tally)
            tally.n_read += records.rows.num_rows + records.rejects.num_rows
            _take_stock(query, tally)
            report(run.name, tally)
    _write(run, query.finish(), tally)
    _take_stock(query, tally)
    report(run.name, tally)
    return tally


def _take_stock(query: Query, tally: Tally) -> None:
    tally.n_state_rows, tally.n_state_bytes = query.n_state_rows, query.n_state_bytes
    tally.clock_us = query.clock if query.clock > BEGINNING + 1 else None
    tally.n_batches += 1


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


def in_order_of_arrival(run: QueryRun) -> list[tuple[str, StreamFile]]:
    """The files that are there now, of all streams."""
    arrivals = [(name, file) for name, source in run.streams.items() for file in list_files(source, run.filesystem)]
    return sorted(arrivals, key=lambda item: (item[1].modified_us, item[1].path, item[0]))


def _set_aside(run: QueryRun, records: Records, tally: Tally) -> None:
    if not records.rejects.num_rows:
        return
    if run.is_strict:
        raise strict_error(records.rejects.slice(0, 1).to_pylist()[0])
    tally.n_rejected += records.rejects.num_rows
    _publish(run, run.reject_sink, tally.n_batches, records.rejects)


def _write(run: QueryRun, changes: pa.Table, tally: Tally) -> None:
    tally.n_changes += changes.num_rows
    _publish(run, run.sink, tally.n_batches, changes)


def _write_late(run: QueryRun, query: Query, stream: str, tally: Tally) -> None:
    late, query.late[stream] = query.late[stream], []
    if late:
        rows = pa.concat_tables(late)
        tally.add_late(stream, rows.num_rows)
        _publish(run, run.late_sink(stream), tally.n_batches, rows)


def _publish(run: QueryRun, sink: FileSink, batch_id: int, table: pa.Table) -> None:
    if table.num_rows:
        staged = sink.write_part(batch_id, "part-0", table, run.filesystem)
        sink.publish(batch_id, [staged], run.filesystem)
