"""Temporary files that are removed, and those that must stay; without Spark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sash.spark.control import Control, Punctuation
from sash.spark.scratch import LOG_SECONDS, make_control_directory, make_log, remove_log, sweep


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def dead() -> int:
    """The number of a process that is no more."""
    return int(subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True).stdout)


def write_log(directory: Path, pid: int, mark: str | None = None) -> Path:
    path = directory / f"sash-spark-{pid}-abc.log"
    path.write_text(mark or json.dumps({"sash": "scratch", "host": socket.gethostname(), "pid": pid}) + "\n")
    return path


def test_old_logs_of_dead_processes_are_removed(scratch: Path, dead: int) -> None:
    path = write_log(scratch, dead)
    written = path.stat().st_mtime
    sweep(written + LOG_SECONDS - 10)
    assert path.exists()
    sweep(written + LOG_SECONDS + 10)
    assert not path.exists()


@pytest.mark.parametrize("mark", ["", "something else\n", '{"sash": "scratch", "host": "elsewhere", "pid": 0}\n'])
def test_what_only_has_such_a_name_stays(scratch: Path, dead: int, mark: str) -> None:
    path = write_log(scratch, dead, mark or "\n")
    other = scratch / "sash-spark-notes.log"
    other.write_text("mine")
    sweep(path.stat().st_mtime + 10 * LOG_SECONDS)
    assert path.exists()
    assert other.exists()


def test_what_a_living_process_has_made_stays(scratch: Path) -> None:
    log, directory = make_log(), make_control_directory()
    sweep(log.stat().st_mtime + 10 * LOG_SECONDS)
    assert log.exists()
    assert directory.exists()


def test_the_log_of_a_run_that_ended_well_goes_unless_the_user_has_named_it(scratch: Path) -> None:
    log, named = make_log(), scratch / "spark.log"
    named.touch()
    remove_log(log)
    remove_log(named)
    assert [path.name for path in scratch.iterdir()] == ["spark.log"]


MAKING = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from sash.spark.control import Control, Punctuation
from sash.spark.scratch import make_control_directory
make_control_directory()
Control(make_control_directory(), "stamp").say(Punctuation("", None))
{end}
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "import os; os._exit(0)"])
def test_control_directories_go_in_which_nothing_was_said(scratch: Path, end: str) -> None:
    """With their process, or later if that was killed. A batch that is repeated has to hear what was said."""
    subprocess.run([sys.executable, "-c", MAKING.format(end=end), scratch], check=True)
    assert len(list(scratch.iterdir())) == (2 if end else 1)
    sweep()
    (left,) = scratch.iterdir()
    (said,) = left.glob("*.json")
    assert Control(left, "stamp").is_own(str(said))
    assert Punctuation("", None) == (json.loads(said.read_text())["stream"], None)
    assert os.listdir(left)
