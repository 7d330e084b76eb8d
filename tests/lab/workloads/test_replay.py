"""A recording is played row by row, with the times between rows divided by the speed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.errors import PlanError, SourceError
from sash.lab.workloads.arrow_columns import read_times
from sash.lab.workloads.batches import BatchCut, batches
from sash.lab.workloads.replay import Replay, open_replay

SECOND = 1_000_000
NOON = 1_767_268_800 * SECOND
CSV = """sensor,value,at
1,20.5,2026-01-01 12:00:00
2,30.0,2026-01-01 12:00:10
1,21.5,2026-01-01 12:00:11
"""
JSON = """{"sensor": 1, "value": 20.5, "at": "2026-01-01T12:00:00.000000"}
{"sensor": 2, "value": 30.0, "at": "2026-01-01T12:00:10.000000"}
{"sensor": 1, "value": 21.5, "at": "2026-01-01T12:00:11.000000"}
"""


def rows_of(replay: Replay) -> pa.Table:
    return pa.concat_tables(replay.generate(replay.stream.name))


def seconds(replay: Replay) -> list[float]:
    return ((read_times(rows_of(replay)[replay.stream.time]) - NOON) / SECOND).tolist()


@pytest.fixture
def recordings(tmp_path: Path) -> dict[str, str]:
    """The same rows in every format."""
    paths = {format: str(tmp_path / f"readings.{format}") for format in ("csv", "json", "parquet")}
    Path(paths["csv"]).write_text(CSV)
    Path(paths["json"]).write_text(JSON)
    pq.write_table(rows_of(open_replay(paths["csv"])), paths["parquet"])
    return paths


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_gaps_are_divided_by_the_speed(recordings, format):
    assert seconds(open_replay(recordings[format])) == [0, 10, 11]
    assert seconds(open_replay(recordings[format], speed=2)) == [0, 5, 5.5]
    assert seconds(open_replay(recordings[format], speed=0.1)) == [0, 100, 110]
    played = open_replay(recordings[format], speed=4)
    assert (played.start_us, played.duration_us) == (NOON, 2_750_001)
    assert rows_of(played).drop_columns("at").to_pylist() == [
        {"sensor": 1, "value": 20.5},
        {"sensor": 2, "value": 30.0},
        {"sensor": 1, "value": 21.5},
    ]
    assert played.stream.schema == pa.schema(
        [("sensor", pa.int64()), ("value", pa.float64()), ("at", pa.timestamp("us"))]
    )


def test_times_can_be_moved_to_now(recordings):
    (batch,) = batches(open_replay(recordings["csv"], speed=2), BatchCut(rows=3), start_us=5 * SECOND)
    assert (read_times(batch.rows["at"]) / SECOND).tolist() == [5, 10, 10.5]


@pytest.mark.parametrize("speed", [1.0, 3.0, 7.3])
def test_rows_that_are_late_stay_late_and_the_slack_covers_them(tmp_path, speed):
    rng = np.random.default_rng(1)
    times = NOON + np.sort(rng.integers(0, 100 * SECOND, 500)) - rng.integers(0, 3 * SECOND, 500)
    path = tmp_path / "late.parquet"
    pq.write_table(pa.table({"id": np.arange(500), "ts": pa.array(times).cast(pa.timestamp("us", "UTC"))}), path)
    replay = open_replay(str(path), speed)
    assert rows_of(replay)["id"].to_pylist() == list(range(500))
    played = read_times(rows_of(replay)["ts"])
    lateness = (np.maximum.accumulate(played) - played).max()
    assert replay.stream.slack_us - 1 <= lateness <= replay.stream.slack_us
    assert lateness == pytest.approx(2.9 * SECOND / speed, rel=0.1)


def test_files_of_a_directory_come_in_order_of_arrival(tmp_path):
    directory = tmp_path / "readings"
    directory.mkdir()
    for number, name in enumerate(["z.csv", "a.csv"]):
        (directory / name).write_text(f"id,ts\n{number},2026-01-01 12:00:0{number}Z\n")
        os.utime(directory / name, (number, number))
    (directory / ".unfinished.csv").write_text("nothing")
    replay = open_replay(str(directory))
    assert rows_of(replay)["id"].to_pylist() == [0, 1]
    assert (replay.stream.name, replay.stream.schema.field("ts").type) == ("readings", pa.timestamp("us", "UTC"))
    assert open_replay(f"{directory}/*.csv").stream.name == "readings"


def test_the_column_of_times_and_the_name_may_be_given(tmp_path):
    (tmp_path / "x.csv").write_text("id,made,sent\n1,2026-01-01 12:00:00,2026-01-01 12:00:05\n")
    replay = open_replay(str(tmp_path / "x.csv"), time="sent", name="orders")
    assert (replay.stream.name, replay.stream.time, replay.start_us) == ("orders", "sent", NOON + 5 * SECOND)


def test_what_is_no_type_of_a_stream_stays_text_in_csv(tmp_path):
    (tmp_path / "x.csv").write_text("id,hour,ts\n1,12:30:00,2026-01-01 12:00:00\n")
    assert rows_of(open_replay(str(tmp_path / "x.csv")))["hour"].to_pylist() == ["12:30:00"]


@pytest.mark.parametrize("suffix", ["Z", "+02", "-01:30"])
@pytest.mark.parametrize("format", ["csv", "json"])
def test_times_may_have_a_zone(tmp_path, format, suffix):
    path = tmp_path / f"x.{format}"
    moment = f"2026-01-01T12:00:00.25{suffix}"
    path.write_text(f"id,ts\n1,{moment}\n" if format == "csv" else f'{{"id": 1, "ts": "{moment}"}}\n')
    replay = open_replay(str(path))
    assert replay.stream.schema.field("ts").type == pa.timestamp("us", "UTC")
    offset = {"Z": 0, "+02": -7200, "-01:30": 5400}[suffix]
    assert replay.start_us == NOON + SECOND // 4 + offset * SECOND


def test_texts_of_parquet_stay_texts(tmp_path):
    rows = pa.table({"noted": ["2026-01-01 12:00:00"], "ts": pa.array([NOON]).cast(pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "x.parquet")
    assert rows_of(open_replay(str(tmp_path / "x.parquet"))).equals(rows)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "x.csv",
            "id,a,b\n1,2026-01-01 12:00:00,2026-01-01 12:00:00\n",
            "has `a`, `b` of times, but a stream needs one; say",
        ),
        ("x.csv", "id\n1\n", "has no column of times, but a stream needs one; write times as in"),
        ("x.csv", "id,ts\n1,2026-01-01 12:00:00\n2,\n", "line 3: `ts` is NULL, but a row of a stream needs a time"),
        ("x.json", '{"ts": "2026-01-01T12:00:00", "v": {"w": 1}}\n', "column `v` is struct<w: int64>, which no column"),
        ("x.txt", "", "does not say its format; let its name end in one of `.csv`, `.json`"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError) as raised:
        rows_of(open_replay(str(tmp_path / name)))
    assert reason in str(raised.value)


def test_paths_and_names_are_checked(tmp_path, recordings):
    with pytest.raises(SourceError, match="does not exist; check the path"):
        open_replay(str(tmp_path / "missing.csv"))
    with pytest.raises(SourceError, match="has no column `sent` of times; there is `at`"):
        open_replay(recordings["csv"], time="sent")
    with pytest.raises(PlanError, match="`speed` is 0, but must be above 0"):
        open_replay(recordings["csv"], speed=0)
    with pytest.raises(PlanError, match="`stream` is `answer`, but must be called something else"):
        open_replay(recordings["csv"], name="answer")
    (tmp_path / "empty.csv").write_text("id,ts\n")
    with pytest.raises(SourceError, match="has no column of times"):
        open_replay(str(tmp_path / "empty.csv"))
