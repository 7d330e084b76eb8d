"""`sash.answer` over Spark frames, next to what it says of the same changes as an Arrow table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.errors import BindError, PlanError
from sash.runtime.job import Job
from sash.runtime.moments import moment_us
from sash.runtime.published_changes import PublishedChanges
from sash.spark.spark_run import run_on_spark
from sash.testing import stream_of

ROWS = stream_of("""
    ts                  | k | v
    2026-01-01 12:00:01 | a | 1.0
    2026-01-01 12:00:01 | a | 1.0
    2026-01-01 12:00:03 | b | NULL
    2026-01-01 12:00:04 | a | 3.0
    2026-01-01 12:00:09 | c | -0.0
""")
TEXTS = {
    "a window of time": "SELECT k, v FROM s [RANGE 4 SECONDS]",
    "a window of rows": "SELECT k, v FROM s [ROWS 2]",
    "groups": "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM s [RANGE 3 SECONDS] GROUP BY k",
    "one group": "SELECT COUNT(*) AS n, MAX(v) AS most FROM s [RANGE 3 SECONDS]",
    "all changes": "SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS] GROUP BY k EMIT CHANGES",
    "lists": "SELECT k, list(v) AS vs FROM s [ROWS 3] GROUP BY k",
}
INSTANTS = [f"2026-01-01 12:00:0{second}" for second in (0, 1, 3, 5, 7, 9)]


def listed(rows: pa.Table) -> list[str]:
    return sorted(repr([0.0 if value == 0 else value for value in row.values()]) for row in rows.to_pylist())


def groups_of(changes: pa.Table, name: str) -> list[str] | bool:
    return ["k"] if name in ("groups", "lists") else [] if name == "one group" else False


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_that_of_the_same_changes_in_this_process(spark, name):
    changes = sash.sql(TEXTS[name], s=ROWS)
    frame = spark.createDataFrame(changes)
    for at in INSTANTS:
        expected = sash.answer(changes, at)
        seen = sash.answer(frame, at, groups=groups_of(changes, name))
        assert seen.columns == expected.column_names
        assert listed(seen.toArrow()) == listed(expected), at
    newest = sash.answer(changes.replace_schema_metadata(), groups=groups_of(changes, name))
    assert listed(sash.answer(frame, groups=groups_of(changes, name)).toArrow()) == listed(newest)


@pytest.mark.parametrize("name", ["a window of rows", "groups"])
def test_whatever_tells_time_and_in_whatever_zone(spark, name):
    zoned = ROWS.set_column(0, "ts", ROWS["ts"].cast(pa.timestamp("us", "UTC")))
    counted = ROWS.set_column(0, "ts", ROWS["ts"].cast(pa.int64()))
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    text = TEXTS[name].replace("[RANGE 3 SECONDS]", "[RANGE 3000000 us]")
    for rows in (zoned, counted):
        changes = sash.sql(text, s=sash.stream(rows, time="ts"))
        frame = own.createDataFrame(changes)
        groups = groups_of(changes, name)
        for at in INSTANTS:
            assert listed(sash.answer(frame, at, groups=groups).toArrow()) == listed(
                sash.answer(changes, moment_us(at))
            )
        assert listed(sash.answer(frame, groups=groups).toArrow()) == listed(sash.answer(changes))


def test_how_to_read_them_goes_along_into_spark_s_files(spark, tmp_path: Path):
    spark.createDataFrame(ROWS).write.parquet(str(tmp_path / "in"))
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    out = sash.sql(TEXTS["groups"], s=spark.readStream.schema(schema).parquet(str(tmp_path / "in")))
    with pytest.raises(PlanError, match="a streaming DataFrame has no answer yet"):
        sash.answer(out)
    writing = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    sash.complete(out)
    query.processAllAvailable()
    query.stop()
    written = spark.read.parquet(str(tmp_path / "out"))
    expected = sash.answer(sash.sql(TEXTS["groups"], s=ROWS), INSTANTS[3])
    assert listed(sash.answer(written, INSTANTS[3]).toArrow()) == listed(expected) != []


def test_what_is_not_known_is_refused(spark):
    changes = sash.sql(TEXTS["a window of rows"], s=ROWS)
    frame = spark.createDataFrame(changes)
    with pytest.raises(BindError, match="does not say whether the newest row of a group replaces the older one"):
        sash.answer(frame)
    with pytest.raises(BindError, match="no column `_op`, so it does not hold changes; read what the frame of"):
        sash.answer(frame.drop("_op"))
    with pytest.raises(Exception, match="take back rows that they have not brought"):
        sash.answer(frame.where("_op < 0"), groups=False).collect()


def test_no_changes_have_no_answer(spark):
    changes = sash.sql(TEXTS["groups"], s=ROWS)
    frame = spark.createDataFrame(changes).limit(0)
    assert sash.answer(frame, groups=["k"]).collect() == []
    assert sash.answer(frame, groups=[]).collect() == []
    assert sash.answer(frame, groups=False).collect() == []


SCRIPT = """
CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/a' FORMAT csv;
CREATE QUERY newest AS SELECT k, COUNT(*) AS n FROM a [RANGE 5 SECONDS] GROUP BY k INTO '{root}/{out}' FORMAT csv;
"""


@pytest.mark.parametrize("files_per_batch", [1, 100])
def test_an_output_of_spark_s_has_the_answer_of_one_of_this_process(spark, folder, files_per_batch):
    folder.script = SCRIPT
    folder.write("a", ["1,x,1", "2,y,2"])
    folder.write("a", ["3,x,4", "4,x,9"])
    folder.write("a", ["5,y,10", "6,z,13"])
    expected, _ = folder.run_embedded("embedded")
    run = folder.run("spark")
    run_on_spark([Job.alone(run)], spark, lambda name, tally: None, files_per_batch)
    here, there = (PublishedChanges.open(each.sink.path) for each in (expected, run))
    last = here.final_us
    assert last == there.final_us
    assert last is not None
    for us in (None, *range(last - 12_000_000, last + 1, 1_000_000)):
        assert listed(there.answer(us)) == listed(here.answer(us))
    assert listed(here.answer()) == ["['x', 1]", "['y', 1]", "['z', 1]"]
