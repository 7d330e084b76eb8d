"""What batches have met of tables that are read as of arrival, in the checkpoint.

    <checkpoint>/tables/7.json            of batch 7: by table, its version, and the file with the rows
    <checkpoint>/tables/3f2a…-5.rows      rows as batch 5 and some after it have met them, with who sees each

A record is written before its batch runs, and what is written stays: a batch that runs again meets the same rows,
whatever the table holds by then. The driver alone asks for versions; workers read files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.io.damaged_files import damaged, missing, read_object, reading
from sash.io.disk import Disk, telling_of
from sash.runtime.arrival_tables import ArrivalTables
from sash.store.codec import decode_table, encode_table

DIRECTORY = "tables"
N_KEPT = 3
"""So many of the newest records are kept; only the last batch can run again."""


@dataclass(frozen=True, slots=True)
class MetVersion:
    """A version of a table, and the file with the rows that a batch, and those before it, may ask for."""

    version: str
    file: str
    sha256: str


class ArrivalLog:
    """The records of one job, as its driver writes them."""

    def __init__(self, checkpoint: Path, tables: ArrivalTables):
        self.directory = checkpoint / DIRECTORY
        self._tables = tables
        self._met: dict[str, MetVersion] = {}

    def enter(self, batch: int) -> dict[str, str]:
        """Sees to it that a batch can run: by table, the version that it meets. Raises SourceError if a table cannot be
        had now, or what was written of an earlier batch is damaged.
        """
        self._go_to(batch)
        if self._tables.batch != batch:
            changed = self._tables.enter(batch)
            self._write(batch, changed)
            self._remove_old(batch)
        return dict(self._tables.versions)

    def leave(self, batch: int, clock_us: int, newest_us: int) -> None:
        """Says how far the clock is after a batch, and the newest time of all tuples so far."""
        self._tables.leave(batch, clock_us, newest_us)

    def _go_to(self, batch: int) -> None:
        """Goes on from the record of a batch, or from that of the one before it."""
        is_known = _record(self.directory, batch).exists()
        wanted = batch if is_known else batch - 1
        if wanted < 0 or self._tables.batch == wanted:
            return
        self._met = read_record(self.directory, wanted)
        rows = {name: read_rows(self.directory, met) for name, met in self._met.items()}
        self._tables.restore(wanted, {name: met.version for name, met in self._met.items()}, rows)

    def _write(self, batch: int, changed: list[str]) -> None:
        """The rows first, as the record says what is in them."""
        with telling_of(str(self.directory)):
            self.directory.mkdir(exist_ok=True)
            for name, version in self._tables.versions.items():
                if name in changed:
                    file = f"{hashlib.sha256(name.encode()).hexdigest()[:12]}-{batch}.rows"
                    content = encode_table(self._tables.rows[name])
                    self._replace(self.directory / file, content)
                    self._met[name] = MetVersion(version, file, hashlib.sha256(content).hexdigest())
                else:
                    self._met[name] = MetVersion(version, self._met[name].file, self._met[name].sha256)
            noted = {"batch": batch, "tables": {name: asdict(met) for name, met in self._met.items()}}
            content = json.dumps(noted | {"sum": _sum(noted)}, indent=1).encode()
            self._replace(_record(self.directory, batch), content)

    def _replace(self, path: Path, content: bytes) -> None:
        Disk().replace(str(path), content, str(self.directory))

    def _remove_old(self, batch: int) -> None:
        """Records that no batch can need any more, and files that no record names."""
        records = {path: int(path.stem) for path in self.directory.glob("*.json") if path.stem.isdecimal()}
        kept = [number for number in records.values() if number > batch - N_KEPT]
        named = {met.file for number in kept for met in read_record(self.directory, number).values()}
        files = [path for path in self.directory.glob("*.rows") if path.name not in named]
        for path in [*(path for path, number in records.items() if number not in kept), *files]:
            Disk().remove_file(str(path))


def read_record(directory: Path, batch: int) -> dict[str, MetVersion]:
    """By table, what a batch has met; SourceError if it is not known, or not what was written."""
    path = _record(directory, batch)
    if not path.exists():
        raise missing(path)
    noted = read_object(path)
    if noted.pop("sum", None) != _sum(noted) or noted.get("batch") != batch:
        raise damaged(path, "it is not what was written")
    return {name: MetVersion(**met) for name, met in noted["tables"].items()}


def read_rows(directory: Path, met: MetVersion) -> pa.Table:
    """The rows of a table, with the batches that see each; SourceError if they are not what was written."""
    path = directory / met.file
    if not path.exists():
        raise missing(path)
    with reading(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != met.sha256:
        raise damaged(path, "its content is not what was written")
    return decode_table(content)


def _record(directory: Path, batch: int) -> Path:
    return directory / f"{batch}.json"


def _sum(noted: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(noted, sort_keys=True).encode()).hexdigest()
