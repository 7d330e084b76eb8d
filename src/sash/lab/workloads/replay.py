"""A recording played again: the rows of files, with the times between them made shorter or longer.

    recorded   ·   ·       ··     ·
    speed 2    · ·   ··  ·              half as long

Rows come in the order in which they stand in the files, and files in order of arrival. A row that is older than one
before it stays so; the stream is declared with as much slack as it takes to lose none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from sash.errors import SourceError, suggest
from sash.io.files import FileSource, list_files
from sash.io.timed import read_stream_file
from sash.io.values import connection, sql_name
from sash.lab.workloads.arrow_columns import read_times, times_column, zone_of
from sash.lab.workloads.declare import QUERY, quoted
from sash.lab.workloads.law import require
from sash.lab.workloads.workload import WorkloadStream

SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
_READERS = {
    "csv": "read_csv(?, header = true, delim = ',', quote = '\"', sample_size = -1, union_by_name = true)",
    "json": "read_json(?, format = 'nd', sample_size = -1, union_by_name = true)",
    "parquet": "read_parquet(?, union_by_name = true)",
}
_ISO_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.]\d{1,6})?"
_ISO_ZONE = r"(?:Z|[+-]\d{2}(?::?\d{2})?)"


@dataclass(frozen=True, slots=True)
class Replay:
    """Files as one stream, made by `open_replay`."""

    source: FileSource
    stream: WorkloadStream
    speed: float
    start_us: int
    duration_us: int

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return (self.stream,)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {}

    @property
    def question(self) -> str:
        return f"SELECT COUNT(*) AS n FROM {quoted(self.stream.name)} WINDOW 1 MINUTE"

    def generate(self, stream: str) -> Iterator[pa.Table]:
        time = self.stream.time
        for rows in _read(self.source, time):
            column = rows.column(time)
            elapsed = ((read_times(column) - self.start_us) / self.speed).astype(np.int64)
            played = times_column(self.start_us + elapsed, zone_of(column))
            yield rows.set_column(rows.schema.get_field_index(time), rows.schema.field(time), played)


def open_replay(path: str, speed: float = 1.0, time: str | None = None, name: str | None = None) -> Replay:
    """A file, or a directory of files of one format, to be played so many times as fast; they are looked through once.

    `time` is the column of times, and may be left out if there is only one; `name` is what the stream is called: as the
    file, if left out. SourceError for a record that cannot be read, or that has no time.
    """
    require(0 < speed < math.inf, "speed", speed, "above 0")
    name = name or _name_of(path)
    require(name != QUERY, "stream", f"`{QUERY}`", "called something else, as the query beside it has that name")
    format = _format_of(path)
    source = FileSource(path, format, _describe(path, format))
    time = _find_time(source.schema, time, path)
    oldest_us, newest_us, lateness_us = _survey(source, time)
    stream = WorkloadStream(name, source.schema, time, math.ceil(lateness_us / speed))
    return Replay(source, stream, speed, oldest_us, math.ceil((newest_us - oldest_us) / speed) + 1)


def _survey(source: FileSource, time: str) -> tuple[int, int, int]:
    """The oldest and the newest time, and by how much a row is older than one before it, at most."""
    oldest, newest, lateness = [], [], 0
    only_times = FileSource(source.path, source.format, pa.schema([source.schema.field(time)]))
    for rows in _read(only_times, time):
        times = read_times(rows.column(time))
        before = np.maximum.accumulate(np.maximum(times, newest[-1]) if newest else times)
        oldest.append(int(times.min()))
        newest.append(int(before[-1]))
        lateness = max(lateness, int((before - times).max()))
    if not oldest:
        raise SourceError(f"`{source.path}` holds no rows, so that there is nothing to play; check the path")
    return min(oldest), newest[-1], lateness


def _read(source: FileSource, time: str) -> Iterator[pa.Table]:
    for file in list_files(source):
        for records in read_stream_file(source, file.path, time):
            for bad in records.rejects.to_pylist():
                raise SourceError("file `{file}`, line {line}: {reason}; correct the record".format_map(bad))
            if records.rows.num_rows:
                yield records.rows


def _format_of(path: str) -> str:
    """By the suffix of the path, or of the first file in it that has one."""
    named = Path(path)
    if named.is_dir():
        named = next((file for file in sorted(named.rglob("*")) if file.suffix in SUFFIXES), named)
    if named.suffix not in SUFFIXES:
        known = ", ".join(f"`{suffix}`" for suffix in SUFFIXES)
        raise SourceError(f"`{path}` does not say its format; let its name end in one of {known}")
    return SUFFIXES[named.suffix]


def _name_of(path: str) -> str:
    """That of the file, or of the directory of several."""
    named = Path(path)
    return named.parent.name if "*" in named.name else named.stem


def _describe(path: str, format: str) -> pa.Schema:
    """The columns and types of the files, as DuckDB makes them out."""
    files = [file.path for file in list_files(FileSource(path, format, pa.schema([("any", pa.string())])))]
    if not files:
        raise SourceError(f"`{path}` holds no files, so that there is nothing to play; check the path")
    try:
        rows = connection().sql(f"SELECT * FROM {_READERS[format]}", params=[files])
        schema = rows.limit(0).to_arrow_table().schema
        times = {} if format == "parquet" else _find_written_times(rows, schema)
    except duckdb.Error as error:
        reason = f"`{path}` cannot be read as `{format}`: {str(error).splitlines()[0]}"
        raise SourceError(f"{reason}; check the path, or repair the file") from None
    fitted = pa.schema([(column.name, times.get(column.name, _fit(column.type, format))) for column in schema])
    for column in fitted:
        if sql_name(column.type) is None:
            reason = f"`{path}`: column `{column.name}` is {column.type}, which no column of a stream can be"
            raise SourceError(f"{reason}; leave it out of the file")
    return fitted


def _find_written_times(rows: duckdb.DuckDBPyRelation, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Columns of texts that are all times, which DuckDB does not always see."""
    names = [column.name for column in schema if pa.types.is_string(column.type)]
    if not names:
        return {}
    tests = [f"bool_and(regexp_full_match({quoted(name)}, '{_ISO_TIME}{_ISO_ZONE}?'))" for name in names]
    zones = [f"bool_and(regexp_full_match({quoted(name)}, '.*{_ISO_ZONE}'))" for name in names]
    found = rows.aggregate(", ".join(tests + zones)).fetchall()[0]
    return {
        name: pa.timestamp("us", "UTC" if is_zoned else None)
        for name, is_time, is_zoned in zip(names, found, found[len(names) :])
        if is_time
    }


def _fit(dtype: pa.DataType, format: str) -> pa.DataType:
    """The type to declare: times are in microseconds, and what else is no type of a stream is text in CSV."""
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", "UTC" if dtype.tz else None)
    return pa.string() if format == "csv" and sql_name(dtype) is None else dtype


def _find_time(schema: pa.Schema, time: str | None, path: str) -> str:
    times = [column.name for column in schema if pa.types.is_timestamp(column.type)]
    if time is not None and time not in times:
        raise SourceError(f"`{path}` has no column `{time}` of times; {suggest(time, times)}")
    if time is None and len(times) != 1:
        named = ", ".join(f"`{name}`" for name in times) or "no column"
        remedy = "say with --time which one it is" if times else "write times as in `2026-01-31 12:00:00`"
        raise SourceError(f"`{path}` has {named} of times, but a stream needs one; {remedy}")
    return time or times[0]
