"""Where a table's rows come from: files, or a server that holds tables. A table is read once, whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sash.errors import PlanError, SourceError, suggest
from sash.io import delta, postgres_versions
from sash.io.delta import DeltaSource
from sash.io.files import FORMATS, GO_ON_WITHOUT, FileSource, check_options, list_files, read_file
from sash.io.postgres_versions import declared_postgres
from sash.io.table_version import Gather, KnownVersion, TableVersion, gather_in_memory

TABLE_FORMATS: dict[str, tuple[str, ...]] = {**FORMATS, "postgresql": postgres_versions.OPTIONS, "delta": delta.OPTIONS}
"""What a table may be in, with the options that each takes. Streams are in files alone."""


class TableSource(Protocol):
    """What `CREATE TABLE … FROM 'place' FORMAT format OPTIONS (…)` declares."""

    @property
    def path(self) -> str | None:
        """Where its files are, if it has any."""
        ...

    def read(self, name: str) -> pa.Table:
        """All rows, of the declared types; SourceError, which names the table, if one of them cannot be had."""
        ...

    @property
    def no_versions(self) -> str | None:
        """Why its versions cannot be told apart and read again, and what to do; None if they can."""
        ...


@runtime_checkable
class VersionedSource(TableSource, Protocol):
    """A table whose versions can be told apart and read again."""

    def poll(self, name: str, known: KnownVersion | None, gather: Gather = gather_in_memory) -> TableVersion:
        """The version that it has now: whole, or what has changed since the known one. SourceError as of `read`."""
        ...


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table in files."""

    source: FileSource

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def no_versions(self) -> str:
        return "files have no versions; keep it as a Delta table, or in PostgreSQL with a history"

    def read(self, name: str) -> pa.Table:
        """A relation is whole or an error: a row that cannot be read would silently change every answer."""
        try:
            return pa.concat_tables([self.source.schema.empty_table(), *self._rows(name)])
        except SourceError as error:
            reason = str(error).removesuffix(GO_ON_WITHOUT)
        raise SourceError(reason if reason.startswith("table ") else f"table `{name}`: {reason}")

    def _rows(self, name: str) -> Iterator[pa.Table]:
        for file in list_files(self.source):
            for records in read_file(self.source, file.path):
                if records.rejects.num_rows:
                    bad = records.rejects.slice(0, 1).to_pylist()[0]
                    raise SourceError(
                        f"table `{name}`: {bad['file']}, line {bad['line']}: {bad['reason']}; correct the row"
                    )
                yield records.rows


def declared_table(path: str, format: str, schema: pa.Schema, options: tuple[tuple[str, str], ...]) -> TableSource:
    """What is declared so; PlanError if it cannot be read whatever is there."""
    if format not in TABLE_FORMATS:
        raise PlanError(f"there is no format `{format}`; {suggest(format, TABLE_FORMATS)}")
    if format in FORMATS:
        return FileTable(FileSource(path, format, schema, options))
    check_options(format, options, TABLE_FORMATS[format])
    declared = {"postgresql": declared_postgres, "delta": DeltaSource.from_options}[format]
    return declared(path, schema, options)
