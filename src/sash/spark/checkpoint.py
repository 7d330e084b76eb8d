"""The directory that lets a query go on after a restart.

    <checkpoint>/sash.json       which query this is, in which format, with which content of tables, and the stamp of
                                 what is said to it
    <checkpoint>/manifest.jsonl  sha256 of the files of Spark's logs and state: damage is noticed before it does harm
    <checkpoint>/control/        what the driver says to the running query
    <checkpoint>/relations/      tables larger than the memory for them, cut into segments (`prepared_relation`), and
                                 others and stages, if they are large (`mapped_object`)
    <checkpoint>/tables/         what batches have met of tables that are read as of arrival (`arrival_log.py`)
    <checkpoint>/spark/          Spark's own checkpoint

Spark trusts its logs: a flipped bit in a source log makes it read files twice. A file is written once, so its hash is
taken after the batch that wrote it and checked on the next start. Only a batch that was not committed may run again
and write its files anew: those of such a batch are not checked. Files that are needed must be there
(`required_files.py`); others Spark removes when it likes. What was never hashed is looked at (`foreign_files.py`).
"""

from __future__ import annotations

import json
import re
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sash.errors import PlanError, SourceError
from sash.io.damaged_files import missing
from sash.io.disk import Disk, telling_of
from sash.io.ledger import Ledger
from sash.io.removal import CHECKPOINT_MARK
from sash.runtime.checkpoint_mark import FORMAT, read_mark, write_mark
from sash.runtime.job import Job, QueryRun
from sash.runtime.table_versions import refuse_changed, versions_of
from sash.spark.batch_log import BatchLog
from sash.spark.checkpoint_files import checksum_of, fits_checksum, hash_file, read_hashes, verify_hash
from sash.spark.control import Control
from sash.spark.foreign_files import refuse_foreign, surplus_snapshots
from sash.spark.participation import describe_change, join_outputs, refuse_others, share_of
from sash.spark.required_files import find_missing, snapshot_parts
from sash.spark.together import Share, refuse_misfit

CONTROL = "control"
MANIFEST = "manifest.jsonl"
FRESH = "write INTO another directory, or run with --fresh to start afresh"
HASHED = ("offsets", "commits", "sources", "metadata", "state")


class Checkpoint:
    """One query's checkpoint directory on the driver's file system."""

    def __init__(self, path: str | Path):
        """Raises PlanError for a directory on another file system than the local one: it could not be checked."""
        if "://" in str(path):
            raise PlanError(
                f"on Spark a query writes INTO a local directory, or one that is mounted: its checkpoint would be "
                f"{path}, and what is there cannot be checked before a run goes on; write INTO a path without "
                f"`{str(path).partition('://')[0]}://`, or run with --engine embedded"
            )
        self.path = Path(path)
        self.n_groups = 0
        """How many partition groups it has, once it is open."""
        self._files: dict[str, dict] = {}
        """What is known of each file of Spark's: its hash, and its size and time when the hash was taken."""
        self._snapshots: dict[str, tuple[dict, tuple[str, ...]]] = {}
        """By snapshot: what was known of it when it was read, and the files that it names."""

    @property
    def spark(self) -> Path:
        return self.path / "spark"

    @property
    def control(self) -> Control:
        """Where the driver speaks to the query, once the checkpoint was opened."""
        return self._control(self.known()["stamp"])

    def _control(self, stamp: str) -> Control:
        return Control(self.path / CONTROL, stamp)

    def open(self, job: Job, n_groups: int) -> dict[str, Ledger]:
        """Makes the directory ready for a run; returns what publishes the outputs that are kept, by query.

        What `check` refuses, a checkpoint that was damaged, and outputs that do not belong to it are refused, and all
        is left as it is. `n_groups` is for the first run: later ones have as many groups.
        """
        self.check(job)
        known = self.known()
        if known:
            self.verify()
        self.refuse_misfits(job)
        noted = {"format": FORMAT, "plan": job.plan.fingerprint, "groups": n_groups, "stamp": uuid.uuid4().hex} | known
        self._control(noted["stamp"]).check()
        self._remove_misleading()
        self.shorten_manifest()
        noted["fragments"] = len(job.plan.fragments)
        noted["tables"] = noted.get("tables", {}) | versions_of(job.plan, job.relations)
        noted["outputs"], ledgers = join_outputs(job, known.get("outputs", {}), self.log.newest_done)
        self._write_known(noted, known)
        self.n_groups = int(noted["groups"])
        return ledgers

    def check(self, job: Job) -> None:
        """Refuses a checkpoint of another query or format, and outputs that are not the queries' own.

        Changes nothing; the queries may be running.
        """
        known, place = self.known(), self.path / CHECKPOINT_MARK
        if not known and self.spark.exists():
            raise SourceError(f"{self.path} holds a checkpoint that is not Sash's; choose another directory")
        if known and known["plan"] != job.plan.fingerprint:
            raise SourceError(describe_change(place, known, job))
        refuse_changed(known.get("tables", {}), versions_of(job.plan, job.relations), FRESH)
        for each in job.members:
            if each.is_kept:
                refuse_others(each, known.get("outputs", {}), bool(known))

    def share_of(self, run: QueryRun) -> Share:
        """Which of its batches the output of a query must have."""
        return share_of(run, self.known().get("outputs", {}), self.log)

    def refuse_misfits(self, job: Job, is_thorough: bool = False) -> None:
        """Refuses outputs that do not belong to the checkpoint, and a checkpoint that is not whole."""
        for each in job.members:
            if each.is_kept:
                refuse_misfit(each.output, each.output.manifest(), self.log, self.share_of(each), is_thorough)
        self.refuse_gaps()

    @property
    def log(self) -> BatchLog:
        """What Spark says of batches."""
        return BatchLog(self.spark)

    def known(self) -> dict:
        """What was noted when the checkpoint was last opened; nothing if it never was."""
        return read_mark(self.path)

    def _write_known(self, noted: dict, known: dict) -> None:
        """Notes what is not yet known, at once: a crash leaves no half of it. A backup may lack an empty directory."""
        with telling_of(str(self.path / CHECKPOINT_MARK)):
            (self.path / CONTROL).mkdir(parents=True, exist_ok=True)
            if noted != known:
                write_mark(self.path, noted)

    def check_before_start(self, job: Job) -> None:
        """What `open` would refuse, as far as that is soon known, and without changing anything."""
        self.check(job)
        if self.known():
            self.verify("offsets/")
        self.refuse_misfits(job)

    def verify(self, below: str = "") -> None:
        """Checks every file that was hashed, is still there, and belongs to a committed batch; or those `below`."""
        self._files, newest = read_hashes(self.path / MANIFEST), self.log.newest_done
        if newest >= 0 and not (self.path / MANIFEST).exists():
            raise missing(self.path / MANIFEST)
        for name, known in self._files.items():
            if name.startswith(below) and _batch_of(name) <= newest:
                verify_hash(self.spark / name, known["sha256"])

    def refuse_gaps(self, is_older: bool = False) -> None:
        """Refuses a checkpoint that lacks a file which is needed, or has one of somebody else's in its place.

        Called after `verify`, which reads what was there.
        `is_older`: it may be one of before; then only what is there says what else has to be.
        """
        known = [name for name in self._files if not is_older or (self.spark / name).exists()]
        gone = find_missing(self.spark, known)
        if gone:
            raise missing(gone)
        refuse_foreign(self.spark, known)

    def _remove_misleading(self) -> None:
        """Snapshots that Spark must not go on from, and Hadoop's checksums that do not fit a file.

        `verify` has found the file to be whole, so it is the checksum that is damaged. It would stop Spark, which reads
        a file without one as well.
        """
        snapshots = surplus_snapshots(self.spark, self._files)
        misfits = (self.spark / name for name in self._files if not fits_checksum(self.spark / name))
        for path in (*map(checksum_of, misfits), *map(checksum_of, snapshots), *snapshots):
            if path.exists():
                with telling_of(str(path)), suppress(FileNotFoundError):  # a thread of Spark's may be faster
                    Disk().remove_file(str(path))

    def forget_controls(self) -> None:
        """Removes what was said to a run and not yet heard: for whoever goes back to before it was said."""
        heard = b"".join(path.read_bytes() for path in self.spark.glob("sources/*/*") if path.is_file())
        for path in (self.path / CONTROL).glob("*.json"):
            if path.name.encode() not in heard:
                Disk().remove_file(str(path))

    def seal(self) -> None:
        """Takes the hashes of files that are new or were written anew, and forgets those that Spark has removed."""
        present = {}
        for path in sorted(self._hashed_files()):
            name = path.relative_to(self.spark).as_posix()
            with suppress(FileNotFoundError):  # Spark removes old files in a thread of its own
                present[name] = self._look_at(path, self._files.get(name))
                for part in self._parts_of(name, present[name]):
                    present[part] = self._look_at(self.spark / part, self._files.get(part))
        changed: dict[str, dict | None] = dict.fromkeys(self._files.keys() - present.keys())
        changed |= {name: seen for name, seen in present.items() if seen != self._files.get(name)}
        if changed:
            self._files = present
            self._append(_line(changed))

    def _append(self, line: bytes) -> None:
        """Adds a line to the manifest, durably. Only the last one can be torn by a crash: it has no end."""
        path = self.path / MANIFEST
        with telling_of(str(path)):
            path.touch()
            Disk().append(str(path), line)

    def shorten_manifest(self) -> None:
        """It grows by a line per batch; a run starts with one, of the files that are there."""
        path = self.path / MANIFEST
        self._files = {name: seen for name, seen in self._files.items() if (self.spark / name).exists()}
        if path.exists():
            with telling_of(str(path)):
                Disk().replace(str(path), _line(self._files), str(self.path))

    def _look_at(self, path: Path, known: dict | None) -> dict:
        stat = path.stat()
        seen = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
        if known is not None and seen.items() <= known.items():
            return known
        return seen | {"sha256": hash_file(path)}

    def _parts_of(self, name: str, seen: dict) -> tuple[str, ...]:
        """The files of RocksDB that a snapshot names: they are whole when it is there. Read once."""
        if not name.endswith(".zip"):
            return ()
        if self._snapshots.get(name, ({}, ()))[0] != seen:
            store = name.rpartition("/")[0]
            try:
                parts = tuple(f"{store}/{part}" for part in snapshot_parts(self.spark / name))
            except (zipfile.BadZipFile, KeyError, ValueError):
                parts = ()  # being written anew
            self._snapshots[name] = (seen, parts)
        return self._snapshots[name][1]

    def _hashed_files(self) -> Iterator[Path]:
        for part in HASHED:
            root = self.spark / part
            paths = [root] if root.is_file() else root.rglob("*")
            yield from (path for path in paths if _is_hashed(path) and path.is_file())


def _is_hashed(path: Path) -> bool:
    """Not files of RocksDB itself: they are not written in one piece, and come with the snapshots that name them."""
    return not path.name.startswith(".") and not {"SSTs", "logs"} & set(path.parts)


def _batch_of(name: str) -> int:
    """The batch that wrote a file of state: version n + 1 of the state is written by batch n; -1 for other files."""
    version = re.fullmatch(r"state/.*/(\d+)(?:_[^/]*)?\.(?:changelog|zip)", name)
    return int(version[1]) - 1 if version else -1


def _line(content: Mapping[str, dict | None]) -> bytes:
    return f"{json.dumps(content)}\n".encode()
