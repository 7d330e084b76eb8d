"""Writes a workload as files that `sash run` reads: all at once, or live, each file when its rows are due.

DIR/streams.sql                  declares the streams and asks a question about them
DIR/temperature/000000.parquet   a file per batch, in order of name and of modification time
DIR/FavoriteItems.csv            tables, if the workload has some
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sash.errors import SourceError
from sash.io.disk import telling_of
from sash.io.files import check_columns, check_format
from sash.io.sink import write_rows
from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.batches import Batch, BatchCut, batches
from sash.lab.workloads.declare import declare
from sash.lab.workloads.workload import Workload

TABLE_FORMAT = "csv"
Note = Callable[[Batch], None]


@dataclass(frozen=True, slots=True)
class Clock:
    """What tells the time, in microseconds, and what waits for some seconds."""

    now_us: Callable[[], int]
    sleep: Callable[[float], None]


@dataclass
class WrittenTally:
    """What has been written of a stream."""

    n_rows: int = 0
    n_files: int = 0


@dataclass
class Recorder:
    """Writes into a directory; SourceError if something is there already. Files appear whole, in order of name.

    `is_stamped`: modification times are set, a second apart from the start of 2026 on, so that files that are written
    at once arrive one after the other.
    """

    directory: Path
    format: str
    is_stamped: bool = True
    tallies: dict[str, WrittenTally] = field(default_factory=dict)

    def __post_init__(self):
        check_format(self.format)
        if self.directory.is_dir() and any(self.directory.iterdir()):
            raise SourceError(f"`{self.directory}` is not empty; remove what is there, or name another --out")

    @property
    def script(self) -> Path:
        """The declarations, for `sash run`."""
        return self.directory / "streams.sql"

    def prepare(self, workload: Workload) -> None:
        """Makes the directories, and writes what is not a stream."""
        for stream in workload.streams:
            check_columns(self.format, stream.schema)
        try:
            for stream in workload.streams:
                (self.directory / stream.name).mkdir(parents=True)
                self.tallies[stream.name] = WrittenTally()
        except OSError as error:
            reason = f"`{self.directory}` cannot be made: {error.strerror}"
            raise SourceError(f"{reason}; name another directory with --out") from None
        for name, table in workload.tables.items():
            self._write_file(table, self.directory / f"{name}.{TABLE_FORMAT}", TABLE_FORMAT)
        self.script.write_text(declare(workload, self.directory, self.format, TABLE_FORMAT), encoding="utf-8")

    def write(self, batch: Batch) -> None:
        """A batch as the next file of its stream."""
        tally = self.tallies[batch.stream]
        path = self.directory / batch.stream / f"{tally.n_files:06d}.{self.format}"
        self._write_file(batch.rows, path, self.format, START_US + tally.n_files * 1_000_000)
        tally.n_rows += batch.rows.num_rows
        tally.n_files += 1

    def _write_file(self, rows: pa.Table, path: Path, format: str, modified_us: int = START_US) -> None:
        staged = path.with_name(f".{path.name}")
        try:
            with telling_of(str(path)):
                with pa.OSFile(str(staged), "wb") as stream:
                    write_rows(rows, stream, format)
                if self.is_stamped:
                    os.utime(staged, ns=(modified_us * 1000, modified_us * 1000))
                staged.rename(path)
        finally:
            staged.unlink(missing_ok=True)


def record(workload: Workload, recorder: Recorder, cut: BatchCut, note: Note, start_us: int | None = None) -> None:
    """Writes all rows as fast as it goes; `start_us` is when the workload is to start."""
    recorder.prepare(workload)
    for batch in batches(workload, cut, start_us):
        recorder.write(batch)
        note(batch)


def play(workload: Workload, recorder: Recorder, cut: BatchCut, note: Note, clock: Clock) -> None:
    """Writes each file when it is due, with times from now on; as fast as it goes if there is no time to sleep."""
    recorder.prepare(workload)
    for batch in batches(workload, cut, clock.now_us()):
        missing_us = batch.due_us - clock.now_us()
        if missing_us > 0:
            clock.sleep(missing_us / 1e6)
        recorder.write(batch)
        note(batch)
