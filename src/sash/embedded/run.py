"""Runs queries in this process to their end: over tables, or over a script's files in order of arrival."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from sash.embedded.query import Query
from sash.embedded.shared import Answer, SharedQuery
from sash.operators.changes import read_times
from sash.plan.physical import Plan
from sash.plan.statistics import ROWS_PER_STEP
from sash.run import QueryRun, Report, SharedRun, Tally, strict_error
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


def run_files(run: QueryRun | SharedRun, report: Report) -> dict[str, Tally]:
    """Runs a script's query, or those that share a join, over the files that are there now, and writes the outputs."""
    query, tallies = _make_query(run), {each.name: Tally() for each in run.members}
    for stream, file in in_order_of_arrival(run):
        for records in read_stream_file(run.streams[stream], file.path, run.plan.streams[stream].time, run.filesystem):
            _set_aside(run, stream, records, tallies)
            _write(run, query.push(stream, with_identity(records.rows, file.path, records.lines)), tallies)
            _write_late(run, query, stream, tallies)
            for tally in tallies.values():
                tally.n_read += records.rows.num_rows + records.rejects.num_rows
            _take_stock(query, tallies, report)
    _write(run, query.finish(), tallies)
    _take_stock(query, tallies, report)
    return tallies


def _make_query(run: QueryRun | SharedRun) -> Query | SharedQuery:
    return SharedQuery(run.plan, run.relations) if isinstance(run, SharedRun) else Query(run.plan, run.relations)


def _take_stock(query: Query | SharedQuery, tallies: Mapping[str, Tally], report: Report) -> None:
    for name, tally in tallies.items():
        tally.n_state_rows, tally.n_state_bytes = query.n_state_rows, query.n_state_bytes
        tally.clock_us = query.clock if query.clock > BEGINNING + 1 else None
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


def in_order_of_arrival(run: QueryRun | SharedRun) -> list[tuple[str, StreamFile]]:
    """The files that are there now, of all streams."""
    arrivals = [(name, file) for name, source in run.streams.items() for file in list_files(source, run.filesystem)]
    return sorted(arrivals, key=lambda item: (item[1].modified_us, item[1].path, item[0]))


def _set_aside(run: QueryRun | SharedRun, stream: str, records: Records, tallies: Mapping[str, Tally]) -> None:
    if not records.rejects.num_rows:
        return
    if run.is_strict:
        raise strict_error(records.rejects.slice(0, 1).to_pylist()[0])
    for each in run.members:
        tallies[each.name].n_rejected += records.rejects.num_rows
        _publish(each, each.reject_sink, tallies[each.name], records.rejects)


def _write(run: QueryRun | SharedRun, answers: pa.Table | Iterable[Answer], tallies: Mapping[str, Tally]) -> None:
    """Writes the changes of a step, each query's into its own sink, as one batch."""
    changes: dict[str, list[pa.Table]] = {}
    for name, table in [(run.name, answers)] if isinstance(answers, pa.Table) else answers:
        changes.setdefault(name, []).append(table)
    for each in run.members:
        if each.name in changes:
            table = pa.concat_tables(changes[each.name])
            tallies[each.name].n_changes += table.num_rows
            _publish(each, each.sink, tallies[each.name], table)


def _write_late(
    run: QueryRun | SharedRun, query: Query | SharedQuery, stream: str, tallies: Mapping[str, Tally]
) -> None:
    late, query.late[stream] = query.late[stream], []
    if late:
        rows = pa.concat_tables(late)
        for each in run.members:
            tallies[each.name].add_late(stream, rows.num_rows)
            _publish(each, each.late_sink(stream), tallies[each.name], rows)


def _publish(run: QueryRun, sink: FileSink, tally: Tally, table: pa.Table) -> None:
    if table.num_rows:
        staged = sink.write_part(tally.n_batches, "part-0", table, run.filesystem)
        sink.publish(tally.n_batches, [staged], run.filesystem)
