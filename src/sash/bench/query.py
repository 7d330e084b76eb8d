"""The join that is measured, in the words of each engine.

Sash joins a row of `a` with a row of `b` under `WINDOW w` exactly if their lives [ts, ts + w) overlap, that is if
|a.ts - b.ts| < w. The other engines are asked for just that.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sash.workloads.join import STREAMS, JoinWorkload

NAME = "joined"


def output_columns(workload: JoinWorkload) -> dict[str, pa.DataType]:
    """The columns of the answer: the key, then all others of `a`, then those of `b`."""
    own = [field for field in workload.schema if field.name != "k"]
    return {"k": pa.int64()} | {f"{stream}_{field.name}": field.type for stream in STREAMS for field in own}


def select_list(workload: JoinWorkload) -> str:
    """What all engines select."""
    own = [name for name in workload.schema.names if name != "k"]
    named = [f"{stream}.{name} AS {stream}_{name}" for stream in STREAMS for name in own]
    return ", ".join(["a.k AS k", *named])


def window_condition(workload: JoinWorkload) -> str:
    """Sash's window as a condition that Spark and DuckDB understand; Spark derives from it what it may forget."""
    length = f"INTERVAL '{workload.window_us} microseconds'"
    return f"a.k = b.k AND a.ts > b.ts - {length} AND a.ts < b.ts + {length}"


def sash_script(workload: JoinWorkload, files: Path, output: Path) -> str:
    """A script for `sash run`."""
    columns = ", ".join(f"{field.name} {sql_type(field.type)}" for field in workload.schema)
    streams = [
        f"CREATE STREAM {stream} ({columns}) TIMESTAMP BY ts FROM {_quote(files / stream)} FORMAT parquet;"
        for stream in STREAMS
    ]
    query = (
        f"CREATE QUERY {NAME} AS SELECT {select_list(workload)} FROM a, b WHERE a.k = b.k "
        f"WINDOW {workload.window_us} MICROSECONDS INTO {_quote(output)} FORMAT parquet;"
    )
    return "\n".join([*streams, query])


def builtin_sql(workload: JoinWorkload) -> str:
    """For Spark, over views `a` and `b` that are streams with watermarks."""
    return f"SELECT {select_list(workload)} FROM a JOIN b ON {window_condition(workload)}"


def duckdb_sql(workload: JoinWorkload, files: Path) -> str:
    """For DuckDB, over all files at once."""
    a, b = (f"read_parquet({_quote(files / stream / '*.parquet')}) AS {stream}" for stream in STREAMS)
    return f"SELECT {select_list(workload)} FROM {a} JOIN {b} ON {window_condition(workload)}"


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


def _quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
