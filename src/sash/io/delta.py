"""Reads Delta tables: all rows of one version, as its log says which files it is made of.

A version never changes. But its files are removed by a VACUUM some time after a newer version has replaced them; then
it is told which one is gone, as it is of a file that is not as long as the log says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from sash.errors import PlanError, SourceError, require_extra, suggest
from sash.io.parquet import fit_declared
from sash.io.places import absolute_path
from sash.io.table_version import VERSION, Gather, KnownVersion, TableVersion, gather_in_memory

if TYPE_CHECKING:
    from deltalake import DeltaTable

OPTIONS = ("version",)


@dataclass(frozen=True, slots=True)
class DeltaSource:
    """What `FROM 'directory' FORMAT delta OPTIONS (version '3')` declares; without a version it is the newest one."""

    path: str
    schema: pa.Schema
    version: int | None = None

    @classmethod
    def from_options(cls, path: str, schema: pa.Schema, options: Sequence[tuple[str, str]]) -> DeltaSource:
        """Reads the texts of an OPTIONS clause, whose names are known to be right; PlanError for a version that is no
        number.
        """
        chosen = {name.lower(): text for name, text in options}
        text = chosen.get("version")
        if text is not None and not (text.isascii() and text.isdecimal()):
            raise PlanError(f"option `version` is '{text}' but must be a number, such as '3'")
        return cls(path, schema, None if text is None else int(text))

    def read(self, name: str) -> pa.Table:
        """All rows of the version; SourceError if one of them cannot be had."""
        rows = self.poll(name, None).rows
        assert rows is not None, "nothing was known"
        return rows

    @property
    def no_versions(self) -> str | None:
        if self.version is None:
            return None
        return f"it is declared with version {self.version} alone; leave the option `version` out"

    def poll(self, name: str, known: KnownVersion | None, gather: Gather = gather_in_memory) -> TableVersion:
        """The version that it has now, whole; SourceError if a row of it cannot be had. Its log would tell which files
        have changed, but not all that may be in a file can be read without the table.
        """
        require_extra("delta", "a Delta table", "export it to Parquet files")
        from deltalake.exceptions import DeltaError

        try:
            table = self._open()
            version = f"version {table.version()}"
            if known is not None and version == known.name:
                return TableVersion(version, None)
            self._check_files(table)
            chosen = self._find_columns(table)
            parts = pa.RecordBatchReader.from_stream(table.scan(columns=list(dict.fromkeys(chosen))))
            where = f"{version} of `{self.path}`"
            fitted = gather(
                self.schema,
                (_fit_rows(pa.Table.from_batches([part]), chosen, self.schema, where) for part in parts),
            )
            return TableVersion(version, fitted.replace_schema_metadata({VERSION: version.encode()}))
        except SourceError as error:
            raise SourceError(f"table `{name}`: {error}") from None
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise SourceError(
                f"table `{name}`: `{self.path}` cannot be read as a Delta table: {_first_line(error)}; repair it"
            ) from None

    def _open(self) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        place = absolute_path(self.path)
        try:
            newest = DeltaTable(place)
        except TableNotFoundError:
            raise SourceError(f"there is no Delta table in `{self.path}`; check the path") from None
        if self.version is None or self.version == newest.version():
            return newest
        if self.version > newest.version():
            raise SourceError(
                f"`{self.path}` has no version {self.version}; the newest is {newest.version()}: read that, or wait"
            )
        try:
            return DeltaTable(place, version=self.version)
        except DeltaError as error:
            what = f"version {self.version} of `{self.path}` can no longer be read"
            raise SourceError(f"{what}: {_first_line(error)}; read a newer version") from None

    def _check_files(self, table: DeltaTable) -> None:
        """That the files are there and as long as the log says; where they are elsewhere, reading will tell."""
        place = absolute_path(self.path)
        if "://" in place:
            return
        what = f"version {table.version()} of `{self.path}`"
        listed = table.get_add_actions(flatten=True)
        for path, n_bytes in zip(listed.column("path").to_pylist(), listed.column("size_bytes").to_pylist()):
            file = os.path.join(place, unquote(path))
            if not os.path.exists(file):
                raise SourceError(
                    f"{what} can no longer be read, as {path} is gone: VACUUM removes what newer versions do not need; "
                    "read a newer version, or restore the file"
                )
            if (found := os.path.getsize(file)) != n_bytes:
                wrong = f"{path} has {found:,} bytes, and was written with {n_bytes:,}"
                raise SourceError(f"{what} is damaged: {wrong}; restore the file")

    def _find_columns(self, table: DeltaTable) -> list[str]:
        """The columns that are declared, as the table spells them."""
        names = [field.name for field in table.schema().fields]
        chosen: list[str] = []
        for declared in self.schema.names:
            matching = [name for name in names if name == declared] or [
                name for name in names if name.lower() == declared.lower()
            ]
            if len(matching) != 1:
                raise SourceError(
                    f"version {table.version()} of `{self.path}` has no column `{declared}`; {suggest(declared, names)}"
                )
            chosen += matching
        return chosen


def _fit_rows(rows: pa.Table, chosen: Sequence[str], schema: pa.Schema, where: str) -> pa.Table:
    """The chosen columns as the declared types."""
    columns = [
        pa.chunked_array([fit_declared(chunk, field, where) for chunk in rows.column(name).chunks], field.type)
        for name, field in zip(chosen, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
