"""Records of a stream: a row without a time has no place in it and is rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.fs

from sash.sources.files import FileSource, read_file
from sash.sources.records import REJECT_SCHEMA, Records
from sash.store.batch import is_timed

IDENTITY = (pa.field("_file", pa.string()), pa.field("_line", pa.int64()))
"""What tells one record of a stream from all others."""


def with_identity(rows: pa.Table, path: str, lines: np.ndarray) -> pa.Table:
    """The rows with the file and line that each stands in."""
    return rows.append_column(IDENTITY[0], pa.repeat(pa.scalar(path), rows.num_rows)).append_column(
        IDENTITY[1], pa.array(lines, pa.int64())
    )


def read_stream_file(
    source: FileSource, path: str, time: str, filesystem: pa.fs.FileSystem | None = None
) -> Iterator[Records]:
    """Like `read_file`, with rows that have no time among the rejects."""
    for records in read_file(source, path, filesystem):
        has_time = is_timed(records.rows.column(time))
        if has_time.all():
            yield records
            continue
        timeless = timeless_rejects(records.rows.filter(pa.array(~has_time)), time, path, records.lines[~has_time])
        rejects = pa.concat_tables([records.rejects, timeless])
        yield Records(records.rows.filter(pa.array(has_time)), records.lines[has_time], rejects)


def _mistake(time: pa.Scalar) -> str:
    return "is the least of 64 bits" if time.is_valid else "is NULL"


def timeless_rejects(rows: pa.Table, time: str, path: str, lines: np.ndarray) -> pa.Table:
    """Rejects for rows that have no time."""
    columns = {
        "file": [path] * rows.num_rows,
        "line": lines,
        "reason": [f"`{time}` {_mistake(value)}, but a row of a stream needs a time" for value in rows.column(time)],
        "text": [json.dumps(row, default=str) for row in rows.to_pylist()],
    }
    return pa.table(columns, schema=REJECT_SCHEMA)
