"""The script that goes with a workload's files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pyarrow as pa

from sash.io.values import connection, sql_name
from sash.lab.workloads.workload import Workload, WorkloadStream
from sash.sql.durations import format_duration

QUERY = "answer"


def declare(workload: Workload, directory: Path, format: str, table_format: str) -> str:
    """CREATE statements for all streams and tables as they lie in a directory, and one query over them.

    Paths are as the directory was given: relative ones are relative to where `sash run` is started.
    """
    statements = [_declare_stream(stream, directory, format) for stream in workload.streams]
    for name, table in workload.tables.items():
        path = _text(directory / f"{name}.{table_format}")
        statements.append(
            f"CREATE TABLE {quoted(name)} ({_columns(table.schema)})\n  FROM {path} FORMAT {table_format};"
        )
    into = f"INTO {_text(directory / QUERY)} FORMAT parquet"
    statements.append(f"CREATE QUERY {QUERY} AS\n  {workload.question}\n  {into};")
    return "\n\n".join(statements) + "\n"


def quoted(name: str) -> str:
    """A name as SQL can have it: in quotes if it is no plain word."""
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _keywords()
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def format_length(us: int) -> str:
    """A length of time as SQL has it."""
    return format_duration(us).upper()


def pair_windows(keyword: str, lengths: Mapping[tuple[str, str], int]) -> str:
    """The windows of pairs of streams, each given by their aliases: `keyword` is WINDOW or DWINDOW."""
    return " AND ".join(f"{keyword} ({left}, {right}) = {format_length(us)}" for (left, right), us in lengths.items())


def _declare_stream(stream: WorkloadStream, directory: Path, format: str) -> str:
    slack = f" SLACK {stream.slack_us} MICROSECONDS" if stream.slack_us else ""
    return (
        f"CREATE STREAM {quoted(stream.name)} ({_columns(stream.schema)})\n"
        f"  TIMESTAMP BY {quoted(stream.time)}{slack}\n"
        f"  FROM {_text(directory / stream.name)} FORMAT {format};"
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{quoted(field.name)} {sql_name(field.type)}" for field in schema)


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


@cache
def _keywords() -> frozenset[str]:
    """Words that cannot be names without quotes."""
    rows = connection().execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'")
    return frozenset(name for (name,) in rows.fetchall())
