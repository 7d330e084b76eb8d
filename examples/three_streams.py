"""Which cars did three cameras see, each soon enough after the others?

Spark alone joins two streams by their times, but no third one to them. Run it with `python examples/three_streams.py`.
"""

from __future__ import annotations

import tempfile

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import sash

SIGHTINGS = {
    "camera1": [("2026-01-01 12:00:00", 17), ("2026-01-01 12:00:05", 42), ("2026-01-01 12:00:35", 7)],
    "camera2": [("2026-01-01 12:00:15", 17), ("2026-01-01 12:00:20", 7), ("2026-01-01 12:00:23", 42)],
    "camera3": [("2026-01-01 12:00:02", 7), ("2026-01-01 12:00:35", 17), ("2026-01-01 12:00:50", 42)],
}

SPARK_ALONE = """
    SELECT A.car
    FROM camera1 A, camera2 B, camera3 C
    WHERE A.car = B.car AND B.car = C.car
      AND A.ts BETWEEN B.ts - INTERVAL 20 SECONDS AND B.ts + INTERVAL 20 SECONDS
      AND B.ts BETWEEN C.ts - INTERVAL 30 SECONDS AND C.ts + INTERVAL 30 SECONDS
      AND A.ts BETWEEN C.ts - INTERVAL 40 SECONDS AND C.ts + INTERVAL 40 SECONDS
"""
WITH_SASH = """
    SELECT A.car
    FROM camera1 A, camera2 B, camera3 C
    WHERE A.car = B.car AND B.car = C.car
    WINDOW (A, B) = 20 SECONDS AND WINDOW (B, C) = 30 SECONDS AND WINDOW (A, C) = 40 SECONDS
"""


def main() -> None:
    spark = sash.spark_session()
    with tempfile.TemporaryDirectory() as directory:
        streams = {
            name: read_stream(spark, rows, "ts string, car long", f"{directory}/{name}")
            for name, rows in SIGHTINGS.items()
        }
        show_rejection(spark, streams)
        show_changes(spark, sash.sql(WITH_SASH, **streams))


def read_stream(spark: SparkSession, rows: list[tuple], schema: str, path: str) -> DataFrame:
    """The rows as a stream of one file, the first column as its time."""
    frame = spark.createDataFrame(rows, schema).selectExpr("CAST(ts AS TIMESTAMP) AS ts", "* EXCEPT (ts)")
    frame.coalesce(1).write.parquet(path)
    return spark.readStream.schema(frame.schema).parquet(path)


def show_rejection(spark: SparkSession, streams: dict[str, DataFrame]) -> None:
    """What Spark says when it is asked alone: not before the query runs."""
    for name, stream in streams.items():
        stream.withWatermark("ts", "0 seconds").createOrReplaceTempView(name)
    query = spark.sql(SPARK_ALONE).writeStream.format("noop").outputMode("append").start()
    try:
        query.processAllAvailable()
        print("Spark alone runs the query")
    except StreamingQueryException as error:
        print(f"Spark alone: {str(error).splitlines()[0].partition('exception: ')[2]}\n")
    finally:
        query.stop()


def show_changes(spark: SparkSession, changes: DataFrame) -> None:
    """Runs the query up to the end of its streams."""
    query = changes.writeStream.format("memory").queryName("three_streams_changes").start()
    query.processAllAvailable()
    sash.complete(changes)  # nothing will come before the newest row, so what is due up to it comes out
    query.processAllAvailable()
    query.stop()
    spark.table("three_streams_changes").orderBy("_ts", "_expires").show(truncate=False)


if __name__ == "__main__":
    main()
