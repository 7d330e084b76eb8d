"""What becomes of the answers of a run: workers write them to files, and tell the driver what to publish."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from sash.operators.changes import read_times
from sash.run import QueryRun, SharedRun
from sash.sources.timed import read_stream_file, with_identity
from sash.spark.exchange import Message, message
from sash.spark.group import late_rows


class Writer:
    """Stages tables as files, under names that no other attempt uses; facts pass on to the driver. One per task."""

    def __init__(self, run: QueryRun | SharedRun):
        context = TaskContext.get()
        assert context is not None
        self._run = run
        self._batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        self._prefix = f"part-{context.partitionId():05d}-{context.taskAttemptId()}"
        self._n_parts = 0

    def __call__(self, each: Message) -> Iterator[Message]:
        if each.kind in ("changes", "late"):
            yield from self._stage(each, each.table)
        elif each.kind == "rejects":
            yield from self._stage(each, each.table, each.table.slice(0, 1).to_pylist()[0])
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
        yield from self._stage(each._replace(kind="late"), late)

    def _stage(self, each: Message, table: pa.Table, sample: dict | None = None) -> Iterator[Message]:
        """Writes a table to all sinks that it is for, and tells where it is."""
        self._n_parts += 1
        paths = {
            sink.path: sink.write_part(self._batch, f"{self._prefix}-{self._n_parts}", table, self._run.filesystem)
            for sink in self._run.sinks_of(each.kind, each.stream, each.query)
        }
        facts = {"paths": paths, "n_rows": table.num_rows, "sample": sample}
        told = message(each.kind, facts, stream=each.stream, query=each.query)
        yield told._replace(n_rows=table.num_rows)
