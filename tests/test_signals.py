"""Ctrl-C and SIGTERM, sent by a shell to a real `sash run`: it finishes the batch at hand, and no row is lost."""

from __future__ import annotations

import os
import signal as signals
import subprocess
import sys
from pathlib import Path

import pytest

from sash.cli.stopping import SPOKEN, StopRequest, TerminatedError
from support.masters import MASTER

SCRIPT = """CREATE STREAM a (id INT, k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'a' FORMAT csv;
CREATE STREAM b (id INT, k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'b' FORMAT csv;
CREATE QUERY pairs AS SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 2 SECONDS
  INTO '{out}' FORMAT csv;
"""

SHELL = """
set -m
signal=$1 out=$2
shift 2
"$@" > stdout 2> stderr &
until [ -e "$out" ] || ! kill -0 $! 2> /dev/null; do sleep 0.05; done
kill -s "$signal" -- -$!
wait $!
"""
"""As on a terminal, the command is a process group of its own, and the signal goes to all of it."""


def write_streams(place: Path, n_files: int, n_rows: int) -> None:
    for number in range(n_files):
        rows = [
            f"{number * n_rows + i},{i % 7},2026-01-01 {number // 60:02d}:{number % 60:02d}:{i * 60 // n_rows:02d}"
            for i in range(n_rows)
        ]
        for stream in ("a", "b"):
            (place / stream).mkdir(exist_ok=True)
            path = place / stream / f"{number:03d}.csv"
            path.write_text("id,k,ts\n" + "\n".join(rows) + "\n")
            os.utime(path, (1000 + number, 1000 + number))
    for out in ("out", "whole"):
        (place / f"{out}.sql").write_text(SCRIPT.format(out=out))


def sash(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sash.cli.main", "run", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True)


def signalled(place: Path, signal: str, *arguments: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a run that gets a signal once it has written something."""
    command = [sys.executable, "-m", "sash.cli.main", "run", "out.sql", *arguments]
    shell = subprocess.run(["bash", "-c", SHELL, "bash", signal, "out", *command], cwd=place, capture_output=True)
    return shell.returncode, (place / "stdout").read_text(), (place / "stderr").read_text()


def heed_signals() -> None:
    """Whoever is started in the background by a shell ignores Ctrl-C, and so do all that it starts."""
    for each in SPOKEN:
        signals.signal(each, signals.SIG_DFL)


def answers(place: Path, out: str) -> list[str]:
    return sorted(line for path in (place / out).glob("*/*.csv") for line in path.read_text().splitlines()[1:])


@pytest.mark.slow
@pytest.mark.parametrize(("signal", "name", "code"), [("INT", "Ctrl-C", 130), ("TERM", "SIGTERM", 143)])
def test_in_this_process(tmp_path, signal, name, code):
    write_streams(tmp_path, 300, 2000)
    returned, stdout, stderr = signalled(tmp_path, signal, "--engine", "embedded")
    assert stderr == f"stopped by {name} after the batch at hand; a run with --fresh begins anew\n"
    assert returned == code
    assert "pairs: " in stdout
    assert " rows read = " in stdout
    assert 0 < sum(1 for _ in (tmp_path / "out").iterdir()) < 600


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal", "name", "code", "options"),
    [
        pytest.param("INT", "Ctrl-C", 130, ["--follow"], marks=pytest.mark.deep, id="Ctrl-C"),
        pytest.param("TERM", "SIGTERM", 143, [], id="SIGTERM"),
    ],
)
def test_on_spark(tmp_path, signal, name, code, options):
    write_streams(tmp_path, 4, 60)
    spark = ["--master", MASTER, "--files-per-batch", "1"]
    returned, stdout, stderr = signalled(tmp_path, signal, *spark, *options)
    assert stderr == f"stopped by {name} after the batch at hand; run the same command again to go on\n"
    assert returned == code
    assert " rows read = " in stdout
    again = sash(tmp_path, "out.sql", *spark)
    assert (again.returncode, again.stderr) == (0, "")
    assert sash(tmp_path, "whole.sql", "--engine", "embedded").returncode == 0
    assert answers(tmp_path, "out") == answers(tmp_path, "whole")


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("library", ["numpy", "libarrow"])
def test_while_sash_is_being_loaded(tmp_path, library, signal, code):
    """It comes as soon as the process has a library in its memory that is loaded on the way."""
    command = [sys.executable, "-m", "sash_command", "explain", "missing.sql"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, preexec_fn=heed_signals, **pipes) as process:
        maps = Path("/proc") / str(process.pid) / "maps"
        if not maps.exists():
            process.wait()
            pytest.skip("this system does not tell what a process has loaded")
        while process.poll() is None and library not in maps.read_text():
            pass
        process.send_signal(getattr(signals, signal))
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (code, "", "stopped\n")


@pytest.mark.parametrize(("first", "second"), [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGTERM"), ("SIGTERM", "SIGINT")])
def test_a_second_signal_ends_the_run_at_once(first, second) -> None:
    before = {each: signals.getsignal(each) for each in SPOKEN}
    with StopRequest() as stop:
        assert not stop.wait(0)
        signals.raise_signal(getattr(signals, first))
        assert stop.wait(0)
        with pytest.raises(KeyboardInterrupt if second == "SIGINT" else TerminatedError):
            signals.raise_signal(getattr(signals, second))
        assert signals.getsignal(signals.SIGINT) is signals.SIG_DFL
    assert stop.exit_code == 128 + getattr(signals, first)
    assert {each: signals.getsignal(each) for each in SPOKEN} == before
