"""The exit codes that docs/cli.md lists, as a shell sees them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_signals import write_streams

CLI = Path(__file__).parents[1] / "docs" / "cli.md"
SASH = f"{sys.executable} -m sash_command"
RUN = f"{SASH} run out.sql --engine embedded"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_streams(tmp_path, 1, 3)
    return tmp_path


def shell(place: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", text], cwd=place, capture_output=True, text=True)


def test_the_page_lists_these_codes() -> None:
    table = CLI.read_text().partition("## Exit codes")[2]
    assert re.findall(r"^\| `(\d+)` ", table, re.MULTILINE) == ["0", "1", "2", "130", "141", "143"]


@pytest.mark.slow
def test_done(place):
    done = shell(place, RUN)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_an_error(place):
    done = shell(place, f"{SASH} run other.sql")
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot read the script other.sql")


@pytest.mark.slow
def test_a_misspelt_command(place):
    done = shell(place, f"{SASH} run out.sql --engine embeded")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "--json"])
def test_nobody_reads_the_output(place, options):
    """`true` ends without reading; the shell tells of the command before it in a file."""
    done = shell(place, f"({RUN} {options}; echo $? > code) | true")
    assert (done.returncode, done.stderr) == (0, "")
    assert (place / "code").read_text() == "141\n"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped(tmp_path, number, code):
    """By a terminal, which sends a signal to the shell and to what it runs."""
    write_streams(tmp_path, 300, 2000)
    text = f"trap : INT TERM; {RUN}; echo code $?"
    with subprocess.Popen(
        ["sh", "-c", text], cwd=tmp_path, start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=-1
    ) as process:
        while process.poll() is None and not (tmp_path / "out").exists():
            pass
        os.killpg(process.pid, number)
        stdout, stderr = process.communicate()
    assert stdout.endswith(f"code {code}\n")
    assert len(stderr.splitlines()) == 1
    assert stderr.startswith("stopped by ")
