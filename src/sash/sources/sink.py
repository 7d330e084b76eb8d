"""Writes the results of a query as files, each batch exactly once and visible all at a time.

    out/batch=0/<part>.parquet                        published: what `out/*/*.parquet` finds, complete at any instant
    .out.staging/batch=1/<part>.parquet.staged        written by tasks, of attempts that may yet fail
    .out.staging/ready/batch=1/<part>.parquet         gathered by `publish`, then renamed to `out/batch=1` as a whole

Staging stands beside the directory and not in it, since DuckDB's globs enter hidden directories. A batch that is
replayed after a crash finds its directory there already and leaves it as it is: every attempt has the same rows.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from sash.errors import PlanError, SourceError
from sash.sources.files import FileSource, check_columns, check_format, read_file, resolve_path
from sash.sources.values import connection

_STAGED = ".staged"
_WITHOUT_DIRECTORIES = ("s3", "gcs", "abfs")


@dataclass(frozen=True, slots=True)
class FileSink:
    """What `INTO 'path' FORMAT format` declares: a directory on a file system that renames directories atomically."""

    path: str
    format: str

    def __post_init__(self):
        check_format(self.format)

    def write_part(self, batch_id: int, part: str, table: pa.Table, filesystem: pa.fs.FileSystem | None = None) -> str:
        """Writes rows of a batch where nobody looks, durably, and returns the path to pass to `publish`.

        Called by tasks; `part` is unique to the attempt, so that no two attempts write the same file.
        """
        check_columns(self.format, table.schema)
        system, root = self._resolve(filesystem)
        directory = f"{_staging(root)}/batch={batch_id}"
        path = f"{directory}/{part}.{self.format}{_STAGED}"
        try:
            system.create_dir(directory)
            with system.open_output_stream(path, compression=None) as stream:
                write_rows(table, stream, self.format)
            _sync(system, path)
        except OSError as error:
            raise SourceError(f"`{path}` cannot be written: {error}; make room or give this user the right") from error
        return path

    def publish(self, batch_id: int, staged: Sequence[str], filesystem: pa.fs.FileSystem | None = None) -> None:
        """Makes exactly these parts visible as `batch=<id>`, all at once, and removes what earlier attempts left.

        Called once all tasks of the batch are done; may be called again, with the same parts or with those of a replay.
        Without parts there is nothing to see and no directory.
        """
        system, root = self._resolve(filesystem)
        published = f"{root}/batch={batch_id}"
        try:
            if staged and not _exists(system, published):
                ready = _gather(system, f"{_staging(root)}/ready/batch={batch_id}", staged)
                system.create_dir(root)
                system.move(ready, published)
                _sync(system, root)
                _sync(system, os.path.dirname(root))
            _discard_staged(system, root, batch_id)
        except OSError as error:
            raise SourceError(
                f"batch {batch_id} cannot be published in `{self.path}`: {error}; "
                "the directory above it must be writable and on the same device"
            ) from error

    def replace_part(
        self, batch_id: int, part: str, table: pa.Table, filesystem: pa.fs.FileSystem | None = None
    ) -> None:
        """Writes one visible file of a batch, atomically; the same part written again takes the place of the first.

        For tasks that cannot wait for a driver to publish: `part` must be the same for every attempt.
        """
        system, root = self._resolve(filesystem)
        attempt = f"{part}-{uuid.uuid4().hex}"
        staged = self.write_part(batch_id, attempt, table, filesystem)
        system.create_dir(f"{root}/batch={batch_id}")
        system.move(staged, f"{root}/batch={batch_id}/{part}.{self.format}")

    def remove_from(self, batch_id: int, filesystem: pa.fs.FileSystem | None = None) -> None:
        """Removes this batch and all later ones, for whoever starts again from before they were written."""
        system, root = self._resolve(filesystem)
        for directory in (root, _staging(root), f"{_staging(root)}/ready"):
            for other_id, path in reversed(_list_batches(system, directory)):
                if other_id >= batch_id:
                    system.delete_dir(path)

    def _resolve(self, filesystem: pa.fs.FileSystem | None) -> tuple[pa.fs.FileSystem, str]:
        system, root = resolve_path(self.path, filesystem)
        if system.type_name in _WITHOUT_DIRECTORIES:
            raise PlanError(
                f"`INTO '{self.path}'` needs a file system that renames directories and `{system.type_name}` does not; "
                "write to a local or HDFS directory"
            )
        return system, root.rstrip("/")


def write_rows(table: pa.Table, stream: pa.NativeFile, format: str) -> None:
    """Writes a table as a file of this format, which `read_file` reads back as it was."""
    _WRITERS[format](table, stream)


def read_sink(sink: FileSink, schema: pa.Schema, filesystem: pa.fs.FileSystem | None = None) -> pa.Table:
    """All published rows with the schema they were written with, by batch, then part, then as written."""
    system, root = resolve_path(sink.path, filesystem)
    source = FileSource(root, sink.format, schema)
    tables = [schema.empty_table()]
    for _, directory in _list_batches(system, root):
        for info in sorted(system.get_file_info(pa.fs.FileSelector(directory)), key=lambda info: info.path):
            for records in read_file(source, info.path, system):
                for reject in records.rejects.to_pylist():
                    raise SourceError("file `{file}`, line {line}: {reason}; was it changed?".format_map(reject))
                tables.append(records.rows)
    return pa.concat_tables(tables)


def _staging(root: str) -> str:
    parent, _, name = root.rpartition("/")
    return f"{parent}/.{name}.staging"


def _gather(filesystem: pa.fs.FileSystem, ready: str, staged: Sequence[str]) -> str:
    """Moves the parts into the directory `ready` under their final names, going on where an earlier try broke off."""
    moves = {f"{ready}/{os.path.basename(path).removesuffix(_STAGED)}": path for path in staged}
    filesystem.create_dir(ready)
    present = {info.path for info in filesystem.get_file_info(pa.fs.FileSelector(ready))}
    for path in present - moves.keys():
        filesystem.delete_file(path)
    for target in moves.keys() - present:
        filesystem.move(moves[target], target)
    _sync(filesystem, ready)
    return ready


def _discard_staged(filesystem: pa.fs.FileSystem, root: str, batch_id: int) -> None:
    """Removes what is left of this batch and of older ones; later batches may be under way."""
    for directory in (_staging(root), f"{_staging(root)}/ready"):
        for other_id, path in _list_batches(filesystem, directory):
            if other_id <= batch_id:
                filesystem.delete_dir(path)


def _list_batches(filesystem: pa.fs.FileSystem, directory: str) -> list[tuple[int, str]]:
    """The directories named `batch=<id>`, by id."""
    entries = filesystem.get_file_info(pa.fs.FileSelector(directory, allow_not_found=True))
    named = [(info.base_name.partition("batch="), info.path) for info in entries]
    return sorted((int(text), path) for (before, _, text), path in named if not before and text.isdecimal())


def _exists(filesystem: pa.fs.FileSystem, path: str) -> bool:
    return filesystem.get_file_info(path).type != pa.fs.FileType.NotFound


def _sync(filesystem: pa.fs.FileSystem, path: str) -> None:
    """Waits until a file or a directory's entries are on the disk; other file systems do so when a stream is closed."""
    if filesystem.type_name == "local":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_csv(table: pa.Table, stream: pa.NativeFile) -> None:
    pa.csv.write_csv(table, stream)


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
