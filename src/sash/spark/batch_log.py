"""What Spark's own checkpoint says of batches: which were planned, and which are done.

    offsets/N       written before batch N runs: which input it takes
    commits/N       written after it
    sources/S/N     files of stream S that were seen; `N.compact` has all up to N

So at most one batch is planned and not done. It will run again, over the same input.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path


class BatchLog:
    """The logs in a checkpoint of Spark's, read only."""

    def __init__(self, spark: Path):
        self._spark = spark

    @property
    def newest_done(self) -> int:
        """-1 if none is."""
        return max(_numbers(self._spark / "commits"), default=-1)

    @property
    def newest_planned(self) -> int:
        """-1 if none is."""
        return max(_numbers(self._spark / "offsets"), default=-1)

    def input_of(self, batch: int) -> str | None:
        """Tells the input of a batch from that of others; None if the log does not go back so far."""
        path = self._spark / "offsets" / str(batch)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None

    def gaps(self) -> Iterator[Path]:
        """What is not there although the logs cannot be without it: Spark would read files twice, or leave some out."""
        metadata, offsets, commits = (self._spark / name for name in ("metadata", "offsets", "commits"))
        if self.newest_planned >= 0 and not metadata.exists():
            yield metadata
        yield from (offsets / str(number) for number in _holes(_numbers(offsets)))
        yield from (commits / str(number) for number in _holes(_numbers(commits)))
        if self.newest_done > self.newest_planned:
            yield offsets / str(self.newest_done)
        if self.newest_planned > self.newest_done + 1:
            yield commits / str(self.newest_planned - 1)
        for number, newest in self._entries_of(self.newest_planned).items():
            log = self._spark / "sources" / str(number)
            compacted = max(_numbers(log, ".compact"), default=-1)
            present = {compacted, *_numbers(log)}
            yield from (log / str(entry) for entry in range(max(compacted, 0), newest + 1) if entry not in present)

    @property
    def goes_back(self) -> bool:
        """Whether the newest batch that is planned ends before the one before it: Spark would read files twice."""
        now = self._entries_of(self.newest_planned)
        return any(now.get(number, -1) < entry for number, entry in self._entries_of(self.newest_planned - 1).items())

    def _entries_of(self, batch: int) -> dict[int, int]:
        """For each stream of files, up to which entry of its log a batch goes."""
        path, entries = self._spark / "offsets" / str(batch), {}
        lines = path.read_text(errors="replace").split("\n")[2:] if path.is_file() else []
        for number, line in enumerate(lines):
            try:
                offset = json.loads(line)
            except ValueError:  # "-": nothing yet, or not a log of files
                continue
            if isinstance(offset, dict) and isinstance(offset.get("logOffset"), int):
                entries[number] = offset["logOffset"]
        return entries


def _numbers(directory: Path, suffix: str = "") -> list[int]:
    """The numbers that files of a log are named by."""
    pattern = re.compile(rf"(\d+){re.escape(suffix)}")
    found = (pattern.fullmatch(path.name) for path in directory.glob("*"))
    return sorted(int(each[1]) for each in found if each)


def _holes(numbers: list[int]) -> list[int]:
    return sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else []
