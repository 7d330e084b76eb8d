"""Every program shows how Spark alone rejects its query, and the changes that Sash gives for it. Every script gives the
changes that it gives in one process, which tests/lab/workloads/test_examples.py compares with DuckDB's answer.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from sash.embedded.run_to_end import run_files
from sash.runtime.script import bind_script

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from sash.runtime.job import Job
from sash.spark.spark_run import run_on_spark
from support.profiles import everyday

EXAMPLES = Path(__file__).parents[2] / "examples"
REJECTIONS = {
    "count_distinct": "Distinct aggregations are not supported on streaming DataFrames/Datasets.",
    "except": "Except on a streaming DataFrame/Dataset on the right is not supported",
    "intersect": "Intersect of streaming DataFrames/Datasets is not supported",
    "aggregate_over_aggregate": "Detected pattern of possible 'correctness' issue due to global watermark.",
    "count_window": "[NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING]",
    "three_streams": "[MULTIPLE_EVENT_TIME_COLUMNS]",
}
CHANGES = {
    "count_distinct": """
        home | 1 | 1 | 12:00:00 | NULL
        home | 2 | 1 | 12:00:10 | NULL
        cart | 1 | 1 | 12:00:30 | NULL
        home | 1 | 1 | 12:01:10 | NULL
        home | 2 | 1 | 12:01:15 | NULL
    """,
    "except": """
        1 | 1  | 12:00:00 | 12:10:00
        2 | 1  | 12:01:00 | 12:11:00
        1 | -1 | 12:04:00 | 12:10:00
        3 | 1  | 12:12:00 | 12:22:00
    """,
    "intersect": """
        ann | 1 | 12:02:00 | 12:05:00
        ann | 1 | 12:05:00 | 12:08:00
    """,
    "aggregate_over_aggregate": """
        NULL | 1 | NULL     | NULL
        1    | 1 | 12:00:00 | NULL
        2    | 1 | 12:00:20 | NULL
        3    | 1 | 12:00:40 | NULL
        2    | 1 | 12:01:10 | NULL
        1    | 1 | 12:01:30 | NULL
    """,
    "count_window": """
        door | 20.0 | 1 | 12:00:00 | NULL
        roof | 10.0 | 1 | 12:00:05 | NULL
        door | 21.0 | 1 | 12:00:10 | NULL
        door | 22.0 | 1 | 12:00:20 | NULL
        door | 26.0 | 1 | 12:00:30 | NULL
    """,
    "three_streams": """
        17 | 1 | 12:00:35 | 12:00:40
        7  | 1 | 12:00:35 | 12:00:42
    """,
}

SCRIPTS = ("stores", "cameras", "network", "path")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", everyday(["count_distinct", "except", "three_streams"], CHANGES))
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    rejection, _, shown = printed.partition("\n\n")
    assert rejection.startswith(f"Spark alone: {REJECTIONS[name]}")
    assert rows_shown(shown) == rows_of(CHANGES[name])


@pytest.mark.parametrize("name", everyday(["stores", "network"], SCRIPTS))
def test_script(name: str, spark: SparkSession, example: Callable[[str], str], outputs: Callable) -> None:
    text = example(name)
    (embedded,), (on_spark,) = bind_script(text.replace("output/", "embedded/")).runs(), bind_script(text).runs()
    expected = run_files(Job.alone(embedded), lambda name, tally: None)[embedded.name]
    tally = run_on_spark([Job.alone(on_spark)], spark, lambda name, tally: None, files_per_batch=20)[on_spark.name]
    assert (tally.n_read, tally.n_late, tally.n_changes) == (expected.n_read, 0, expected.n_changes)
    assert outputs(on_spark) == outputs(embedded)


def test_no_example_is_left_out() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(CHANGES)


def rows_shown(table: str) -> list[list[str]]:
    """The rows of what DataFrame.show() prints, without the header and the date."""
    lines = [line.strip("|") for line in table.replace("2026-01-01 ", "").splitlines() if line.startswith("|")]
    return rows_of("\n".join(lines[1:]))


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
