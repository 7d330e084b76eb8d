"""Which orders of the last ten minutes have not been shipped?

Spark alone has no EXCEPT of two streams. Run it with `python examples/except.py`.
"""

from __future__ import annotations

import tempfile

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import sash

ORDERS = [
    ("2026-01-01 12:00:00", 1),
    ("2026-01-01 12:01:00", 2),
    ("2026-01-01 12:12:00", 3),
]
SHIPMENTS = [
    ("2026-01-01 12:04:00", 1),
    ("2026-01-01 12:12:00", 2),
]

SPARK_ALONE = """
    SELECT number FROM orders
    EXCEPT
    SELECT number FROM shipments
"""
WITH_SASH = """
    SELECT number FROM orders
    EXCEPT
    SELECT number FROM shipments
    WINDOW 10 MINUTES
"""


def main() -> None:
    spark = sash.spark_session()
    with tempfile.TemporaryDirectory() as directory:
        orders = read_stream(spark, ORDERS, "ts string, number long", f"{directory}/orders")
        shipments = read_stream(spark, SHIPMENTS, "ts string, number long", f"{directory}/shipments")
        show_rejection(spark, {"orders": orders, "shipments": shipments})
        show_changes(spark, sash.sql(WITH_SASH, orders=orders, shipments=shipments))


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
    query = changes.writeStream.format("memory").queryName("except_changes").start()
    query.processAllAvailable()
    sash.complete(changes)  # nothing will come before the newest row, so what is due up to it comes out
    query.processAllAvailable()
    query.stop()
    spark.table("except_changes").orderBy("_ts", "_op").show(truncate=False)


if __name__ == "__main__":
    main()
