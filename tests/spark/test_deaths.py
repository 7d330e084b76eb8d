"""What a user of `sash run` sees when Spark does not start or dies: one line, and what to do; and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.masters import MASTER

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOOKS = 1200
"""Ten a second: as long as a run may take to write something."""


@pytest.fixture
def place(folder) -> Path:
    """With a script of one query; temporary files have a directory of their own."""
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,2"])
    (folder.root / "script.sql").write_text(folder.script.format(root=folder.root, out="out"))
    (folder.root / "tmp").mkdir()
    return folder.root


@contextmanager
def running(place: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "sash.cli.main", "run", "script.sql", *options]
    environment = os.environ | {"TMPDIR": str(place / "tmp")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen(command, cwd=place, env=environment, start_new_session=True, **pipes)
    try:
        yield run
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()


def wait_for(path: Path, run: subprocess.Popen[str]) -> None:
    for _ in range(LOOKS):
        if path.exists() or run.poll() is not None:
            break
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(0.1)
    assert path.exists(), run.communicate()


def children(pid: int) -> list[int]:
    """Linux: the processes that a process has started."""
    return [
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]


def scratch(place: Path) -> list[str]:
    return [path.name for path in (place / "tmp").glob("sash-*")]


def test_a_master_that_there_is_not(place):
    with running(place, "--master", "lokal[2]") as run:
        _, errors = run.communicate()
    assert run.returncode == 1
    assert errors.startswith("error: Spark does not start on `lokal[2]`: Master must ")
    assert errors.count("\n") == 1


@pytest.mark.deep
def test_a_jvm_that_dies_and_a_run_that_ends_well(place):
    with running(place, "--master", MASTER, "--follow") as run:
        wait_for(place / "out", run)
        for child in children(run.pid):
            os.kill(child, signal.SIGKILL)
        _, errors = run.communicate()
    (log,) = scratch(place)
    assert errors == (
        "error: Spark's JVM has died, as if it were killed, or ran out of memory; raise or lower "
        "`spark.driver.memory`, and run the same command again to go on; "
        f"the details are in `{place / 'tmp' / log}`\n"
    )
    assert run.returncode == 1
    with running(place, "--master", MASTER) as run:
        _, errors = run.communicate()
    assert (run.returncode, errors) == (0, "")
    assert scratch(place) == [log], "its own log has gone"
