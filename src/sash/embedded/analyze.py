"""EXPLAIN ANALYZE: runs a query over its input, discards the answer, and tells what every operator did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sash.cost.join_cost import JoinWork
from sash.embedded.query import Query
from sash.embedded.row_notes import REJECTED, rejections
from sash.embedded.run_to_end import in_order_of_arrival, interleaved
from sash.io.timed import read_stream_file
from sash.operators.changes import read_times
from sash.operators.multiway_join import MultiwayJoin
from sash.operators.node import in_order_of_time
from sash.operators.window_join import WindowJoin
from sash.plan.explain.analysis import JoinMeasure, Measure, MultiwayMeasure
from sash.plan.explain.describe_memory import SpillMeasure, measured_line
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.under_limit import query_under_limit
from sash.plan.query_plan import QueryPlan
from sash.runtime.job import QueryRun
from sash.runtime.memory_settings import Size
from sash.store.batch import BEGINNING, NEVER


def analyze_tables(
    plan: QueryPlan, tables: Mapping[str, pa.Table], relations: Mapping[str, pa.Table], verbose: bool = False
) -> str:
    """EXPLAIN ANALYZE of a plan over finite tables, whose rows are in order of arrival."""
    return _analyze(Query(plan, relations), interleaved(plan.streams, tables), verbose)


def analyze_files(run: QueryRun, verbose: bool = False, memory: Size | None = None) -> str:
    """EXPLAIN ANALYZE of a script's query over the files that are there now; nothing is written.

    `memory` is the limit if it is another one than this process has.
    """

    def batches() -> Iterable[tuple[str, pa.Table]]:
        for stream, file in in_order_of_arrival(run.streams, run.filesystem):
            info = run.plan.streams[stream]
            for records in read_stream_file(run.streams[stream], file.path, info.time, run.filesystem, info.unit):
                yield stream, records.rows

    return _analyze(Query(run.plan, run.relations, memory=memory), batches(), verbose)


def _analyze(query: Query, batches: Iterable[tuple[str, pa.Table]], verbose: bool) -> str:
    plan, span, most_mapped = query.plan, TimeSpan(), 0
    query.is_quiet = True
    measures: dict[str, Measure] = {}
    for stream, rows in batches:
        span.see(read_times(rows.column(plan.streams[stream].time)))
        query.push(stream, rows)
        query.late[stream].clear()
        _take_note(query, measures)
        most_mapped = max(most_mapped, 0 if query.arena is None else query.arena.n_file_bytes)
    query.finish()
    _take_note(query, measures)
    for name, operator in query.operators():
        if isinstance(operator, WindowJoin):
            work = JoinWork(*operator.counts)
            measures[name].join = JoinMeasure(work, operator.method, operator.n_replans, span.seconds)
        elif isinstance(operator, MultiwayJoin):
            measures[name].join = MultiwayMeasure(
                operator.spec.names, operator.counts, operator.orders, operator.algorithm, operator.n_replans
            )
    notes = [*query.notes.take(but=REJECTED), *rejections(query.rejected)]
    ordered = replace(plan, root=in_order_of_time(plan.root))
    ordered = ordered if query.arena is None else query_under_limit(ordered)
    text = explain_plan(ordered, measures, verbose) + _spilled_line(query, most_mapped)
    return "\n".join([text, *notes])


def _spilled_line(query: Query, most_mapped: int) -> str:
    """What was on disk; nothing if memory is not limited."""
    if query.arena is None:
        return ""
    budget, counts = query.arena.budget, query.arena.counts
    measure = SpillMeasure(
        budget.n_bytes, counts.n_bytes_written, counts.n_files_written, counts.n_bytes_read, most_mapped
    )
    return measured_line(measure)


def _take_note(query: Query, measures: dict[str, Measure]) -> None:
    """Adds the work of the last step to what was noted before."""
    work = query.work()
    for name, operator in query.operators():
        n_held = sum(log.n_rows for log in operator.logs().values())
        measures.setdefault(name, Measure()).add(work[name], n_held)


@dataclass(slots=True)
class TimeSpan:
    """From the oldest to the newest row."""

    oldest_us: int = NEVER
    newest_us: int = BEGINNING

    def see(self, ts: np.ndarray) -> None:
        if len(ts):
            self.oldest_us, self.newest_us = min(self.oldest_us, int(ts.min())), max(self.newest_us, int(ts.max()))

    @property
    def seconds(self) -> float:
        return max(0, self.newest_us - self.oldest_us) / 1e6
