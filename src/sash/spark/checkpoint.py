"""The directory that lets a query go on after a restart.

    <checkpoint>/sash.json       which query this is, in which format
    <checkpoint>/manifest.json   sha256 of every file of Spark's logs, so that damage is noticed before it does harm
    <checkpoint>/control/        what the driver says to the running query
    <checkpoint>/spark/          Spark's own checkpoint

Spark trusts its logs: a flipped bit in a source log makes it read files twice. Each log file is written once, so its
hash is taken after the batch that wrote it and checked on the next start.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from sash.errors import SourceError
from sash.plan.physical import Plan
from sash.spark.group import FORMAT

LOGS = ("offsets", "commits", "sources", "metadata")


class Checkpoint:
    """One query's checkpoint directory on the driver's file system."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._hashes: dict[str, str] = {}

    @property
    def spark(self) -> Path:
        return self.path / "spark"

    @property
    def control(self) -> Path:
        return self.path / "control"

    def open(self, plan: Plan, n_groups: int) -> int:
        """Makes the directory ready for a query; says how many partition groups it has: as many as on its first run.

        A checkpoint of another query or format, or one that was damaged, is refused and left as it is.
        """
        identity = {"format": FORMAT, "plan": plan.fingerprint}
        known = self.path / "sash.json"
        if not known.exists():
            if self.spark.exists():
                raise SourceError(f"{self.path} holds a checkpoint that is not Sash's; choose another directory")
            self.control.mkdir(parents=True, exist_ok=True)
            _write(known, identity | {"groups": n_groups})
            return n_groups
        found = _read(known)
        if not identity.items() <= found.items():
            raise SourceError(
                f"{known} belongs to another query, or to another version of Sash (format "
                f"{found.get('format')}); choose another output directory, or remove {self.path} to start afresh"
            )
        self.verify()
        return int(found["groups"])

    def verify(self) -> None:
        """Checks every log file that was hashed and is still there."""
        manifest = self.path / "manifest.json"
        self._hashes = _read(manifest) if manifest.exists() else {}
        for name, expected in self._hashes.items():
            path = self.spark / name
            if path.exists() and _hash(path) != expected:
                raise SourceError(
                    f"{path} is damaged: its content is not what was written; restore it from a backup, "
                    f"or remove {self.path} to start afresh"
                )

    def seal(self) -> None:
        """Takes the hashes of log files that are new, and forgets those that Spark has removed."""
        present = {}
        for path in sorted(self._log_files()):
            name = path.relative_to(self.spark).as_posix()
            with suppress(FileNotFoundError):  # Spark removes old log files in a thread of its own
                present[name] = self._hashes.get(name) or _hash(path)
        if present != self._hashes:
            self._hashes = present
            _write(self.path / "manifest.json", present)

    def _log_files(self):
        for log in LOGS:
            root = self.spark / log
            paths = [root] if root.is_file() else root.rglob("*")
            yield from (path for path in paths if path.is_file() and not path.name.startswith("."))


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise SourceError(f"{path} is damaged: it is not JSON; remove {path.parent} to start afresh") from None


def _write(path: Path, content: dict) -> None:
    """Replaces a file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
