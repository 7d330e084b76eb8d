"""What is the mean of the last three readings of each sensor?

Spark alone has no windows of rows on a stream. Run it with `python examples/count_window.py`.
"""

from __future__ import annotations

import tempfile

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import sash

READINGS = [
    ("2026-01-01 12:00:00", "door", 20.0),
    ("2026-01-01 12:00:05", "roof", 10.0),
    ("2026-01-01 12:00:10", "door", 22.0),
    ("2026-01-01 12:00:20", "door", 24.0),
    ("2026-01-01 12:00:30", "door", 32.0),
]

SPARK_ALONE = """
    SELECT sensor, AVG(celsius) OVER (PARTITION BY sensor ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS mean
    FROM readings
"""
WITH_SASH = """
    SELECT sensor, AVG(celsius) AS mean
    FROM readings [PARTITION BY sensor ROWS 3]
    GROUP BY sensor
"""


def main() -> None:
    spark = sash.spark_session()
    with tempfile.TemporaryDirectory() as directory:
        readings = read_stream(spark, READINGS, "ts string, sensor string, celsius double", f"{directory}/readings")
        show_rejection(spark, {"readings": readings})
        show_changes(spark, sash.sql(WITH_SASH, readings=readings))


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
    query = changes.writeStream.format("memory").queryName("count_window_changes").start()
    query.processAllAvailable()
    sash.complete(changes)  # nothing will come before the newest row, so what is due up to it comes out
    query.processAllAvailable()
    query.stop()
    spark.table("count_window_changes").orderBy("_ts", "_op").show(truncate=False)


if __name__ == "__main__":
    main()
