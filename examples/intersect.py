"""Which accounts failed to log in and asked for a new password within five minutes?

Spark alone has no INTERSECT of two streams. Run it with `python examples/intersect.py`.
"""

from __future__ import annotations

import tempfile

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import sash

FAILURES = [
    ("2026-01-01 12:00:00", "ann"),
    ("2026-01-01 12:01:00", "bob"),
    ("2026-01-01 12:03:00", "ann"),
]
RESETS = [
    ("2026-01-01 12:02:00", "ann"),
    ("2026-01-01 12:06:30", "bob"),
]

SPARK_ALONE = """
    SELECT account FROM failures
    INTERSECT
    SELECT account FROM resets
"""
WITH_SASH = """
    SELECT account FROM failures
    INTERSECT
    SELECT account FROM resets
    WINDOW 5 MINUTES
"""


def main() -> None:
    spark = sash.spark_session()
    with tempfile.TemporaryDirectory() as directory:
        failures = read_stream(spark, FAILURES, "ts string, account string", f"{directory}/failures")
        resets = read_stream(spark, RESETS, "ts string, account string", f"{directory}/resets")
        show_rejection(spark, {"failures": failures, "resets": resets})
        show_changes(spark, sash.sql(WITH_SASH, failures=failures, resets=resets))


def read_stream(spark: SparkSession, rows: list[tuple], schema: str, path: str) -> DataFrame:
    """The rows as a stream of one file, the first column as its time."""
    frame = spark.createDataFrame(rows, schema).selectExpr("CAST(ts AS TIMESTAMP) AS ts", "* EXCEPT (ts)")
    frame.coalesce(1).write.parquet(path)
    return spark.readStream.schema(frame.schema).parquet(path)


def show_rejection(spark: SparkSession, streams: dict[str, DataFrame]) -> None:
    """What Spark says when it is asked alone."""
    for name, stream in streams.items():
        stream.createOrReplaceTempView(name)
    try:
        query = spark.sql(SPARK_ALONE).writeStream.format("noop").outputMode("append").start()
        query.stop()
        print("Spark alone accepts the query")
    except AnalysisException as error:
        print(f"Spark alone: {str(error).splitlines()[0]}\n")


def show_changes(spark: SparkSession, changes: DataFrame) -> None:
    """Runs the query up to the end of its streams."""
    query = changes.writeStream.format("memory").queryName("intersect_changes").start()
    query.processAllAvailable()
    sash.complete(changes)  # nothing will come before the newest row, so what is due up to it comes out
    query.processAllAvailable()
    query.stop()
    spark.table("intersect_changes").orderBy("_ts", "_op").show(truncate=False)


if __name__ == "__main__":
    main()
