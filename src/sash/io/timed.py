"""Records of a stream: a row without a time has no place in it and is rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from sash.io.files import FileSource, read_file
from sash.io.records import REJECT_SCHEMA, Records
from sash.io.time_column import tell_times

IDENTITY = (pa.field("_file", pa.string()), pa.field("_line", pa.int64()))
"""What tells one record of a stream from all others."""
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, which are those of Python."""
_DAY_US = 86_400_000_000


def with_identity(rows: pa.Table, path: str, lines: np.ndarray) -> pa.Table:
    """The rows with the file and line that each stands in."""
    return rows.append_column(IDENTITY[0], pa.repeat(pa.scalar(path), rows.num_rows)).append_column(
        IDENTITY[1], pa.array(lines, pa.int64())
    )


def read_stream_file(
    source: FileSource, path: str, time: str, filesystem: pyarrow.fs.FileSystem | None = None, unit: str | None = None
) -> Iterator[Records]:
    """Like `read_file`, with rows that have no time among the rejects, and the time column as the query sees it."""
    for records in read_file(source, path, filesystem):
        timed = tell_times(records.rows, time, unit)
        if timed.is_timed is None:
            yield Records(timed.rows, records.lines, records.rejects)
            continue
        has_none = ~timed.is_timed
        timeless = reject_rows(records.rows.filter(pa.array(has_none)), path, records.lines[has_none], timed.reasons)
        rejects = pa.concat_tables([records.rejects, timeless])
        yield Records(timed.good, records.lines[timed.is_timed], rejects)


def reject_rows(rows: pa.Table, path: str | list[str], lines: np.ndarray, reasons: Sequence[str]) -> pa.Table:
    """Rejects for rows that could be read, of one file or with that of each, and the reason of each."""
    shown = pa.table([_printable(column) for column in rows.columns], names=rows.column_names)
    columns = {
        "file": [path] * rows.num_rows if isinstance(path, str) else path,
        "line": lines,
        "reason": list(reasons),
        "text": [json.dumps(row, default=str) for row in shown.to_pylist()],
    }
    return pa.table(columns, schema=REJECT_SCHEMA)


def _printable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times that Python has no datetime or date for as what they count."""
    if pa.types.is_date32(column.type):
        days = column.cast(pa.int32())
        return column if _are_between(days, _FIRST_US // _DAY_US, _LAST_US // _DAY_US) else days
    if not pa.types.is_timestamp(column.type):
        return column
    us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column if _are_between(us, _FIRST_US, _LAST_US) else us


def _are_between(counts: pa.ChunkedArray, first: int, last: int) -> bool:
    ends = pc.min_max(counts)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is None or first <= low <= high <= last
