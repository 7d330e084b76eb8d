"""Delta tables: versions, and what becomes of those that are no longer there."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sash.embedded.run_to_end import run_files
from sash.errors import PlanError, ResourceError, SourceError
from sash.io.delta import DeltaSource
from sash.io.sink import read_sink
from sash.io.tables import declared_table
from sash.runtime.job import Job
from sash.runtime.script import bind_script
from sash.runtime.table_versions import version_of
from sash.spark.checkpoint import Checkpoint

ROOMS = pa.schema([("location", pa.int32()), ("room", pa.string())])
SCRIPT = """
CREATE STREAM readings (location INT, value DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM 'readings' FORMAT csv;
CREATE TABLE rooms (location INT, room VARCHAR) FROM 'rooms' FORMAT delta {options};
CREATE QUERY named AS
  SELECT R.room, S.value FROM readings S [RANGE 1 MINUTE] JOIN rooms R USING (location)
  INTO 'out' FORMAT csv;
"""


def rows(*pairs: tuple[int | None, str | None]) -> pa.Table:
    return pa.table(dict(zip(ROOMS.names, map(list, zip(*pairs)))), schema=ROOMS)


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three versions: two rows, three, and one of them renamed."""
    monkeypatch.chdir(tmp_path)
    write_deltalake("rooms", rows((1, "hall"), (2, None)))
    write_deltalake("rooms", rows((3, "attic")), mode="append")
    write_deltalake("rooms", rows((1, "lobby")), mode="overwrite")
    return "rooms"


def read(path: str, version: int | None = None, schema: pa.Schema = ROOMS) -> list[tuple]:
    table = DeltaSource(path, schema, version).read("r")
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def complaint(path: str, version: int | None = None, schema: pa.Schema = ROOMS) -> str:
    with pytest.raises(SourceError) as raised:
        read(path, version, schema)
    return str(raised.value)


class TestVersions:
    def test_every_version_can_be_read(self, rooms):
        assert read(rooms, 0) == [(1, "hall"), (2, None)]
        assert read(rooms, 1) == [(1, "hall"), (2, None), (3, "attic")]
        assert read(rooms, 2) == read(rooms) == [(1, "lobby")]

    def test_deleted_rows_are_gone(self, rooms):
        DeltaTable(rooms).delete("location = 1")
        assert read(rooms) == []
        assert read(rooms, 2) == [(1, "lobby")]

    def test_a_version_that_is_not_there_yet(self, rooms):
        assert complaint(rooms, 3) == ("table `r`: `rooms` has no version 3; the newest is 2: read that, or wait")

    def test_a_version_that_was_vacuumed(self, rooms):
        DeltaTable(rooms).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        said = complaint(rooms, 0)
        assert said.startswith("table `r`: version 0 of `rooms` can no longer be read, as part-")
        assert said.endswith(
            " is gone: VACUUM removes what newer versions do not need; read a newer version, or restore the file"
        )
        assert read(rooms) == [(1, "lobby")]

    def test_a_version_whose_log_was_cleaned_up(self, rooms):
        DeltaTable(rooms).create_checkpoint()
        for number in (0, 1):
            Path(f"rooms/_delta_log/{number:020}.json").unlink()
        said = complaint(rooms, 0)
        assert said.startswith("table `r`: version 0 of `rooms` can no longer be read: ")
        assert said.endswith("; read a newer version")
        assert read(rooms) == [(1, "lobby")]

    def test_a_table_is_pinned_by_its_rows_and_its_version_is_told(self, rooms):
        """Another version with the same rows will do."""
        Path("readings").mkdir()

        def job(options: str = "") -> Job:
            return Job.alone(*bind_script(SCRIPT.format(options=options)).runs())

        first = job()
        Checkpoint(first.checkpoint).open(first, 1)
        assert version_of(first.relations["rooms"]).endswith(" (version 2)")
        write_deltalake("rooms", rows((1, "lobby")), mode="overwrite")
        Checkpoint(first.checkpoint).check_before_start(job())
        write_deltalake("rooms", rows((1, "cellar")), mode="overwrite")
        reason = (
            r"table `rooms` has changed since the query began: it had 1 row, \w{12} \(version 2\); "
            r"it has 1 row, \w{12} \(version 4\); read that version again, or write INTO another directory"
        )
        with pytest.raises(SourceError, match=reason):
            Checkpoint(first.checkpoint).check_before_start(job())
        Checkpoint(first.checkpoint).check_before_start(job("OPTIONS (version '2')"))


def test_a_run_in_this_process(rooms):
    Path("readings").mkdir()
    Path("readings/1.csv").write_text("location,value,ts\n1,20.5,2026-01-01 12:00:00\n3,21.5,2026-01-01 12:00:00\n")
    for options, expected in {"": ["lobby"], "OPTIONS (version '1')": ["attic", "hall"]}.items():
        script = SCRIPT.format(options=options).replace("INTO 'out'", f"INTO 'out{len(expected)}'")
        (run,) = bind_script(script).runs()
        run_files(Job.alone(run), lambda name, tally: None)
        assert sorted(read_sink(run.sink, run.plan.schema).column("room").to_pylist()) == expected


class TestFiles:
    def test_no_table(self, rooms, tmp_path):
        (tmp_path / "empty").mkdir()
        for path in ("empty", "nowhere"):
            assert complaint(path) == f"table `r`: there is no Delta table in `{path}`; check the path"

    def test_a_truncated_file(self, rooms):
        (file,) = (Path(rooms) / path for path in DeltaTable(rooms).get_add_actions()["path"].to_pylist())
        n_bytes = file.stat().st_size
        file.write_bytes(file.read_bytes()[:-20])
        assert complaint(rooms) == (
            f"table `r`: version 2 of `rooms` is damaged: {file.name} has {n_bytes - 20:,} bytes, and was written with "
            f"{n_bytes:,}; restore the file"
        )

    def test_a_damaged_file(self, rooms):
        (file,) = (Path(rooms) / path for path in DeltaTable(rooms).get_add_actions()["path"].to_pylist())
        content = bytearray(file.read_bytes())
        content[4:40] = bytes(36)
        file.write_bytes(content)
        assert complaint(rooms).startswith("table `r`: `rooms` cannot be read as a Delta table: ")

    def test_a_damaged_log(self, rooms):
        Path("rooms/_delta_log/00000000000000000001.json").write_text("{torn")
        said = complaint(rooms)
        assert said.startswith("table `r`: `rooms` cannot be read as a Delta table: ")
        assert "\n" not in said

    def test_partitions_with_odd_names(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        odd = rows((1, "a b/c%20d"), (2, "ü=?"), (3, None))
        write_deltalake("odd", odd, partition_by=["room"])
        assert read("odd") == sorted(map(tuple, (row.values() for row in odd.to_pylist())), key=repr)


class TestColumns:
    def test_columns_are_matched_by_name_and_others_are_skipped(self, rooms):
        assert read(rooms, schema=pa.schema([("ROOM", pa.string())])) == [("lobby",)]

    def test_a_column_that_is_not_there(self, rooms):
        assert complaint(rooms, schema=pa.schema([("rom", pa.string())])) == (
            "table `r`: version 2 of `rooms` has no column `rom`; did you mean `room`?"
        )

    def test_types_are_cast_where_nothing_is_lost(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        write_deltalake("t", pa.table({"n": [1, 300], "at": [noon, None], "x": pa.array([0.5, 1.5])}))
        schema = pa.schema([("n", pa.int16()), ("at", pa.timestamp("us", "UTC")), ("x", pa.float32())])
        assert read("t", schema=schema) == [(1, noon, 0.5), (300, None, 1.5)]
        assert complaint("t", schema=pa.schema([("n", pa.int8())])).startswith(
            "table `r`: version 0 of `t`: column `n` is int64 but declared as int8, and loses values"
        )
        assert complaint("t", schema=pa.schema([("n", pa.string())])) == (
            "table `r`: version 0 of `t`: column `n` is int64 but declared as string, which is of another kind; "
            "declare the column as int64"
        )


class TestDeclarations:
    @pytest.mark.parametrize("version", ["three", "-1", "1.5", "", "٣"])
    def test_a_version_is_a_number(self, version):
        with pytest.raises(PlanError, match=f"option `version` is '{version}' but must be a number, such as '3'"):
            declared_table("rooms", "delta", ROOMS, (("version", version),))

    def test_no_query_writes_into_it(self, rooms):
        with pytest.raises(PlanError, match="`named` cannot write to rooms"):
            bind_script(SCRIPT.replace("INTO 'out'", "INTO 'rooms'").format(options=""))

    def test_without_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "deltalake", None)
        with pytest.raises(ResourceError) as raised:
            DeltaSource("rooms", ROOMS).read("r")
        assert str(raised.value) == (
            "a Delta table needs deltalake, which is not installed; install it with `pip install 'sash[delta]'`, or "
            "export it to Parquet files"
        )
