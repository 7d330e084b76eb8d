"""How many sales had the busiest shop within the last minute?

Spark alone runs no aggregate over an aggregate in update mode. Run it with
`python examples/aggregate_over_aggregate.py`.
"""

from __future__ import annotations

import tempfile

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import sash

SALES = [
    ("2026-01-01 12:00:00", "north"),
    ("2026-01-01 12:00:10", "south"),
    ("2026-01-01 12:00:20", "north"),
    ("2026-01-01 12:00:30", "south"),
    ("2026-01-01 12:00:40", "south"),
    ("2026-01-01 12:01:35", "north"),
]

SPARK_ALONE = """
    SELECT MAX(n) AS most
    FROM (SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop) AS shops
"""
WITH_SASH = """
    SELECT MAX(n) AS most
    FROM (SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop) AS shops
    WINDOW 1 MINUTE
"""


def main() -> None:
    spark = sash.spark_session()
    with tempfile.TemporaryDirectory() as directory:
        sales = read_stream(spark, SALES, "ts string, shop string", f"{directory}/sales")
        show_rejection(spark, {"sales": sales})
        show_changes(spark, sash.sql(WITH_SASH, sales=sales))


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
    query = changes.writeStream.format("memory").queryName("aggregate_over_aggregate_changes").start()
    query.processAllAvailable()
    sash.complete(changes)  # nothing will come before the newest row, so what is due up to it comes out
    query.processAllAvailable()
    query.stop()
    spark.table("aggregate_over_aggregate_changes").orderBy("_ts", "_op").show(truncate=False)


if __name__ == "__main__":
    main()
