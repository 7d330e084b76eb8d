"""The join that is measured, in the words of each engine.

Sash joins rows of streams under `WINDOW w` exactly if their lives [ts, ts + w) overlap, that is if the times of any two
of them are less than w apart. The other engines are asked for just that.

In an outer join, behind EMIT FINAL, pairs stay for ever, and a row of `a` that has met nobody comes with NULLs when its
life is over. Sash ends at the last time of any stream; Spark, in milliseconds, at the last time of the slower one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sash.lab.workloads.join_streams import JoinWorkload

NAME = "joined"
_ROUNDING_US = 10_000
"""Spark's clock may be so much behind: it counts milliseconds, and compares with a next one."""


def output_columns(workload: JoinWorkload) -> dict[str, pa.DataType]:
    """The columns of the answer: the key, then all others of each stream in turn."""
    own = [field for field in workload.schema if field.name != "k"]
    return {"k": pa.int64()} | {f"{stream}_{field.name}": field.type for stream in workload.names for field in own}


def select_list(workload: JoinWorkload) -> str:
    """What all engines select."""
    named = [f"{stream}.{name} AS {stream}_{name}" for stream in workload.names for name in _own_columns(workload)]
    return ", ".join(["a.k AS k", *named])


def system_columns(workload: JoinWorkload) -> str:
    """For DuckDB: the columns that Sash adds to an answer."""
    times, life = ", ".join(f"{name}.ts" for name in workload.names), f"INTERVAL '{workload.window_us} microseconds'"
    if workload.is_outer:
        since = f"CASE WHEN b.k IS NULL THEN a.ts + {life} ELSE greatest({times}) END"
        return f"1::TINYINT AS _op, {since} AS _ts, NULL::TIMESTAMPTZ AS _expires"
    return f"1::TINYINT AS _op, greatest({times}) AS _ts, least({times}) + {life} AS _expires"


def sash_script(workload: JoinWorkload, files: Path, output: Path) -> str:
    """A script for `sash run`."""
    columns = ", ".join(f"{field.name} {sql_type(field.type)}" for field in workload.schema)
    streams = [
        f"CREATE STREAM {stream} ({columns}) TIMESTAMP BY ts FROM {_quote(files / stream)} FORMAT parquet;"
        for stream in workload.names
    ]
    query = f"CREATE QUERY {NAME} AS {sash_sql(workload)} INTO {_quote(output)} FORMAT parquet;"
    return "\n".join([*streams, query])


def sash_sql(workload: JoinWorkload) -> str:
    """The query, over streams that are declared."""
    window = f"{workload.window_us} MICROSECONDS"
    if workload.is_outer:
        joined = f"a [RANGE {window}] LEFT JOIN b [RANGE {window}] ON {workload.keys_are_equal}"
        return f"SELECT {select_list(workload)} FROM {joined} EMIT FINAL"
    streams = ", ".join(workload.names)
    return f"SELECT {select_list(workload)} FROM {streams} WHERE {workload.keys_are_equal} WINDOW {window}"


def builtin_sql(workload: JoinWorkload) -> str:
    """For Spark, over views that are streams with watermarks: one join after the other, each with one more stream.

    Spark refuses to join what has more than one column with a watermark (MULTIPLE_EVENT_TIME_COLUMNS), so all times but
    that of `a` are made into columns without one before the next join. From the conditions on `a_ts` it then derives
    what each join may forget.
    """
    first, *others = workload.names
    sql = f"SELECT k, {', '.join(f'{name} AS {first}_{name}' for name in _own_columns(workload))} FROM {first}"
    for place, stream in enumerate(others, 1):
        own = {f"{stream}_{name}": f"{stream}.{name}" for name in _own_columns(workload)}
        if stream != workload.names[-1]:
            own[f"{stream}_ts"] = f"timestamp_micros(unix_micros({stream}.ts))"
        near = " AND ".join(are_near(workload, f"met.{other}_ts", f"{stream}.ts") for other in workload.names[:place])
        selected = ", ".join(f"{sql} AS {name}" for name, sql in own.items())
        join = "LEFT JOIN" if workload.is_outer else "JOIN"
        sql = f"SELECT met.*, {selected} FROM ({sql}) AS met {join} {stream} ON met.k = {stream}.k AND {near}"
    return sql


def duckdb_sql(workload: JoinWorkload, files: Path, selected: str | None = None) -> str:
    """For DuckDB, over all files at once; what all engines select, if nothing else is asked for."""
    first, *others = (f"read_parquet({_quote(files / name / '*.parquet')}) AS {name}" for name in workload.names)
    join = "LEFT JOIN" if workload.is_outer else "JOIN"
    joins = [f"{join} {source} ON {_meets(workload, place)}" for place, source in enumerate(others, 1)]
    due = f" WHERE b.k IS NOT NULL OR a.ts <= make_timestamptz({_due_us(workload, files)})" if workload.is_outer else ""
    return f"SELECT {selected or select_list(workload)} FROM {first} {' '.join(joins)}{due}"


def told_by_all(workload: JoinWorkload, files: Path) -> str | None:
    """Which rows of the answer all engines must give, as DuckDB reads it; None: all."""
    if not workload.is_outer:
        return None
    return f"b_v IS NOT NULL OR a_ts <= {min(_last_times(workload, files)) - workload.window_us - _ROUNDING_US}"


def spark_schema(workload: JoinWorkload) -> str:
    """A stream's schema as Spark's reader takes it."""
    return ", ".join(f"{field.name} {_spark_type(field.type)}" for field in workload.schema)


def sql_type(dtype: pa.DataType) -> str:
    """The name of a workload's type in Sash's SQL and in DuckDB's."""
    if pa.types.is_decimal(dtype):
        return f"DECIMAL({dtype.precision}, {dtype.scale})"
    return {pa.int64(): "BIGINT", pa.string(): "VARCHAR"}.get(dtype, "TIMESTAMPTZ")


def _spark_type(dtype: pa.DataType) -> str:
    return {"VARCHAR": "STRING", "TIMESTAMPTZ": "TIMESTAMP"}.get(sql_type(dtype), sql_type(dtype))


def _own_columns(workload: JoinWorkload) -> list[str]:
    return [name for name in workload.schema.names if name != "k"]


def _meets(workload: JoinWorkload, place: int) -> str:
    """That a row of the stream at this place has the key of those before it, and is near each of them in time."""
    stream, before = workload.names[place], workload.names[:place]
    near = [are_near(workload, f"{other}.ts", f"{stream}.ts") for other in before]
    return " AND ".join([f"{before[-1]}.k = {stream}.k", *near])


def are_near(workload: JoinWorkload, one: str, other: str) -> str:
    """Sash's window as a condition that Spark and DuckDB understand; Spark derives from it what it may forget."""
    length = f"INTERVAL '{workload.window_us} microseconds'"
    return f"{one} > {other} - {length} AND {one} < {other} + {length}"


def _due_us(workload: JoinWorkload, files: Path) -> int:
    """The last time at which a life began that is over at the end."""
    return max(_last_times(workload, files)) - workload.window_us


def _last_times(workload: JoinWorkload, files: Path) -> list[int]:
    """Of each stream, in microseconds: times increase."""
    last = [max((files / stream).glob("*.parquet")) for stream in workload.names]
    return [pq.read_table(path, columns=["ts"]).column("ts").cast(pa.int64())[-1].as_py() for path in last]


def _quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
