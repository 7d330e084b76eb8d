"""Streams and tables that live in files: which files there are, in which order they arrived, and what they hold.

Both engines read through this module (Spark inside its Python workers), so they cannot disagree about a record.
Whatever is wrong with a single record makes it a reject; whatever is wrong with a whole file is a SourceError.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs

from sash.errors import PlanError, SourceError, suggest
from sash.io import csv, json, parquet
from sash.io.places import absolute_path, split_glob
from sash.io.records import Records
from sash.io.values import sql_name

FORMATS: dict[str, tuple[str, ...]] = {"csv": csv.OPTIONS, "json": (), "parquet": ()}
"""The formats, and which options each of them takes."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """What `FROM 'path' FORMAT format OPTIONS (…)` declares; PlanError if it cannot be read whatever the files hold.

    `path` is a file, a directory or a glob, local or as a URI. A directory stands for all files in it and
    below it.
    """

    path: str
    format: str
    schema: pa.Schema
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self):
        check_format(self.format)
        check_columns(self.format, self.schema)
        check_options(self.format, self.options, FORMATS[self.format])
        if self.format == "csv":
            csv.Dialect.from_options(self.options)


@dataclass(frozen=True, slots=True)
class StreamFile:
    """A file of a stream. Files arrive in order of (`modified_us`, `path`)."""

    path: str
    modified_us: int


def check_format(format: str) -> None:
    """PlanError unless files of this format can be read and written."""
    if format not in FORMATS:
        raise PlanError(f"there is no format `{format}`; {suggest(format, FORMATS)}")


def check_options(format: str, options: Sequence[tuple[str, str]], known: Sequence[str]) -> None:
    """PlanError for an option that this format does not take."""
    for name, _ in options:
        if name.lower() not in known:
            remedy = suggest(name, known) if known else "it takes none"
            raise PlanError(f"format `{format}` has no option `{name}`; {remedy}")


def check_columns(format: str, schema: pa.Schema) -> None:
    """PlanError for columns that files of this format cannot hold."""
    if not schema.names:
        raise PlanError("there is no column; declare at least one")
    name, count = Counter(name.lower() for name in schema.names).most_common(1)[0]
    if count > 1:
        raise PlanError(f"column `{name}` appears {count} times; give every column a name of its own")
    for field in schema:
        if format != "parquet" and sql_name(field.type) is None:
            raise PlanError(f"column `{field.name}` is {field.type}, which `{format}` cannot hold; use `parquet`")


def resolve_path(path: str, filesystem: pyarrow.fs.FileSystem | None) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of a path and the path within it; a given file system is taken as it is."""
    if filesystem is not None:
        return filesystem, path
    path = absolute_path(path)
    if "://" not in path:
        return pyarrow.fs.LocalFileSystem(), path
    try:
        return pyarrow.fs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise SourceError(f"`{path}` is not the address of a file system that can be used: {reason}") from error


def list_files(source: FileSource, filesystem: pyarrow.fs.FileSystem | None = None) -> list[StreamFile]:
    """The files of a source in order of arrival. Names that start with `.` or `_` are somebody's work in progress."""
    system, path = resolve_path(source.path, filesystem)
    try:
        found = list(_find(system, path))
    except PermissionError as error:
        raise SourceError(f"`{source.path}` may not be read: {error}; give this user the right to read it") from error
    except OSError as error:
        raise SourceError(f"`{source.path}` cannot be listed: {error}; check that it can be reached") from error
    files = [StreamFile(info.path, (info.mtime_ns or 0) // 1000) for info in found]
    return sorted(files, key=lambda file: (file.modified_us, file.path))


def is_visible(source: FileSource, path: str, filesystem: pyarrow.fs.FileSystem | None = None) -> bool:
    """Whether `list_files` would name this file of a source, and not take it for work in progress."""
    base, _ = split_glob(resolve_path(source.path, filesystem)[1])
    within = path.partition("://")[2].partition("/")[2] if "://" in path else path
    below = within.lstrip("/").removeprefix(base.strip("/")).strip("/")
    return not any(is_hidden(name) for name in below.split("/"))


GO_ON_WITHOUT = ", or put a file without rows in its place"
"""What may be done about a file of a stream that cannot be read, and not about one of a table."""


def read_file(source: FileSource, path: str, filesystem: pyarrow.fs.FileSystem | None = None) -> Iterator[Records]:
    """The records of one file, as `list_files` names it, in stretches of bounded size.

    Every record of the file comes exactly once, in file order, as a row or as a reject.
    """
    system, _ = resolve_path(source.path, filesystem)
    try:
        if source.format == "parquet":
            with system.open_input_file(path) as file:
                yield from parquet.read(file, path, source.schema)
            return
        with system.open_input_stream(path) as stream:
            if source.format == "json":
                yield from json.read(stream, path, source.schema)
            else:
                yield from csv.read(stream, path, source.schema, csv.Dialect.from_options(source.options))
    except PermissionError as error:
        raise SourceError(f"file `{path}` may not be read: {error}; give this user the right to read it") from error
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"file `{path}` cannot be read as `{source.format}`: {' '.join(str(error).split())}; "
            f"repair it where it is{GO_ON_WITHOUT}"
        ) from error


def _find(filesystem: pyarrow.fs.FileSystem, path: str) -> Iterator[pyarrow.fs.FileInfo]:
    info = filesystem.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File:
        return iter([info])
    if info.type == pyarrow.fs.FileType.Directory:
        return _list_directory(filesystem, path)
    base, pattern = split_glob(path)
    if not pattern:
        raise SourceError(f"`{path}` does not exist; check the path or create the directory")
    if filesystem.get_file_info(base).type != pyarrow.fs.FileType.Directory:
        raise SourceError(f"`{path}` matches nothing: there is no directory `{base}`; check the path or create it")
    return _list_glob(filesystem, base, pattern)


def _list_directory(filesystem: pyarrow.fs.FileSystem, directory: str) -> Iterator[pyarrow.fs.FileInfo]:
    for info in _list_visible(filesystem, directory):
        if info.is_file:
            yield info
        else:
            yield from _list_directory(filesystem, info.path)


def _list_glob(filesystem: pyarrow.fs.FileSystem, directory: str, pattern: list[str]) -> Iterator[pyarrow.fs.FileInfo]:
    """The files that match, and those in directories that match; as in Spark, `*` never crosses a `/`."""
    here, *below = pattern
    for info in _list_visible(filesystem, directory):
        if not fnmatch.fnmatchcase(info.base_name, here):
            continue
        if not info.is_file:
            yield from _list_glob(filesystem, info.path, below) if below else _list_directory(filesystem, info.path)
        elif not below:
            yield info


def _list_visible(filesystem: pyarrow.fs.FileSystem, directory: str) -> list[pyarrow.fs.FileInfo]:
    return [
        info for info in filesystem.get_file_info(pyarrow.fs.FileSelector(directory)) if not is_hidden(info.base_name)
    ]


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or directory of this name."""
    return name.startswith((".", "_"))
