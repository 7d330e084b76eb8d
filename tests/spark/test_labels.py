"""Every shuffle partition gets as many partition groups as any other."""

from __future__ import annotations

from collections import Counter

import pytest

from sash.spark.labels import group_labels, spark_partition


@pytest.mark.parametrize("n_partitions", [1, 2, 3, 4, 7, 16, 200])
def test_labels_spread_groups_evenly(n_partitions: int) -> None:
    labels = group_labels(2 * n_partitions, n_partitions)
    assert len(set(labels)) == 2 * n_partitions
    assert set(Counter(spark_partition(label, n_partitions) for label in labels).values()) == {2}


def test_labels_never_change() -> None:
    """A checkpoint keeps a group's state where its label sent it."""
    assert group_labels(1, 1) == [0]
    assert group_labels(4, 2) == [0, 1, 2, 4]


def test_partitions_are_those_of_spark(spark) -> None:
    values = [*range(50), -1, 2**31 - 1, -(2**31)]
    rows = spark.createDataFrame([(value,) for value in values], "x int")
    for n_partitions in (1, 3, 8):
        seen = rows.selectExpr("x", f"pmod(hash(x), {n_partitions}) AS place").collect()
        assert {row.x: row.place for row in seen} == {value: spark_partition(value, n_partitions) for value in values}
        placed = rows.repartition(n_partitions, "x").selectExpr("x", "spark_partition_id() AS place").collect()
        assert {row.x: row.place for row in placed} == {row.x: row.place for row in seen}
