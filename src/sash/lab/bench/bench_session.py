"""The Spark session in which engines are measured: the same for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sash.lab.workloads.join_streams import JoinWorkload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXTRA_BATCHES = 10


def bench_session(spark: SparkSession, workload: JoinWorkload) -> SparkSession:
    """A session of its own on the same cluster, so that settings and views stay here.

    One shuffle partition per core. Every batch's progress and files are kept until they have been looked at.
    """
    session = spark.newSession()
    n_batches = len(workload.batches) + _EXTRA_BATCHES
    for setting, value in {
        "spark.sql.shuffle.partitions": spark.sparkContext.defaultParallelism,
        "spark.sql.streaming.numRecentProgressUpdates": max(100, n_batches),
        "spark.sql.streaming.minBatchesToRetain": max(100, n_batches),
        # Spark's default is an outdated type that takes longer to write; DuckDB and Sash write this one.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }.items():
        session.conf.set(setting, str(value))
    return session


def unload_state(session: SparkSession) -> None:
    """Closes the state stores that queries left open, so that the next engine has the memory to itself."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
