"""Writes the results of a query as files, each batch exactly once and visible all at a time.

    out/batch=0/<part>.parquet                        published: what `out/*/*.parquet` finds, complete at any instant
    .out.staging/batch=1/<part>.parquet.staged        written by tasks, of attempts that may yet fail
    .out.staging/ready/batch=1/<part>.parquet         gathered by `publish`, then renamed to `out/batch=1` as a whole

Staging stands beside the directory and not in it, since DuckDB's globs enter hidden directories. A batch that is
replayed after a crash finds its directory there already and leaves it as it is: every attempt has the same rows.
Names of parts are the run's own, and staging is emptied when a run starts: what another one left is never published.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from sash.errors import PlanError, SourceError
from sash.io.disk import Disk, telling_of
from sash.io.files import FileSource, check_columns, check_format, read_file, resolve_path
from sash.io.values import connection

_STAGED = ".staged"
_WITHOUT_DIRECTORIES = ("s3", "gcs", "abfs")


class Part(NamedTuple):
    """A file that was written and may be published."""

    path: str
    n_bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """Under which it is published."""
        return os.path.basename(self.path).removesuffix(_STAGED)


@dataclass(frozen=True, slots=True)
class FileSink:
    """What `INTO 'path' FORMAT format` declares: a directory on a file system that renames directories atomically."""

    path: str
    format: str
    staging: str = ""
    """Where work in progress is, if not beside the directory; on the same device."""

    def __post_init__(self):
        check_format(self.format)

    def write_part(
        self, batch_id: int, part: str, table: pa.Table, filesystem: pyarrow.fs.FileSystem | None = None
    ) -> Part:
        """Writes rows of a batch where nobody looks, durably, and returns what to pass to `publish`.

        Called by tasks; `part` is unique to the run and the attempt, so that no two attempts write the same file.
        """
        check_columns(self.format, table.schema)
        disk, root = self.resolve(filesystem)
        directory = f"{self._staging(root)}/batch={batch_id}"
        path = f"{directory}/{part}.{self.format}{_STAGED}"
        content = _encode(table, self.format)
        with telling_of(path):
            disk.make_directory(directory)
            disk.write(path, content)
        return Part(path, len(content), hashlib.sha256(content).hexdigest())

    def publish(self, batch_id: int, parts: Sequence[Part], filesystem: pyarrow.fs.FileSystem | None = None) -> None:
        """Makes exactly these parts visible as `batch=<id>`, all at once, and removes what earlier attempts left.

        Called once all tasks of the batch are done; may be called again, with the same parts or with those of a replay.
        Without parts there is nothing to see and no directory.
        """
        disk, root = self.resolve(filesystem)
        published = f"{root}/batch={batch_id}"
        try:
            if parts and not disk.exists(published):
                ready = _gather(disk, f"{self._staging(root)}/ready/batch={batch_id}", parts)
                disk.make_directory(root)
                disk.rename(ready, published)
                disk.sync(root)
                disk.sync(os.path.dirname(root))
            _discard_staged(disk, self._staging(root), batch_id)
        except OSError as error:
            raise SourceError(
                f"batch {batch_id} cannot be published in `{self.path}`: {error}; "
                "the directory above it must be writable and on the same device"
            ) from error

    def replace_part(
        self, batch_id: int, part: str, table: pa.Table, filesystem: pyarrow.fs.FileSystem | None = None
    ) -> None:
        """Writes one visible file of a batch, atomically; the same part written again takes the place of the first.

        For tasks that cannot wait for a driver to publish: `part` must be the same for every attempt.
        """
        disk, root = self.resolve(filesystem)
        attempt = f"{part}-{uuid.uuid4().hex}"
        staged = self.write_part(batch_id, attempt, table, filesystem)
        disk.make_directory(f"{root}/batch={batch_id}")
        disk.rename(staged.path, f"{root}/batch={batch_id}/{part}.{self.format}")

    def resolve(self, filesystem: pyarrow.fs.FileSystem | None) -> tuple[Disk, str]:
        """The disk that it is on, and where there."""
        system, root = resolve_path(self.path, filesystem)
        if system.type_name in _WITHOUT_DIRECTORIES:
            raise PlanError(
                f"`INTO '{self.path}'` needs a file system that renames directories and `{system.type_name}` does not; "
                "write to a local or HDFS directory"
            )
        return Disk(system), root.rstrip("/")

    def _staging(self, root: str) -> str:
        return self.staging or staging_of(root)


def write_rows(table: pa.Table, stream: pa.NativeFile, format: str) -> None:
    """Writes a table as a file of this format, which `read_file` reads back as it was."""
    _WRITERS[format](table, stream)


def read_sink(sink: FileSink, schema: pa.Schema, filesystem: pyarrow.fs.FileSystem | None = None) -> pa.Table:
    """All published rows with the schema they were written with, by batch, then part, then as written."""
    system, root = resolve_path(sink.path, filesystem)
    source = FileSource(root, sink.format, schema)
    tables = [schema.empty_table()]
    for _, directory in list_batches(Disk(system), root):
        for info in Disk(system).entries(directory):
            if info.base_name.startswith((".", "_")):
                continue
            for records in read_file(source, info.path, system):
                for reject in records.rejects.to_pylist():
                    raise SourceError("file `{file}`, line {line}: {reason}; was it changed?".format_map(reject))
                tables.append(records.rows)
    return pa.concat_tables(tables)


def staging_of(root: str) -> str:
    """The directory for work in progress: beside the one it is for."""
    parent, _, name = root.rpartition("/")
    return f"{parent}/.{name}.staging"


def clear_staging(disk: Disk, staging: str) -> None:
    """Empties a directory for work in progress, as far as it is Sash's."""
    try:
        for info in disk.entries(staging):
            if info.base_name.startswith("batch=") or info.base_name in ("ready", "late", "rejects"):
                disk.remove_tree(info.path)
            elif info.base_name.endswith(".new"):
                disk.remove_file(info.path)
    except OSError as error:
        raise SourceError(f"`{staging}` cannot be emptied: {error}; remove it") from error


def list_batches(disk: Disk, directory: str) -> list[tuple[int, str]]:
    """The directories named `batch=<id>`, by id."""
    named = [(info.base_name.partition("batch="), info.path) for info in disk.entries(directory)]
    return sorted((int(text), path) for (before, _, text), path in named if not before and _is_number(text))


def _is_number(text: str) -> bool:
    """As Sash writes them: `01` and `１` are not."""
    return text.isascii() and text.isdecimal() and text == str(int(text))


def _encode(table: pa.Table, format: str) -> pa.Buffer:
    """In memory first: so what reaches the disk has one hash, known without reading it again."""
    stream = pa.BufferOutputStream()
    write_rows(table, stream, format)
    return stream.getvalue()


def _gather(disk: Disk, ready: str, parts: Sequence[Part]) -> str:
    """Moves the parts into the directory `ready` under their final names, going on where an earlier try broke off."""
    moves = {f"{ready}/{part.name}": part.path for part in parts}
    disk.make_directory(ready)
    present = {info.path for info in disk.entries(ready)}
    for path in sorted(present - moves.keys()):
        disk.remove_file(path)
    for target in sorted(moves.keys() - present):
        disk.rename(moves[target], target)
    disk.sync(ready)
    return ready


def _discard_staged(disk: Disk, staging: str, batch_id: int) -> None:
    """Removes what is left of this batch and of older ones; later batches may be under way."""
    for directory in (staging, f"{staging}/ready"):
        for other_id, path in list_batches(disk, directory):
            if other_id <= batch_id:
                disk.remove_tree(path)


def _write_csv(table: pa.Table, stream: pa.NativeFile) -> None:
    pyarrow.csv.write_csv(table, stream)


def _write_json(table: pa.Table, stream: pa.NativeFile) -> None:
    """One object per line; times in ISO 8601, and numbers that JSON has no word for as text."""
    members = ", ".join(
        f"'{field.name.replace(chr(39), chr(39) * 2)}', {_json_member(f'c{idx}', field.type)}"
        for idx, field in enumerate(table.schema)
    )
    columns = table.rename_columns([f"c{idx}" for idx in range(table.num_columns)])
    lines = connection().from_arrow(columns).project(f"CAST(json_object({members}) AS VARCHAR) || chr(10) AS line")
    for batch in lines.to_arrow_table().to_batches():
        stream.write("".join(batch.column("line").to_pylist()).encode())


def _json_member(column: str, dtype: pa.DataType) -> str:
    if pa.types.is_timestamp(dtype):
        zone = "Z" if dtype.tz else ""
        return f"strftime(CAST({column} AS TIMESTAMP), '%Y-%m-%dT%H:%M:%S.%f{zone}')"
    if pa.types.is_floating(dtype):
        name = f"CASE WHEN isnan({column}) THEN 'NaN' WHEN {column} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        return f"CASE WHEN isinf({column}) OR isnan({column}) THEN to_json({name}) ELSE to_json({column}) END"
    return column


def _write_parquet(table: pa.Table, stream: pa.NativeFile) -> None:
    """With checksums, so that a reader notices a damaged page. Dictionaries of numbers cost more than they save."""
    texts = [field.name for field in table.schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
    pq.write_table(table, stream, use_dictionary=texts, write_page_checksum=True)


_WRITERS = {"csv": _write_csv, "json": _write_json, "parquet": _write_parquet}
