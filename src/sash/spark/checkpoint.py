"""The directory that lets a query go on after a restart.

    <checkpoint>/sash.json       which query this is, in which format
    <checkpoint>/manifest.jsonl  sha256 of the files of Spark's logs and state: damage is noticed before it does harm
    <checkpoint>/control/        what the driver says to the running query
    <checkpoint>/spark/          Spark's own checkpoint

Spark trusts its logs: a flipped bit in a source log makes it read files twice. A file is written once, so its hash is
taken after the batch that wrote it and checked on the next start. Only a batch that was not committed may run again
and write its files anew: those of such a batch are not checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sash.errors import SourceError
from sash.run import KNOWN, QueryRun, SharedRun
from sash.spark.group import FORMAT

MANIFEST = "manifest.jsonl"
HASHED = ("offsets", "commits", "sources", "metadata", "state")


class Checkpoint:
    """One query's checkpoint directory on the driver's file system."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._files: dict[str, dict] = {}
        """What is known of each file of Spark's: its hash, and its size and time when the hash was taken."""

    @property
    def spark(self) -> Path:
        return self.path / "spark"

    @property
    def control(self) -> Path:
        return self.path / "control"

    def open(self, run: QueryRun | SharedRun, n_groups: int) -> int:
        """Makes the directory ready for a run; says how many partition groups it has: as many as on its first run.

        What `check` refuses, and a checkpoint that was damaged, is refused and left as it is.
        """
        self.check(run)
        known = self._known()
        if known:
            self.verify()
        noted = {"format": FORMAT, "plan": run.plan.fingerprint, "groups": n_groups} | known
        if isinstance(run, SharedRun):
            sinks = noted.get("sinks", {}) | {each.sink.path: _owner(each) for each in run.members}
            noted |= {"sinks": sinks, "layers": len(run.plan.fragments)}
        if noted != known:
            self.control.mkdir(parents=True, exist_ok=True)
            _write(self.path / KNOWN, noted)  # at once: a crash leaves no half of it
        return int(noted["groups"])

    def check(self, run: QueryRun | SharedRun) -> None:
        """Refuses a checkpoint of another query or format, and sinks that are not the queries' own. Changes nothing."""
        known, place = self._known(), self.path / KNOWN
        if not known and self.spark.exists():
            raise SourceError(f"{self.path} holds a checkpoint that is not Sash's; choose another directory")
        if known and known.get("format") != FORMAT:
            raise SourceError(
                f"{place} was written by another version of Sash: its format is {known.get('format')}, this version "
                f"reads format {FORMAT}; go on with that version, or remove {self.path} to start afresh"
            )
        if known and known.get("plan") != run.plan.fingerprint:
            raise SourceError(
                f"{place} belongs to another query; choose another output directory, or remove {self.path} to start "
                "afresh"
            )
        if isinstance(run, SharedRun) or not known:
            for each in run.members:
                _check_sink(each, known.get("sinks", {}).get(each.sink.path))

    def _known(self) -> dict:
        """What was noted when the checkpoint was last opened; nothing if it never was."""
        place = self.path / KNOWN
        return _read(place) if place.exists() else {}

    def verify(self) -> None:
        """Checks every file that was hashed, is still there, and belongs to a committed batch."""
        self._files = _read_manifest(self.path / MANIFEST)
        commits = (path.name for path in (self.spark / "commits").glob("*"))
        newest = max((int(name) for name in commits if name.isdecimal()), default=-1)
        for name, known in self._files.items():
            path = self.spark / name
            if _batch_of(name) <= newest and path.exists() and _hash(path) != known["sha256"]:
                raise SourceError(
                    f"{path} is damaged: its content is not what was written; restore it from a backup, "
                    f"or remove {self.path} to start afresh"
                )
        self._shorten_manifest()

    def seal(self) -> None:
        """Takes the hashes of files that are new or were written anew, and forgets those that Spark has removed."""
        present = {}
        for path in sorted(self._hashed_files()):
            name = path.relative_to(self.spark).as_posix()
            with suppress(FileNotFoundError):  # Spark removes old files in a thread of its own
                present[name] = self._look_at(path, self._files.get(name))
        changed: dict[str, dict | None] = dict.fromkeys(self._files.keys() - present.keys())
        changed |= {name: seen for name, seen in present.items() if seen != self._files.get(name)}
        if changed:
            self._files = present
            _append(self.path / MANIFEST, changed)

    def _shorten_manifest(self) -> None:
        """It grows by a line per batch; a run starts with one."""
        path = self.path / MANIFEST
        if path.exists():
            temporary = path.with_name(f".{path.name}.new")
            temporary.unlink(missing_ok=True)
            _append(temporary, self._files)
            temporary.rename(path)

    def _look_at(self, path: Path, known: dict | None) -> dict:
        stat = path.stat()
        seen = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
        if known is not None and seen.items() <= known.items():
            return known
        return seen | {"sha256": _hash(path)}

    def _hashed_files(self) -> Iterator[Path]:
        for part in HASHED:
            root = self.spark / part
            paths = [root] if root.is_file() else root.rglob("*")
            yield from (path for path in paths if _is_hashed(path) and path.is_file())


def _owner(run: QueryRun) -> list[str]:
    return [run.name, run.plan.fingerprint]


def _check_sink(run: QueryRun, owner: list[str] | None) -> None:
    """A sink belongs to its query, also after that was dropped."""
    path = run.sink.path
    if owner is None and os.path.exists(path):
        raise SourceError(
            f"{path} holds the output of another run, so `{run.name}` cannot begin there; "
            "remove it, or choose another directory"
        )
    if owner is not None and owner != _owner(run):
        other = f"`{owner[0]}` writes" if owner[0] != run.name else "an earlier query of this name wrote"
        raise SourceError(f"`{run.name}` cannot write to {path}: that is where {other}; choose another directory")


def _is_hashed(path: Path) -> bool:
    """Not files of RocksDB itself: they have checksums of their own, and are not written in one piece."""
    return not path.name.startswith(".") and not {"SSTs", "logs"} & set(path.parts)


def _batch_of(name: str) -> int:
    """The batch that wrote a file of state: version n + 1 of the state is written by batch n; -1 for other files."""
    version = re.fullmatch(r"state/.*/(\d+)(?:_[^/]*)?\.(?:changelog|zip)", name)
    return int(version[1]) - 1 if version else -1


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise SourceError(f"{path} is damaged: it is not JSON; remove {path.parent} to start afresh") from None


def _read_manifest(path: Path) -> dict[str, dict]:
    """What the manifest says of each file; a line that a crash has torn says nothing."""
    if not path.exists():
        return {}
    files: dict[str, dict | None] = {}
    try:
        for line in path.read_text().split("\n")[:-1]:
            files |= json.loads(line)
    except ValueError:
        raise SourceError(f"{path} is damaged: it is not JSON; remove {path.parent} to start afresh") from None
    return {name: seen for name, seen in files.items() if seen is not None}


def _append(path: Path, content: Mapping[str, dict | None]) -> None:
    """Adds a line, durably. Only the last one can be torn by a crash: it has no end."""
    with path.open("a") as file:
        json.dump(content, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, content: dict) -> None:
    """Replaces a file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
