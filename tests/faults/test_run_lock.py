"""Two runs on one output: the second is told who has it, at once; what a dead process held is free."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from tests.faults.conftest import SCRIPT, Operations, full_disk

from sash.errors import ResourceError
from sash.runtime.run_lock import hold_locks

HOLDER = """
import sys, time
from sash.runtime.run_lock import hold_locks

with hold_locks(sys.argv[1:]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(place):
    """Another process that holds the lock of `out/q`."""
    command = [sys.executable, "-c", HOLDER, str(place.root / "out" / "q")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.slow
def test_a_second_run_is_told_who_runs(place, embedded, holder):
    place.write(1)
    for options in ((), ("--fresh",)):
        done = embedded(*options)
        assert done.is_refused
        assert (
            f"out/q is written to by another run, process {holder.pid} on {socket.gethostname()}, since 20" in done.said
        )
    assert not (place.root / "out" / "q").exists()


@pytest.mark.slow
def test_what_a_dead_process_held_is_taken_over(place, embedded, holder):
    place.write(1)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (place.root / "out" / ".q.lock").exists()
    assert embedded().code == 0
    assert place.answer() == [1]
    assert not (place.root / "out" / ".q.lock").exists()


def test_a_lock_says_since_when(tmp_path):
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with (
        hold_locks([str(tmp_path / "out")], lambda: since),
        pytest.raises(ResourceError, match=rf"process {os.getpid()} on .*, since 2026-01-02 03:04:05\+00:00; wait"),
        hold_locks([str(tmp_path / "out")]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_directory_has_one_lock(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    with (
        hold_locks([str(tmp_path / "out"), f"file://{tmp_path}/out"]),
        pytest.raises(ResourceError, match="another run"),
        hold_locks([str(tmp_path / "link")]),
    ):
        pass


@pytest.mark.parametrize("below", ["out", "deep/out"])
def test_what_lies_below_a_file_cannot_be_locked(place, embedded, below):
    place.write(1)
    (place.root / "file").write_text("")
    (place.root / "script.sql").write_text(SCRIPT.replace("'out/q'", f"'file/{below}'"))
    done = embedded()
    assert done.is_refused
    assert f"file/{below} cannot be written: file is a file; write INTO another directory" in done.said


@pytest.mark.parametrize("at", ["mkdir", "open", "write"])
def test_a_lock_for_which_the_disk_has_no_room(place, embedded, disk, at):
    def fail(operation: str, path: str) -> None:
        if operation == at:
            raise full_disk()

    place.write(1)
    disk(fail)
    done = embedded()
    assert done.is_refused
    assert re.search(r"/\.[\w-]+(\.joins)?\.lock`: the disk is full; make room, and run again", done.said)
    disk(Operations())
    assert embedded().code == 0


@pytest.mark.parametrize("at", ["unlink", "rmdir"])
def test_a_lock_that_cannot_be_removed_does_not_spoil_the_answer(place, embedded, disk, at):
    def fail(operation: str, path: str) -> None:
        if operation == at and path.endswith((".lock", "/sash-output")):
            raise PermissionError(13, "Permission denied")

    place.write(1)
    disk(fail)
    assert embedded().code == 0
    disk(Operations())
    assert place.answer() == [1]
    assert embedded("--fresh").code == 0


def test_a_lock_is_let_go_when_a_run_fails(place, embedded):
    place.write(1)
    place.add(2, "x,y")
    assert embedded("--strict").is_refused
    assert not list(place.root.rglob("*.lock"))


def test_no_directory_is_left_in_which_nothing_was_written(place, embedded):
    place.write(1)
    assert embedded().code == 0
    assert {path.name for path in place.root.iterdir()} == {"in", "out", "script.sql"}
