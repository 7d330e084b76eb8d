"""What becomes of the answers of a run: workers write them to files, and tell the driver what to publish."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from sash.operators.changes import read_times
from sash.run import QueryRun
from sash.sources.sink import FileSink
from sash.sources.timed import read_stream_file, with_identity
from sash.spark.exchange import Message, message
from sash.spark.group import late_rows


class Writer:
    """Stages tables as files, under names that no other attempt uses; facts pass on to the driver. One per task."""

    def __init__(self, run: QueryRun):
        context = TaskContext.get()
        assert context is not None
        self._run = run
        self._batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        self._prefix = f"part-{context.partitionId():05d}-{context.taskAttemptId()}"
        self._n_parts = 0

    def __call__(self, each: Message) -> Iterator[Message]:
        if each.kind == "changes":
            yield self._stage("changes", "", self._run.sink, each.table)
        elif each.kind == "late":
            yield self._stage("late", each.stream, self._run.late_sink(each.stream), each.table)
        elif each.kind == "rejects":
            table = each.table
            first = table.slice(0, 1).to_pylist()[0]
            yield self._stage("rejects", each.stream, self._run.reject_sink, table, first)
        elif each.kind == "reread":
            yield from self._fetch_late(each)
        else:
            yield each

    def _fetch_late(self, each: Message) -> Iterator[Message]:
        info = self._run.plan.streams[each.stream]
        facts = each.facts
        source, path = self._run.streams[each.stream], facts["path"]
        rows = pa.concat_tables(
            with_identity(records.rows, path, records.lines)
            for records in read_stream_file(source, path, info.time, self._run.filesystem)
        )
        late = late_rows(rows, read_times(rows.column(info.time)), info.slack_us, facts["threshold"])
        yield self._stage("late", each.stream, self._run.late_sink(each.stream), late)

    def _stage(self, kind: str, stream: str, sink: FileSink, table: pa.Table, sample: dict | None = None) -> Message:
        self._n_parts += 1
        path = sink.write_part(self._batch, f"{self._prefix}-{self._n_parts}", table, self._run.filesystem)
        facts = {"path": path, "n_rows": table.num_rows, "sample": sample}
        return message(kind, facts, stream=stream)._replace(n_rows=table.num_rows)
