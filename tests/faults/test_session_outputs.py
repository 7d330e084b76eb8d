"""Sessions and the directories of their queries: nothing is lost, mixed or removed without a word.

The query passes the values of its stream on, and every push is a batch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.conftest import Operations, full_disk

import sash
from sash.errors import PlanError, ResourceError, SourceError

SCHEMA = pa.schema([("v", pa.int64()), ("ts", pa.timestamp("us"))])
QUERY = "SELECT v FROM s [RANGE 1 MINUTE]"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def open_session(into: str = "out/q", name: str = "q") -> sash.Session:
    session = sash.Session()
    session.stream("s", SCHEMA, time="ts")
    session.query(name, QUERY, into=into)
    return session


def push(session: sash.Session, *values: int) -> None:
    for value in values:
        row = {"v": value, "ts": datetime(2026, 1, 1) + timedelta(seconds=value)}
        session.push("s", pa.Table.from_pylist([row], SCHEMA))
        session.advance(row["ts"])


def answer(directory: str = "out/q") -> list[int]:
    """What a reader of the output finds."""
    files = sorted(Path(directory).glob("batch=*/*.parquet"), key=lambda path: int(path.parent.name[6:]))
    return [row["v"] for path in files for row in pq.read_table(path, partitioning=None).to_pylist()]


def content(directory: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(directory).rglob("*")) if path.is_file()}


def restored(snapshot: bytes, into: str = "out/q") -> sash.Session:
    session = open_session(into)
    session.restore(snapshot)
    return session


class TestMark:
    def test_an_output_carries_a_mark_and_is_locked_as_long_as_its_query_is_there(self) -> None:
        session = open_session()
        push(session, 1, 2)
        assert sorted(os.listdir("out/q")) == ["_sash", "batch=0", "batch=1"]
        assert Path("out/.q.lock").exists()
        session.drop("q")
        assert not Path("out/.q.lock").exists()

    def test_a_run_to_the_end_lets_go_of_its_directories(self) -> None:
        session = sash.Session()
        session.stream("s", pa.table({"v": [1], "ts": [datetime(2026, 1, 1)]}, SCHEMA), time="ts")
        session.query("q", QUERY, into="out/q")
        session.run()
        assert not Path("out/.q.lock").exists()
        assert answer() == [1]

    def test_a_session_that_nobody_has_any_more_holds_nothing(self) -> None:
        session = open_session()
        push(session, 1)
        del session
        assert not Path("out/.q.lock").exists()

    def test_a_folder_of_somebody_else_is_not_written_to_and_is_called_what_it_is(self) -> None:
        Path("out/q").mkdir(parents=True)
        Path("out/q/thesis.tex").write_text("ten years")
        session = open_session()
        with pytest.raises(SourceError, match=r"out/q is not an output of Sash: it holds `thesis\.tex` and no mark"):
            push(session, 1)
        assert content("out/q") == {"out/q/thesis.tex": b"ten years"}

    def test_an_empty_directory_is_free(self) -> None:
        Path("out/q").mkdir(parents=True)
        push(open_session(), 1)
        assert answer() == [1]


class TestRestore:
    def test_goes_on_where_the_snapshot_was_taken_however_often(self) -> None:
        first = open_session()
        push(first, 1, 2)
        snapshot = first.snapshot()
        push(first, 3, 4)
        again = first
        for _ in range(2):
            again = restored(snapshot)
            assert answer() == [1, 2]
            push(again, 3, 4, 5)
            assert answer() == [1, 2, 3, 4, 5]
        push(restored(again.snapshot()), 6)
        assert answer() == [1, 2, 3, 4, 5, 6]

    def test_a_snapshot_of_before_the_first_batch_is_good_any_number_of_times(self) -> None:
        snapshot = open_session().snapshot()
        for values in ((1, 2), (1, 2, 3)):
            push(restored(snapshot), *values)
            assert answer() == [*values]

    def test_an_output_that_is_older_than_the_snapshot_is_refused(self) -> None:
        session = open_session()
        push(session, 1)
        shutil.copytree("out/q", "backup")
        push(session, 2, 3, 4)
        snapshot = session.snapshot()
        shutil.rmtree("out/q")
        shutil.copytree("backup", "out/q")
        with pytest.raises(SourceError, match="out/q lacks batches 1 to 3, which the snapshot has answered"):
            restored(snapshot)
        assert answer() == [1]

    def test_an_output_that_was_removed_is_refused(self) -> None:
        session = open_session()
        push(session, 1, 2)
        snapshot = session.snapshot()
        shutil.rmtree("out/q")
        with pytest.raises(SourceError, match="out/q lacks batches 0 to 1, which the snapshot has answered"):
            restored(snapshot)

    def test_the_output_of_another_run_is_refused_and_stays(self) -> None:
        session = open_session()
        push(session, 1, 2, 3)
        snapshot = session.snapshot()
        shutil.rmtree("out/q")
        push(open_session(), 11, 12, 13, 14)
        before = content("out/q")
        with pytest.raises(SourceError, match="out/q holds the output of another run than that of the snapshot"):
            restored(snapshot)
        assert content("out/q") == before

    def test_the_output_of_another_course_of_the_same_run_is_refused(self) -> None:
        session = open_session()
        push(session, 1)
        early = session.snapshot()
        push(session, 2, 3)
        late = session.snapshot()
        push(restored(early), 12, 13, 14)
        with pytest.raises(SourceError, match="out/q and the snapshot do not belong together: up to batch 2"):
            restored(late)
        assert answer() == [1, 12, 13, 14]

    def test_a_folder_of_somebody_else_is_refused_and_stays(self) -> None:
        snapshot = open_session().snapshot()
        Path("out/q/batch=9").mkdir(parents=True)
        Path("out/q/batch=9/thesis.tex").write_text("ten years")
        with pytest.raises(SourceError, match="out/q is not an output of Sash: it holds `batch=9`"):
            restored(snapshot)
        assert content("out/q") == {"out/q/batch=9/thesis.tex": b"ten years"}

    @pytest.mark.parametrize("place", ["batch=9", "batch=2"])
    def test_what_somebody_has_put_into_an_output_is_not_removed(self, place: str) -> None:
        session = open_session()
        push(session, 1, 2)
        snapshot = session.snapshot()
        push(session, 3)
        Path(f"out/q/{place}").mkdir(exist_ok=True)
        Path(f"out/q/{place}/thesis.tex").write_text("ten years")
        with pytest.raises(SourceError, match=rf"{place}.* was not written by this output's runs; move it away"):
            restored(snapshot)
        assert Path(f"out/q/{place}/thesis.tex").exists()
        assert answer() == [1, 2, 3]

    def test_what_the_snapshot_has_answered_must_be_there_and_as_it_was_written(self) -> None:
        session = open_session()
        push(session, 1, 2)
        snapshot = session.snapshot()
        (file,) = Path("out/q/batch=0").iterdir()
        written = file.read_bytes()
        file.write_bytes(written + b".")
        with pytest.raises(SourceError, match="is not what was written"):
            restored(snapshot)
        file.unlink()
        with pytest.raises(SourceError, match="is missing from the output"):
            restored(snapshot)
        file.write_bytes(written)
        push(restored(snapshot), 3)
        assert answer() == [1, 2, 3]

    def test_what_is_refused_removes_nothing_from_the_other_outputs(self) -> None:
        session = open_session()
        session.query("r", QUERY, into="out/r")
        push(session, 1)
        snapshot = session.snapshot()
        push(session, 2)
        os.rename("out/r", "out/away")
        again = open_session()
        again.query("r", QUERY, into="out/r")
        with pytest.raises(SourceError, match="out/r lacks batch 0"):
            again.restore(snapshot)
        assert answer() == [1, 2]
        os.rename("out/away", "out/r")
        push(session, 3)
        assert answer() == [1, 2, 3], "it has kept its lock"

    def test_a_query_that_the_snapshot_does_not_know_needs_a_directory_that_is_new(self) -> None:
        session = sash.Session()
        session.stream("s", SCHEMA, time="ts")
        snapshot = session.snapshot()
        session.query("q", QUERY, into="out/q")
        push(session, 1)
        with pytest.raises(SourceError, match="out/q holds the output of an earlier run"):
            session.restore(snapshot)


class TestTwoSessions:
    def test_the_output_of_a_session_is_not_begun_in_by_another(self) -> None:
        first, second = open_session(), open_session()
        push(first, 1)
        with pytest.raises(SourceError, match="out/q holds the output of an earlier run"):
            push(second, 11)
        push(first, 2)
        assert answer() == [1, 2]

    def test_of_two_that_begin_at_once_the_newer_gets_the_directory_and_the_other_is_told(self) -> None:
        first, second = open_session(), open_session()
        for session in (first, second):
            session.push("s", SCHEMA.empty_table())
        push(second, 11)
        for act in (lambda: push(first, 1), first.snapshot):
            with pytest.raises(ResourceError, match="`q` cannot go on in out/q: another session of this process"):
                act()
        push(second, 12)
        assert answer() == [11, 12]
        first.drop("q")
        push(second, 13)
        assert answer() == [11, 12, 13]

    def test_a_session_from_whose_snapshot_another_goes_on_is_told(self) -> None:
        first = open_session()
        push(first, 1)
        second = restored(first.snapshot())
        with pytest.raises(ResourceError, match="another session of this process writes there now"):
            push(first, 2)
        push(second, 2)
        assert answer() == [1, 2]

    @pytest.mark.slow
    def test_another_process_has_to_wait(self) -> None:
        session = open_session()
        push(session, 1)
        snapshot = Path("snapshot")
        snapshot.write_bytes(session.snapshot())
        code = (
            "from pathlib import Path\n"
            "from tests.faults.test_session_outputs import restored\n"
            "restored(Path('snapshot').read_bytes())\n"
        )
        path = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parents[2])])
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        assert f"ResourceError: out/q is written to by another run, process {os.getpid()}" in done.stderr
        push(session, 2)
        assert answer() == [1, 2]


class TestPlaces:
    @pytest.mark.parametrize(
        "into", ["n/q", "n/q/batch=0", "n", "n/q.late", "n/.q.staging", "n/q.checkpoint/x", "n/x/../q", "link/q"]
    )
    def test_no_query_writes_where_another_one_does(self, into: str) -> None:
        Path("n").mkdir()
        Path("link").symlink_to("n")
        session = open_session("n/q")
        with pytest.raises(PlanError, match=r"`r` cannot write to .*: `q` writes to n/q; give every query a directory"):
            session.query("r", QUERY, into=into)
        push(session, 1)
        session.query("r", QUERY, into="n/r")
        push(session, 2)
        assert (answer("n/q"), answer("n/r")) == ([1, 2], [2])

    @pytest.mark.parametrize("into", [".", "..", "/", "~"])
    def test_no_query_writes_where_everything_is(self, into: str) -> None:
        with pytest.raises(PlanError, match="write INTO a directory of its own"):
            open_session(os.path.expanduser(into))


class TestFullDisk:
    @pytest.fixture
    def n_operations(self, disk: Callable[[Operations], None], tmp_path: Path) -> int:
        """That a batch after the first takes."""
        session = open_session("counted/q")
        push(session, 1)
        operations = Operations()
        disk(operations)
        push(session, 2)
        disk(Operations())
        return len(operations.seen)

    @pytest.mark.slow
    def test_changes_that_could_not_be_written_are_written_with_the_next_ones(
        self, disk: Callable[[Operations], None], n_operations: int
    ) -> None:
        assert n_operations > 5
        for fail_at in range(n_operations):
            session, out = open_session(f"out/{fail_at}"), f"out/{fail_at}"
            push(session, 1)
            disk(Operations(fail_at, full_disk))
            with pytest.raises((SourceError, ResourceError), match=r"No space left|the disk is full"):
                push(session, 2)
            disk(Operations())
            push(session, 3)
            assert answer(out) == [1, 2, 3], fail_at
            push(restored(session.snapshot(), out), 4)
            assert answer(out) == [1, 2, 3, 4], fail_at

    def test_a_snapshot_is_not_taken_of_what_could_not_be_written(self, disk: Callable[[Operations], None]) -> None:
        session = open_session()
        session.push("s", SCHEMA.empty_table())
        disk(Operations(0, full_disk))
        with pytest.raises(ResourceError, match="the disk is full"):
            push(session, 1)
        with pytest.raises(ResourceError, match="the disk is full"):
            session.snapshot()
        disk(Operations())
        push(restored(session.snapshot()), 2)
        assert answer() == [1, 2]

    def test_a_session_that_cannot_begin_has_taken_no_row(self, disk: Callable[[Operations], None]) -> None:
        session = open_session()
        disk(Operations(0, full_disk))
        with pytest.raises(ResourceError, match="the disk is full"):
            push(session, 1)
        disk(Operations())
        push(session, 1, 2)
        assert answer() == [1, 2]
