"""What becomes of the answers of a run: workers write them to files, and tell the driver what to publish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs
from pyspark import TaskContext

from sash.io.files import resolve_path
from sash.io.sink import Part
from sash.io.timed import IDENTITY, read_stream_file, reject_rows, with_identity
from sash.runtime.job import Job
from sash.spark.exchange import Message, message
from sash.spark.sorting import kept_rejects, late_rows, lost_rejects, too_far_rows


class Writer:
    """Stages tables as files, under names that no other attempt uses; facts pass on to the driver. One per task."""

    def __init__(self, job: Job):
        context = TaskContext.get()
        assert context is not None
        self._job = job
        self._batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        self._prefix = f"part-{job.identity}-{context.partitionId():05d}-{context.taskAttemptId()}"
        self._n_parts = 0

    def __call__(self, each: Message) -> Iterator[Message]:
        if each.kind in ("changes", "late"):
            yield from self._stage(each, each.table)
        elif each.kind == "rejects":
            yield from self._stage(each, each.table, each.table.slice(0, 1).to_pylist()[0])
        elif each.kind == "reread":
            yield from self._fetch(each)
        else:
            yield each

    def _fetch(self, each: Message) -> Iterator[Message]:
        """Rows of a file that its reader took for being in time."""
        late, rejects = fetch_rows(self._job, each.stream, each.facts)
        if late.num_rows:
            yield from self._stage(each._replace(kind="late"), late)
        if rejects.num_rows:
            yield from self._stage(each._replace(kind="rejects"), rejects, rejects.slice(0, 1).to_pylist()[0])

    def _stage(self, each: Message, table: pa.Table, sample: dict | None = None) -> Iterator[Message]:
        """Writes a table to all places that it is for, and tells where it is."""
        self._n_parts += 1
        parts: dict[str, dict[str, Part]] = {}
        for run, place in self._job.places_of(each.kind, each.stream, each.query):
            name = f"{self._prefix}-{self._n_parts}"
            part = run.output.sink(place).write_part(self._batch, name, table, run.filesystem)
            parts.setdefault(run.name, {})[place] = part
        facts = {"parts": parts, "n_rows": table.num_rows, "sample": sample}
        told = message(each.kind, facts, stream=each.stream, query=each.query)
        yield told._replace(n_rows=table.num_rows)


def fetch_rows(job: Job, stream: str, facts: dict[str, Any]) -> tuple[pa.Table, pa.Table]:
    """The late rows that a reread wants, and the rejects.

    A file whose rows have waited since an earlier batch was read and may have been archived: what was kept of them will
    do.
    """
    info, source, path = job.plan.streams[stream], job.streams[stream], facts["path"]
    late, rejects = pa.table({}), kept_rejects(info, facts)
    if not facts["late"] and not facts["too_far"]:
        return late, rejects
    if not facts["late"] and all(n_rows for *_, n_rows in facts["too_far"]) and not _is_there(job, path):
        return late, pa.concat_tables([rejects, lost_rejects(info, facts)])
    rows = pa.concat_tables(
        with_identity(records.rows, path, records.lines)
        for records in read_stream_file(source, path, info.time, job.filesystem, info.unit)
    )
    found, reasons = too_far_rows(rows, info, facts)
    lines = found.column(IDENTITY[1].name).to_numpy()
    read = reject_rows(found.drop_columns([field.name for field in IDENTITY]), path, lines, reasons)
    return late_rows(rows, info, facts), pa.concat_tables([rejects, read])


def _is_there(job: Job, path: str) -> bool:
    system, path = resolve_path(path, job.filesystem)
    return system.get_file_info(path).type != pyarrow.fs.FileType.NotFound
