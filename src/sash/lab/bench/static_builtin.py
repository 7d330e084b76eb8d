"""Spark's own join of a stream with a table at rest, for `sash bench relation`: a file is a batch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from sash.lab.bench.cpu_time import tree_stats
from sash.lab.bench.measure import batch_seconds, read_progress
from sash.lab.bench.process_facts import MovedMeter
from sash.lab.bench.relation_engines import RelationWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_static_join(
    workload: RelationWorkload, limit_bytes: int, directory: Path, spark: SparkSession
) -> tuple[list[float], int | None]:
    """Seconds of each step, and bytes that Java has read for all of them; the answer is in `directory`/answer.

    What fits the limit is sent to all tasks whole; else both sides are shuffled.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", str(limit_bytes))
    session.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(workload.n_steps + 10))
    stream, table = directory / "stream", directory / "relation.parquet"
    stream.mkdir()
    pq.write_table(workload.relation(), table)
    for number, step in enumerate(workload.steps()):
        pq.write_table(step.select(["k", "n"]), stream / f"{number:06d}.parquet")
        os.utime(stream / f"{number:06d}.parquet", (1000 + number, 1000 + number))
    relation = session.read.parquet(str(table))
    rows = session.readStream.schema("k long, n long").option("maxFilesPerTrigger", 1).parquet(str(stream))
    writer = rows.join(relation, "k").select("n", "v", "p").writeStream.format("parquet").trigger(availableNow=True)
    places = {"path": str(directory / "answer"), "checkpointLocation": str(directory / "checkpoint")}
    meter = MovedMeter(set(tree_stats(os.getpid())) - {os.getpid()})
    before = meter.look().n_read
    query = writer.options(**places).start()
    try:
        query.awaitTermination()
        progress = read_progress(query.recentProgress)
    finally:
        if query.isActive:
            query.stop()
    return [batch_seconds(progress[number]) for number in sorted(progress)], meter.look().n_read - before
