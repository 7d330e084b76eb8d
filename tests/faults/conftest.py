"""A script over small files, the command that runs it, and a disk that fails at an operation that is named."""

from __future__ import annotations

import csv
import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from rich.console import Console

from sash.io.disk import Disk
from support.commands import run_command

SCRIPT = """CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'in' FORMAT csv;
CREATE QUERY q AS SELECT v FROM s [RANGE 1 MINUTE] INTO 'out/q' FORMAT csv;
"""


def is_deep() -> bool:
    """Whether tests are asked for volume."""
    return settings.get_current_profile_name() == "deep"


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """In one line, as a terminal would break it."""
        return " ".join((self.stdout + self.stderr).split())

    @property
    def is_refused(self) -> bool:
        """Whether it ended with a reason, and with no trace of its own inside."""
        return self.code == 1 and "error: " in self.stderr and "Traceback" not in self.said and "bug" not in self.said


class Place:
    """A directory with a script, its input, and what it writes."""

    def __init__(self, root: Path):
        self.root = root
        (root / "in").mkdir()
        (root / "script.sql").write_text(SCRIPT)

    def write(self, *values: int | str, late: int | None = None) -> None:
        """One file for each value, a second apart, as if it had just come; then one with a late row and a reject."""
        for path in (self.root / "in").iterdir():
            path.unlink()
        for number, value in enumerate(values):
            self.add(number, f"{value},2026-01-01 00:00:{number:02d}")
        if late is not None:
            self.add(len(values), f"{late},2025-12-31 23:00:00", "nonsense,2026-01-01 00:01:00")

    def add(self, number: int, *rows: str) -> None:
        path = self.root / "in" / f"{number:02d}.csv"
        path.write_text("v,ts\n" + "".join(f"{row}\n" for row in rows))
        os.utime(path, (1000 + number, 1000 + number))

    def answer(self) -> list[int]:
        """The values in the output, as any reader of a glob would find them, in order of batches."""
        files = sorted(self.root.glob("out/q/*/*"), key=lambda path: int(path.parent.name.partition("=")[2]))
        return [int(row["v"]) for path in files for row in csv.DictReader(path.read_text().splitlines())]

    def late(self) -> list[int]:
        return [value for path in self.root.glob("out/q.late/s/*/*") for value in pq.read_table(path)["v"].to_pylist()]

    def rejects(self) -> list[str]:
        lines = [line for path in self.root.glob("out/q.rejects/*/*") for line in path.read_text().splitlines()]
        return [json.loads(line)["text"] for line in lines]

    def files(self) -> dict[str, bytes]:
        """All that is there, but the input."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found if path.parent.name != "in"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


@pytest.fixture
def sash(place, monkeypatch, capsys) -> Callable[..., Done]:
    """Runs a command in this process, in the test's directory."""
    monkeypatch.setattr("sash.cli.show.console", Console(width=200))

    def run(*arguments: str) -> Done:
        return Done(run_command(monkeypatch, *arguments), *capsys.readouterr())

    return run


@pytest.fixture
def embedded(sash) -> Callable[..., Done]:
    """Runs the script in this process."""
    return lambda *options: sash("run", "script.sql", "--engine", "embedded", *options)


class Death(BaseException):
    """The process ends here, as far as the disk can tell."""


def full_disk() -> BaseException:
    return OSError(errno.ENOSPC, "No space left on device")


FAULTS: dict[str, Callable[[], BaseException]] = {"death": Death, "a full disk": full_disk}


class Operations:
    """Counts what is done to the disk, and fails at the nth operation."""

    def __init__(self, fail_at: int | None = None, make_error: Callable[[], BaseException] = Death):
        self.seen: list[tuple[str, str]] = []
        self._fail_at = fail_at
        self._make_error = make_error

    def __call__(self, operation: str, path: str) -> None:
        if len(self.seen) == self._fail_at:
            raise self._make_error()
        self.seen.append((operation, path))


@pytest.fixture
def disk() -> Iterator[Callable[[Operations], None]]:
    """Lets something watch the disk; afterwards nobody does."""
    before = Disk.before
    yield lambda operations: setattr(Disk, "before", operations)
    Disk.before = before
