"""Files of a workload: what is written, in which order it arrives, and when, by a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from sash.errors import PlanError, ResourceError, SourceError
from sash.io.files import FileSource, list_files, read_file
from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.arrow_columns import read_times
from sash.lab.workloads.batches import Batch, BatchCut
from sash.lab.workloads.declare import declare, quoted
from sash.lab.workloads.recorder import Clock, Recorder, play, record
from sash.lab.workloads.replay import open_replay
from sash.lab.workloads.retail import Retail
from sash.lab.workloads.sensors import Sensors
from sash.runtime.script import read_script

SECOND = 1_000_000
SENSORS = Sensors(rate=20, duration_us=10 * SECOND)


@dataclass
class FakeClock:
    """Sleeping moves it, and so does every look at it, by `look_us`."""

    now_us: int = 50 * SECOND
    look_us: int = 0
    slept: list[float] = field(default_factory=list)

    def tell(self) -> int:
        self.now_us += self.look_us
        return self.now_us

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now_us += round(seconds * SECOND)

    @property
    def clock(self) -> Clock:
        return Clock(self.tell, self.sleep)


def read_back(recorder: Recorder, stream: str, schema: pa.Schema) -> pa.Table:
    """All rows of a stream in order of arrival, as `sash run` reads them."""
    source = FileSource(str(recorder.directory / stream), recorder.format, schema)
    records = [each for file in list_files(source) for each in read_file(source, file.path)]
    assert sum(each.rejects.num_rows for each in records) == 0
    return pa.concat_tables([each.rows for each in records])


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
@pytest.mark.parametrize("workload", [SENSORS, Retail(duration_us=20 * SECOND)], ids=["sensors", "retail"])
def test_what_is_written_is_read_back(tmp_path, workload, format):
    recorder = Recorder(tmp_path / "out", format)
    noted: list[Batch] = []
    record(workload, recorder, BatchCut(rows=70), noted.append)
    for stream in workload.streams:
        rows = pa.concat_tables(workload.generate(stream.name))
        assert read_back(recorder, stream.name, stream.schema).equals(rows)
        tally = recorder.tallies[stream.name]
        assert (tally.n_rows, tally.n_files) == (rows.num_rows, -(-rows.num_rows // 70))
    assert sum(batch.rows.num_rows for batch in noted) == sum(tally.n_rows for tally in recorder.tallies.values())


def test_files_arrive_in_order_of_name(tmp_path):
    recorder = Recorder(tmp_path / "out", "csv")
    record(SENSORS, recorder, BatchCut(every_us=SECOND), lambda batch: None)
    files = sorted((tmp_path / "out" / "humidity").iterdir())
    assert [path.name for path in files] == [f"{number:06d}.csv" for number in range(10)]
    assert [path.stat().st_mtime_ns // 1000 for path in files] == [START_US + number * SECOND for number in range(10)]


def test_tables_are_beside_the_streams(tmp_path):
    retail = Retail(duration_us=SECOND)
    record(retail, Recorder(tmp_path / "out", "json"), BatchCut(rows=100), lambda batch: None)
    for name, table in retail.tables.items():
        written = pyarrow.csv.read_csv(tmp_path / "out" / f"{name}.csv")
        assert written.column(0).to_pylist() == table.column(0).to_pylist()


def test_live_files_come_when_they_are_due_with_times_from_now_on(tmp_path):
    fake = FakeClock()
    recorder = Recorder(tmp_path / "out", "parquet", is_stamped=False)
    at: list[tuple[int, int]] = []
    play(
        SENSORS,
        recorder,
        BatchCut(every_us=2 * SECOND),
        lambda batch: at.append((fake.now_us, batch.due_us)),
        fake.clock,
    )
    assert at == [(due, due) for due in (52 * SECOND, 54 * SECOND, 56 * SECOND, 58 * SECOND, 60 * SECOND) for _ in "ab"]
    assert fake.slept == [2.0] * 5
    for stream in SENSORS.streams:
        moved = read_times(read_back(recorder, stream.name, stream.schema)["ts"])
        generated = read_times(pa.concat_tables(SENSORS.generate(stream.name))["ts"])
        assert (moved - 50 * SECOND).tolist() == (generated - START_US).tolist()


def test_who_falls_behind_does_not_sleep_and_loses_nothing(tmp_path):
    """Every look at the clock takes three seconds, but files are due each second."""
    fake = FakeClock(look_us=3 * SECOND)
    recorder = Recorder(tmp_path / "out", "csv", is_stamped=False)
    play(SENSORS, recorder, BatchCut(every_us=SECOND), lambda batch: None, fake.clock)
    assert fake.slept == []
    assert recorder.tallies["humidity"].n_rows == pa.concat_tables(SENSORS.generate("humidity")).num_rows


def test_an_interruption_leaves_whole_files_alone(tmp_path):
    fake = FakeClock()
    recorder = Recorder(tmp_path / "out", "csv", is_stamped=False)

    def interrupt(seconds: float) -> None:
        fake.sleep(seconds)
        if len(fake.slept) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(SENSORS, recorder, BatchCut(every_us=SECOND), lambda batch: None, Clock(fake.tell, interrupt))
    assert {stream: tally.n_files for stream, tally in recorder.tallies.items()} == {"temperature": 3, "humidity": 3}
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 3 + 3 + 1


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path / "out", "csv")
    recorder.prepare(SENSORS)

    def fail(rows, stream, format):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sash.lab.workloads.recorder.write_rows", fail)
    with pytest.raises(ResourceError, match=r"000000.csv`: the disk is full; make room, and run again"):
        recorder.write(Batch("humidity", SENSORS.streams[0].schema.empty_table(), 0))
    assert list((tmp_path / "out" / "humidity").iterdir()) == []


def test_directories_are_not_mixed_or_overwritten(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    with pytest.raises(SourceError, match="is not empty; remove what is there, or name another --out"):
        Recorder(tmp_path / "full", "csv").prepare(SENSORS)
    with pytest.raises(SourceError, match="cannot be made: Not a directory; name another directory with --out"):
        Recorder(tmp_path / "full" / "mine.txt", "csv").prepare(SENSORS)
    with pytest.raises(PlanError, match="there is no format `xml`"):
        Recorder(tmp_path / "new", "xml").prepare(SENSORS)
    assert not (tmp_path / "new").exists()


def test_declarations_can_be_read_whatever_the_names(tmp_path):
    """Words of SQL, blanks and quotes in names and paths."""
    recording = tmp_path / "it's a file.csv"
    recording.write_text('select,"a ""b""",at\n1,x,2026-01-01 12:00:00\n')
    directory = tmp_path / "o'clock"
    replay = open_replay(str(recording))
    record(replay, Recorder(directory, "json"), BatchCut(rows=1), lambda batch: None)
    script = read_script(directory / "streams.sql")
    (source,) = script.streams.values()
    assert source.schema == replay.stream.schema
    assert list(script.plans) == ["answer"]


def test_slack_is_declared_if_there_is_some(tmp_path):
    recording = tmp_path / "x.csv"
    recording.write_text("id,ts\n1,2026-01-01 12:00:03\n2,2026-01-01 12:00:01\n")
    declared = declare(open_replay(str(recording)), Path("out"), "csv", "csv")
    assert "TIMESTAMP BY ts SLACK 2000000 MICROSECONDS\n  FROM 'out/x' FORMAT csv;" in declared
    assert "SLACK" not in declare(SENSORS, Path("out"), "csv", "csv")


def test_names_are_quoted_only_if_they_must_be():
    assert [quoted(name) for name in ("ItemID", "value", "select", "a b", 'a"b')] == [
        "ItemID",
        "value",
        '"select"',
        '"a b"',
        '"a""b"',
    ]
