"""Times in files, on both engines: rows far ahead, integers of any unit, and what the summary says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sash.io.records import REJECT_SCHEMA
from sash.io.sink import read_sink
from sash.runtime.job import Job, QueryRun, Tally
from sash.spark.frame import read_files
from sash.spark.spark_run import RunningQuery, run_on_spark

AHEAD = """
CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS AHEAD 10 SECONDS
  FROM '{root}/a' FORMAT csv;
CREATE QUERY all_rows AS SELECT id, ts FROM a [RANGE 5 SECONDS] INTO '{root}/{out}' FORMAT parquet;
"""
COUNTED = """
CREATE STREAM a (id INT, k VARCHAR, ts BIGINT) TIMESTAMP BY ts UNIT SECONDS SLACK 2 SECONDS FROM '{root}/a' FORMAT csv;
CREATE QUERY all_rows AS SELECT id, ts FROM a [RANGE 5 SECONDS] INTO '{root}/{out}' FORMAT parquet;
"""


def run_spark(run: QueryRun, spark, files_per_batch: int) -> Tally:
    return run_on_spark([Job.alone(run)], spark, lambda name, tally: None, files_per_batch)[run.name]


def rejected(run: QueryRun) -> list[tuple[str, int, int]]:
    """File, line and id of what was rejected."""
    rows = read_sink(run.reject_sink, REJECT_SCHEMA).to_pylist()
    assert all("more than 10 seconds ahead of what came before" in row["reason"] for row in rows)
    return sorted((Path(row["file"]).name, row["line"], json.loads(row["text"])["id"]) for row in rows)


@pytest.mark.parametrize("files_per_batch", [1, 2, 100])
def test_rows_far_ahead_are_the_same_on_both_engines_whatever_files_share_a_batch(
    spark, folder, outputs, files_per_batch
):
    folder.script = AHEAD
    never = "9999-12-31 00:00:00"
    folder.write("a", ["1,x,1", f"2,x,{never}", "3,x,2", f"4,x,{never}"])
    folder.write("a", [f"5,x,{never}"])
    folder.write("a", ["6,x,3", "7,x,40"])
    folder.write("a", ["8,x,41", "9,x,59"])
    folder.write("a", ["10,x,42", "11,x,3", "12,x,43"])
    expected, expected_tally = folder.run_embedded("embedded")
    run = folder.run("spark")
    tally = run_spark(run, spark, files_per_batch)
    assert outputs(run) == outputs(expected)
    assert (
        rejected(run)
        == rejected(expected)
        == [
            ("001.csv", 3, 2),
            ("001.csv", 5, 4),
            ("002.csv", 2, 5),
            ("004.csv", 3, 9),
        ]
    )
    assert [row[0] for row in outputs(run)[1]["a"]] == [11]
    for each in (tally, expected_tally):
        assert (each.n_read, each.n_accepted, each.n_late, each.n_rejected) == (12, 7, 1, 4)


def test_a_row_that_waits_at_the_end_of_a_batch_survives_a_restart(spark, folder, outputs):
    """The first run is killed, so to say: it does not say that its input is complete."""
    folder.script = AHEAD
    folder.write("a", ["1,x,1", "2,x,30"])
    run = folder.run("spark")
    first = RunningQuery(Job.alone(run), spark, lambda name, tally: None, read_files(spark, None))
    first.start()
    first.process_all_available()
    first.stop()
    folder.write("a", ["3,x,31"])
    run_spark(run, spark, 1)
    assert [row[0] for row in outputs(run)[0]] == [1, 2, 3]
    assert not (folder.root / "spark.rejects").exists()


def test_one_wrong_row_at_the_end_of_a_run_does_not_make_the_next_run_late(spark, folder, outputs):
    folder.script = AHEAD
    folder.write("a", ["1,x,1", "2,x,9999-12-31 00:00:00"])
    run = folder.run("spark")
    tally = run_spark(run, spark, 1)
    assert (tally.n_read, tally.n_accepted, tally.n_held) == (2, 1, 1)
    assert tally.notes == ["1 row of `a` is more than 10 seconds ahead and waits for the next one to confirm it"]
    (folder.root / "a" / "001.csv").unlink()  # archived
    folder.write("a", ["3,x,2", "4,x,3"])
    tally = run_spark(run, spark, 1)
    assert [row[0] for row in outputs(run)[0]] == [1, 3, 4]
    assert rejected(run) == [("001.csv", 3, 2)]
    assert (tally.n_read, tally.n_held_before, tally.n_accepted, tally.n_rejected) == (2, 1, 2, 1)
    assert tally.notes == []


def test_integers_of_a_unit_are_timestamps_on_both_engines(spark, folder, outputs):
    folder.script = COUNTED
    (folder.root / "a").mkdir()
    (folder.root / "a" / "1.csv").write_text(
        "id,k,ts\n1,x,1767225600\n2,x,1767225601\n3,x,9000000000000000\n4,x,1767225590\n"
    )
    expected, expected_tally = folder.run_embedded("embedded")
    run = folder.run("spark")
    tally = run_spark(run, spark, 1)
    assert outputs(run) == outputs(expected)
    assert [str(row[1]) for row in outputs(run)[0]] == ["2026-01-01 00:00:00", "2026-01-01 00:00:01"]
    assert run.plan.schema.field("_ts").type == pa.timestamp("us")
    for each in (tally, expected_tally):
        assert (each.n_read, each.n_late, each.n_rejected) == (4, 1, 1)


def test_the_summary_says_which_row_made_nearly_all_others_late(spark, folder):
    folder.script = AHEAD.replace("AHEAD 10 SECONDS", "AHEAD UNLIMITED")
    folder.write("a", ["1,x,1", "2,x,9999-12-31 00:00:00"])
    folder.write("a", [f"{number},x,{number}" for number in range(3, 33)])
    _, expected = folder.run_embedded("embedded")
    run = folder.run("spark")
    tally = run_spark(run, spark, 1)
    for each, row in ((expected, "001.csv, line 3, moved"), (tally, "001.csv moved")):
        (note,) = each.notes
        assert note.startswith("30 of the last 30 rows of stream `a` came too late, since ")
        assert f"{row} its clock to 9999-12-31 00:00:00; if that time is wrong" in note


def test_integers_that_look_like_seconds_are_told_on_both_engines(spark, folder):
    folder.script = COUNTED.replace("UNIT SECONDS ", "")
    (folder.root / "a").mkdir()
    (folder.root / "a" / "1.csv").write_text("id,k,ts\n1,x,1767225600\n2,x,1767225601\n")
    _, expected = folder.run_embedded("embedded")
    tally = run_spark(folder.run("spark"), spark, 1)
    for each in (expected, tally):
        (note,) = each.notes
        assert "is 1767225600, which looks like seconds since 1970 and is taken for microseconds" in note
