"""What Sash is compared with: Spark's own joins of two streams, and DuckDB's join of all files at once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sash.errors import InternalError
from sash.lab.bench.bench_session import bench_session, unload_state
from sash.lab.bench.cpu_time import CpuMarks
from sash.lab.bench.join_texts import builtin_sql, duckdb_sql, spark_schema
from sash.lab.bench.measure import (
    BatchMeasure,
    Measured,
    Note,
    batch_seconds,
    checkpoint_bytes,
    read_progress,
    state_rows,
    store_bytes,
)
from sash.lab.workloads.join_streams import FILES_PER_BATCH, JoinWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_SECONDS_BETWEEN_LOOKS = 0.25
"""So much later, at most, it is seen that a batch is done, and its CPU time is taken."""


def run_builtin(workload: JoinWorkload, files: Path, output: Path, spark: SparkSession, note: Note) -> Measured:
    """Runs Spark's stream-stream join over the same batches of files, from Parquet to Parquet, with a checkpoint."""
    session, checkpoint = bench_session(spark, workload), output.with_name(f"{output.name}.checkpoint")
    for stream in workload.names:
        reader = session.readStream.schema(spark_schema(workload)).option("maxFilesPerTrigger", FILES_PER_BATCH)
        frame = reader.parquet(str((files / stream).absolute()))
        frame.withWatermark("ts", "0 seconds").createOrReplaceTempView(stream)
    writer = session.sql(builtin_sql(workload)).writeStream.format("parquet").trigger(availableNow=True)
    started, cpu = time.monotonic(), CpuMarks()
    query = writer.options(path=str(output.absolute()), checkpointLocation=str(checkpoint.absolute())).start()
    try:
        while query.isActive:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            done = read_progress(query.recentProgress)
            cpu.look()
            cpu.mark(len(done))
            note(sum(event["numInputRows"] for event in done.values()))
        query.awaitTermination()
        wall_seconds, cpu_seconds = time.monotonic() - started, cpu.seconds()
        progress = read_progress(query.recentProgress)
        cpu.mark(len(progress))
    finally:
        _stop(query)
        unload_state(session)
    by_batch, background = checkpoint_bytes(checkpoint)
    batches = [
        replace(_measure(n_rows, progress[number], by_batch[number]), cpu_seconds=cpu.seconds_of(number))
        for number, n_rows in enumerate(workload.batches)
    ]
    return Measured(batches, sum(map(batch_seconds, progress.values())), wall_seconds, background, cpu_seconds)


def run_duckdb(workload: JoinWorkload, files: Path, output: Path) -> Measured:
    """Joins all files at once, from Parquet to Parquet: one batch."""
    output.mkdir(parents=True)
    target = str(output / "all.parquet").replace("'", "''")
    started, cpu_started = time.monotonic(), time.process_time()
    with duckdb.connect(config={"temp_directory": str(output / "spilled")}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY ({duckdb_sql(workload, files)}) TO '{target}' (FORMAT parquet)")
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
    return Measured([BatchMeasure(workload.total_rows, seconds)], seconds, seconds, cpu_seconds=cpu_seconds)


def _measure(n_rows: int, event: dict[str, Any], n_bytes: int) -> BatchMeasure:
    n_dropped = sum(each["numRowsDroppedByWatermark"] for each in event["stateOperators"])
    if event["numInputRows"] != n_rows or n_dropped:
        raise InternalError(
            f"batch {event['batchId']} should have {n_rows} rows in time, but Spark tells of {event['numInputRows']}, "
            f"of which {n_dropped} came late"
        )
    held = store_bytes(event)
    return BatchMeasure(n_rows, batch_seconds(event), n_bytes, state_rows(event), held, held)


def _stop(query: StreamingQuery) -> None:
    if query.isActive:
        query.stop()
