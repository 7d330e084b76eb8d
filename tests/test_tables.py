"""Scripts whose tables are not in files, from end to end; and that no password is left anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.embedded.run_to_end import run_files
from sash.errors import SourceError
from sash.io.sink import read_sink
from sash.io.tables import declared_table
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script
from sash.spark.checkpoint import Checkpoint
from support.commands import run_command
from support.postgres_server import PASSWORD, Server

SCRIPT = """CREATE STREAM readings (location INT, value DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
  FROM 'readings' FORMAT csv;
CREATE TABLE rooms (location INT, room VARCHAR)
  FROM '{address}' FORMAT postgresql OPTIONS (table 'rooms');
CREATE QUERY named AS
  SELECT R.room, S.value FROM readings S [RANGE 1 MINUTE] JOIN rooms R USING (location)
  INTO '{out}' FORMAT csv;
"""
READINGS = """location,value,ts
1,20.5,2026-01-01 12:00:00
2,21.0,2026-01-01 12:00:01
3,22.0,2026-01-01 12:00:02
"""


class Building:
    """A directory with a stream, and a database with a table."""

    def __init__(self, server: Server):
        self.server = server
        self.address = server.address("reader")

    def write_script(self) -> None:
        Path("script.sql").write_text(SCRIPT.format(address=self.address, out="out"))

    def run(self, out: str = "out") -> QueryRun:
        (run,) = bind_script(SCRIPT.format(address=self.address, out=out)).runs()
        return run


@pytest.fixture
def building(postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Building:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    Path("readings").mkdir()
    Path("readings/1.csv").write_text(READINGS)
    postgres.execute(
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "GRANT USAGE ON SCHEMA public TO reader",
        "CREATE TABLE rooms (location integer PRIMARY KEY, room text)",
        "INSERT INTO rooms VALUES (1, 'hall'), (2, 'attic')",
        "GRANT SELECT ON rooms TO reader",
    )
    return Building(postgres)


def rows_of(run: QueryRun) -> list[tuple]:
    return sorted(tuple(row.values())[:2] for row in read_sink(run.sink, run.plan.schema).to_pylist())


def written() -> bytes:
    """All that is in files here."""
    return b"".join(path.read_bytes() for path in Path().rglob("*") if path.is_file())


@pytest.mark.parametrize("n_bytes", [0, 100, -1])
def test_a_truncated_file_of_a_table(tmp_path, n_bytes):
    path, rows = tmp_path / "rooms.parquet", pa.table({"location": pa.array([1, 2], pa.int32())})
    pq.write_table(rows, path)
    path.write_bytes(path.read_bytes()[:n_bytes])
    source = declared_table(str(path), "parquet", rows.schema, ())
    with pytest.raises(SourceError, match=r"^table `rooms`: file `.*` cannot be read .*; repair it where it is$"):
        source.read("rooms")


def test_a_run_in_this_process(building):
    run = building.run()
    run_files(Job.alone(run), lambda name, tally: None)
    assert rows_of(run) == [("attic", 21.0), ("hall", 20.5)]


@pytest.mark.parametrize(
    "command", ["run --engine embedded", "explain", "explain --analyze", "explain --verbose", "verify"]
)
def test_commands_leave_no_password(building, monkeypatch, capsys, caplog, command):
    building.write_script()
    assert run_command(monkeypatch, *command.split(), "script.sql") == 0
    assert PASSWORD not in "".join(capsys.readouterr()) + caplog.text
    assert PASSWORD.encode() not in written()


@pytest.mark.parametrize("command", ["run --engine embedded", "explain --analyze", "verify"])
def test_errors_leave_no_password(building, monkeypatch, capsys, caplog, command):
    monkeypatch.setenv("PGPASSWORD", f"{PASSWORD}-not")
    building.write_script()
    assert run_command(monkeypatch, *command.split(), "script.sql") == 1
    said = "".join(capsys.readouterr())
    assert 'password authentication failed for user "reader"; check the user' in " ".join(said.split())
    assert PASSWORD not in said + caplog.text
    assert not Path("out").exists()


def test_explain_asks_no_server(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("script.sql").write_text(SCRIPT.format(address="postgresql://nobody@127.0.0.1:1/none", out="out"))
    assert run_command(monkeypatch, "explain", "script.sql") == 0
    assert "Relation rooms AS R" in capsys.readouterr().out


def test_a_table_is_pinned(building):
    """By what it holds: rows that were deleted and written again, in another order, are the same."""
    job = Job.alone(building.run())
    Checkpoint(job.checkpoint).open(job, 1)
    assert PASSWORD.encode() not in written()
    building.server.execute("DELETE FROM rooms", "INSERT INTO rooms VALUES (2, 'attic'), (1, 'hall')")
    Checkpoint(job.checkpoint).check_before_start(Job.alone(building.run()))
    building.server.execute("UPDATE rooms SET room = 'cellar' WHERE location = 2")
    with pytest.raises(SourceError, match=r"table `rooms` has changed since the query began: it had 2 rows, "):
        Checkpoint(job.checkpoint).check_before_start(Job.alone(building.run()))


def test_a_run_on_spark_gives_the_same(building, spark):
    from sash.spark.spark_run import run_on_spark

    expected, run = building.run("embedded"), building.run("spark")
    run_files(Job.alone(expected), lambda name, tally: None)
    run_on_spark([Job.alone(run)], spark, lambda name, tally: None)
    assert rows_of(run) == rows_of(expected) == [("attic", 21.0), ("hall", 20.5)]
    assert PASSWORD.encode() not in written()
    building.server.execute("INSERT INTO rooms VALUES (3, 'roof')")
    with pytest.raises(SourceError, match="table `rooms` has changed since the query began"):
        run_on_spark([Job.alone(building.run("spark"))], spark, lambda name, tally: None)
