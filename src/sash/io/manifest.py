"""What a query has published, batch by batch: a file of lines that stands in the directory of its output.

    out/_sash      {"sash": 1, "output": "5f2c…", "query": "pairs", …, "sum": "…"}          the mark: this is Sash's
                   {"batch": 0, "input": "9a41…", "files": {"": {"part-….csv": [183, "e3b0…"]}}, "sum": "…"}
                   {"batch": 1, …}

A line is written before its batch can be seen. So what is published and not in the manifest is not ours; what is in the
manifest and not published was interrupted by a crash, or has gone since. Each line has the sum of all up to it: of a
manifest that was changed, nothing is believed. Only the last line can be torn by a crash: it has no end, and says
nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sash.errors import SourceError
from sash.io.disk import Disk

MARK = "_sash"
FORMAT = 1

Files: TypeAlias = Mapping[str, Mapping[str, tuple[int, str]]]
"""By place (`""` for changes, `late/STREAM`, `rejects`) and name: the size and hash of each file of a batch."""


@dataclass(frozen=True, slots=True)
class Line:
    """A batch: which files it is made of, and what input it answers (None where no later run goes on)."""

    batch: int
    input: str | None
    files: Files
    tables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The versions of tables that it has met, where they are read as of arrival."""
    clock: int | None = None
    """Up to and including this time, in microseconds, all changes are in it and in those before; None: unknown."""

    @property
    def body(self) -> dict[str, Any]:
        body = {"batch": self.batch, "input": self.input, "files": self.files}
        body |= {"tables": self.tables} if self.tables else {}
        return body if self.clock is None else body | {"clock": self.clock}


class Manifest:
    """A manifest as it is on the disk, read or written by whoever has it."""

    def __init__(self, disk: Disk, path: str, head: Mapping[str, Any]):
        self._disk = disk
        self.path = path
        self.head = head
        self.lines: dict[int, Line] = {}
        """By batch. One that was interrupted may stand there again: its newest line counts."""
        self.is_torn = False
        self.sum = _sealed(head, "")[1]
        """Of the newest line; it stands for all up to it."""

    @classmethod
    def read(cls, disk: Disk, directory: str) -> Manifest | None:
        """The manifest of an output; None if there is none. A damaged one is a SourceError."""
        path = f"{directory}/{MARK}"
        try:
            content = disk.read(path)
        except OSError as error:
            raise SourceError(f"`{path}` cannot be read: {error}; give this user the right to read it") from error
        if content is None:
            return None
        first, *others = content.split(b"\n")
        head, sum = _open(first, "", path, 1)
        if head.get("sash") != FORMAT or not isinstance(head.get("output"), str):
            raise SourceError(
                f"`{path}` was written by another version of Sash: its format is {head.get('sash')}, this version "
                f"reads format {FORMAT}; go on with that version, or write INTO another directory"
            )
        found = cls(disk, path, head)
        found.sum, found.is_torn = sum, not others or others[-1] != b""
        for number, text in enumerate(others[:-1], 2):
            body, found.sum = _open(text, found.sum, path, number)
            found.lines[body["batch"]] = Line(**body)
        return found

    @classmethod
    def marks(cls, disk: Disk, directory: str) -> bool:
        """Whether a directory has a mark that can be read, whatever became of the lines after it."""
        try:
            first = (disk.read(f"{directory}/{MARK}") or b"").split(b"\n")[0]
            return "output" in _open(first, "", directory, 1)[0]
        except (OSError, SourceError):
            return False

    @property
    def output(self) -> str:
        """The identity of the output, which stays when its directory is moved."""
        return self.head["output"]

    def create(self, staging: str) -> None:
        """Writes the first line: from now on the directory is marked. `staging` is on the same device.

        Raises SourceError if somebody else has marked it.
        """
        text, _ = _sealed(self.head, "")
        if self._disk.read(self.path) not in (None, text):
            raise SourceError(
                f"`{self.path}` is there already: another run has begun to write there; write INTO another directory"
            )
        self._disk.make_directory(staging)
        self._disk.replace(self.path, text, staging)

    def add(self, line: Line) -> None:
        """Writes a batch down, durably. If that fails, the line counts as torn."""
        assert not self.is_torn
        text, sum = _sealed(line.body, self.sum)
        self.is_torn = True
        self._disk.append(self.path, text)
        self.sum, self.is_torn = sum, False
        self.lines[line.batch] = line

    def forget(self, batches: Collection[int], staging: str) -> None:
        """Takes batches out, and a torn line."""
        kept = {batch: line for batch, line in self.lines.items() if batch not in batches}
        content, sum = self._written(kept.values())
        self._disk.make_directory(staging)
        self._disk.replace(self.path, content, staging)
        self.lines, self.sum, self.is_torn = kept, sum, False

    def sum_before(self, batch: int) -> str:
        """The sum that the newest line had, or would have, without this batch and later ones."""
        return self._written(line for line in self.lines.values() if line.batch < batch)[1]

    def _written(self, lines: Iterable[Line]) -> tuple[bytes, str]:
        """What a manifest of these lines holds, and the sum of the newest."""
        text, sum = _sealed(self.head, "")
        content = [text]
        for line in lines:
            text, sum = _sealed(line.body, sum)
            content.append(text)
        return b"".join(content), sum


def _sealed(body: Mapping[str, Any], sum_before: str) -> tuple[bytes, str]:
    """A line, and its sum."""
    text = json.dumps(body)
    sum = _sum(text, sum_before)
    return f'{text[:-1]}, "sum": "{sum}"}}\n'.encode(), sum


def _open(line: bytes, sum_before: str, path: str, number: int) -> tuple[dict[str, Any], str]:
    """What a line says, and its sum; a SourceError if it is not what was written."""
    try:
        body = json.loads(line)
        sum = body.pop("sum")
        if _sum(json.dumps(body), sum_before) == sum:
            return body, sum
    except (ValueError, AttributeError, TypeError, KeyError):
        pass
    remedy = "run with --fresh" if number > 1 else "remove the directory"
    raise SourceError(
        f"`{path}` is damaged: line {number} is not what was written; restore it from a backup, or {remedy} to start "
        "afresh"
    )


def _sum(text: str, sum_before: str) -> str:
    return hashlib.sha256(f"{sum_before}{text}".encode()).hexdigest()
