"""How many different visitors did each page have within the last minute?

Spark alone has no COUNT(DISTINCT …) of a stream. Run it with `python examples/count_distinct.py`.
"""

from __future__ import annotations

import tempfile

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import sash

VISITS = [
    ("2026-01-01 12:00:00", "home", "ann"),
    ("2026-01-01 12:00:10", "home", "bob"),
    ("2026-01-01 12:00:20", "home", "ann"),
    ("2026-01-01 12:00:30", "cart", "ann"),
    ("2026-01-01 12:01:15", "home", "cem"),
]

SPARK_ALONE = """
    SELECT page, COUNT(DISTINCT visitor) AS visitors
    FROM visits
    GROUP BY page
"""
WITH_SASH = """
    SELECT page, COUNT(DISTINCT visitor) AS visitors
    FROM visits
    GROUP BY page
    WINDOW 1 MINUTE
"""


def main() -> None:
    spark = sash.spark_session()
    with tempfile.TemporaryDirectory() as directory:
        visits = read_stream(spark, VISITS, "ts string, page string, visitor string", f"{directory}/visits")
        show_rejection(spark, {"visits": visits})
        show_changes(spark, sash.sql(WITH_SASH, visits=visits))


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
        query = spark.sql(SPARK_ALONE).writeStream.format("noop").outputMode("update").start()
        query.stop()
        print("Spark alone accepts the query")
    except AnalysisException as error:
        print(f"Spark alone: {str(error).splitlines()[0]}\n")


def show_changes(spark: SparkSession, changes: DataFrame) -> None:
    """Runs the query up to the end of its streams."""
    query = changes.writeStream.format("memory").queryName("count_distinct_changes").start()
    query.processAllAvailable()
    sash.complete(changes)  # nothing will come before the newest row, so what is due up to it comes out
    query.processAllAvailable()
    query.stop()
    spark.table("count_distinct_changes").orderBy("_ts", "_op").show(truncate=False)


if __name__ == "__main__":
    main()
