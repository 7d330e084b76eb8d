"""What a query has written into a directory, read back by its manifest: what was published, and nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from sash.errors import SourceError
from sash.io.disk import Disk
from sash.io.files import FileSource, read_file
from sash.io.manifest import Line, Manifest
from sash.io.output_dir import CHANGES, OutputDir
from sash.io.places import real_place, shown_place
from sash.io.sink import FileSink
from sash.operators.living_rows import times_of
from sash.runtime.kept_changes import KeptChanges
from sash.runtime.moments import Moment
from sash.runtime.plain_answer import choose_reading, known_instant, newest_ts, rows_at, show_instant
from sash.store.batch import BEGINNING, TS

_READ_ANEW = "let the query write it anew, with --fresh"
_RESTORE = "restore it from a backup, or let the query write all anew, with --fresh"


class DatedAnswer(NamedTuple):
    """An answer with its instant, in microseconds."""

    instant: int
    rows: pa.Table
    first_us: int | None
    """When the first change happened, if one has."""


@dataclass(frozen=True)
class PublishedChanges:
    """An output as it is now; a run may go on writing to it."""

    path: str
    """As `real_place` names it."""
    head: Mapping[str, Any]
    lines: Sequence[Line]
    """Of the batches that can be seen."""

    @classmethod
    def open(cls, path: str) -> PublishedChanges:
        """The output in a directory. Raises SourceError if there is none, or if it is damaged."""
        place = real_place(path)
        disk, root = FileSink(place, "parquet").resolve(None)
        if not disk.exists(root):
            raise SourceError(
                f"there is no output {shown_place(place)}; give the directory that a query writes INTO, or run it first"
            )
        output = OutputDir(place, "parquet")
        output.refuse_foreign()
        manifest = Manifest.read(disk, root)
        lines = [] if manifest is None else list(_visible(disk, root, manifest))
        if manifest is None or not lines:
            raise SourceError(f"nothing is published in {shown_place(place)} yet; ask again when a batch is written")
        if "changes" not in manifest.head:
            raise SourceError(
                f"{shown_place(place)} was written by an earlier Sash and does not say how to read its changes; "
                + _READ_ANEW
            )
        return cls(place, dict(manifest.head), lines)

    @property
    def query(self) -> str:
        """Whose output it is."""
        return self.head["query"]

    @property
    def schema(self) -> pa.Schema:
        """Of the changes."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.head["changes"])))

    @property
    def final_us(self) -> int | None:
        """Up to and including this time all changes are published; None if that was not written down."""
        return max((line.clock for line in self.lines if line.clock is not None), default=None)

    def show(self, instant: int) -> str:
        """An instant as people read it."""
        return show_instant(instant, self.schema.field(TS).type)

    def answer(self, at: Moment | None = None) -> pa.Table:
        """The rows of `dated_answer`."""
        return self.dated_answer(at).rows

    def dated_answer(self, at: Moment | None = None) -> DatedAnswer:
        """The answer at an instant; without `at`, at the newest that is final, or else the newest `_ts`."""
        reading = choose_reading(self.schema, None)
        if at is None and self.final_us is None:
            changes = pa.concat_tables([self.schema.empty_table(), *self._batches()])
            instant = newest_ts(changes)
            return DatedAnswer(instant, rows_at(changes, instant, reading), _first_us(changes))
        instant = self.final_us if at is None else known_instant(at, self.final_us, self.schema)
        assert instant is not None
        kept, first_us = KeptChanges(self.schema, reading), None
        for changes in self._batches():
            first_us = min((us for us in (first_us, _first_us(changes)) if us is not None), default=None)
            kept.take(changes.filter(pa.array(times_of(changes, TS, BEGINNING) <= instant)))
            kept.forget(instant)
        return DatedAnswer(instant, rows_at(kept.changes, instant, reading), first_us)

    def _batches(self) -> Iterator[pa.Table]:
        """The changes, batch by batch; SourceError if a file of them is not as it was written."""
        disk, root = FileSink(self.path, self.head["format"]).resolve(None)
        for line in self.lines:
            tables = [self.schema.empty_table()]
            for name, (n_bytes, _) in line.files.get(CHANGES, {}).items():
                path = f"{root}/batch={line.batch}/{name}"
                _refuse_changed(disk, path, n_bytes)
                source = FileSource(path, self.head["format"], self.schema)
                for records in read_file(source, path):
                    if records.rejects.num_rows:
                        raise SourceError(_changed(path))
                    tables.append(records.rows)
            yield pa.concat_tables(tables)


def _visible(disk: Disk, root: str, manifest: Manifest) -> Iterator[Line]:
    """The batches that are there, in order. The newest may be under way: it is written down before it can be seen."""
    lines = [manifest.lines[batch] for batch in sorted(manifest.lines)]
    for line in lines:
        path = f"{root}/batch={line.batch}"
        if CHANGES not in line.files or disk.exists(path):
            yield line
        elif line is not lines[-1]:
            raise SourceError(f"{shown_place(path)} is missing from the output; {_RESTORE}")


def _refuse_changed(disk: Disk, path: str, n_bytes: int) -> None:
    directory, _, name = path.rpartition("/")
    sizes = {info.base_name: info.size for info in disk.entries(directory)}
    if name not in sizes:
        raise SourceError(f"{shown_place(path)} is missing from the output; {_RESTORE}")
    if sizes[name] != n_bytes:
        raise SourceError(_changed(path))


def _changed(path: str) -> str:
    return f"{shown_place(path)} is not what was written; {_RESTORE}"


def _first_us(changes: pa.Table) -> int | None:
    """When the first of the changes happens; None if there is none."""
    return int(times_of(changes, TS, BEGINNING).min()) if changes.num_rows else None
