"""Reads tables of PostgreSQL: whole, and as they are at one moment.

    connect ─ REPEATABLE READ, READ ONLY ─ lock ─ columns and types checked ─ COPY … TO STDOUT ─ close

The lock is the weakest there is, and comes before the snapshot: nobody alters or truncates the table between the look
at its columns and the copy. Values travel as the text that the server writes for them, without loss, and are read as
those of CSV files are; a value that the declared type cannot hold is an error.

Where a table has a history (`postgres_history`), it is read as it was at a horizon: see `postgres_versions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import pyarrow as pa

from sash.errors import PlanError, SourceError, suggest
from sash.io import csv
from sash.io.postgres_connection import ask_server, check_address, first_line, identifiers_of, is_table_name
from sash.io.postgres_types import ServerType
from sash.io.table_version import Gather, gather_in_memory
from sash.io.values import sql_name

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_NULL = r"\N"
_DIALECT = csv.Dialect(header=False, null=_NULL)
_SETTINGS: tuple[LiteralString, ...] = ("DateStyle TO 'ISO, YMD'", "TimeZone TO 'UTC'", "extra_float_digits TO 3")
"""By which the server writes values such that they can be read again, exactly."""


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table or view as `FROM 'postgresql://host/db' FORMAT postgresql OPTIONS (table 'schema.name')` declares it.

    PlanError for what cannot be read whatever the server holds. No server is asked before `read`.
    """

    address: str
    table: str
    schema: pa.Schema

    def __post_init__(self) -> None:
        check_address(self.address)
        if not is_table_name(self.table):
            raise PlanError(
                f"`{self.table}` is no name of a table; write OPTIONS (table 'schema.name'), with double quotes around "
                "names that have dots, spaces or capitals"
            )
        for field in self.schema:
            if sql_name(field.type) is None:
                raise PlanError(
                    f"column `{field.name}` is {field.type}, which is not read from PostgreSQL; declare a number, a "
                    "text or a time, and cast the column in a view"
                )

    @property
    def path(self) -> None:
        return None

    @property
    def no_versions(self) -> str:
        command = f"sash relation history '{self.address}' '{self.table}'"
        return (
            "a table of PostgreSQL cannot be read as it was before; let the server keep that, with "
            f"`{command}`, and add history 'yes' to its options"
        )

    def read(self, name: str) -> pa.Table:
        """All rows, as they are at one moment; SourceError if they cannot be had whole."""
        try:
            return ask_server(self.address, self._read, self.describe_failure)
        except SourceError as error:
            reason = str(error)
        raise SourceError(f"table `{name}`: {reason}")

    def _read(self, connection: psycopg.Connection) -> pa.Table:
        from psycopg import sql

        table = sql.Identifier(*identifiers_of(self.table))
        self.begin(connection, table)
        return self.copy(connection, table)

    def begin(self, connection: psycopg.Connection, table: sql.Identifier) -> None:
        """Begins the transaction with the lock: its first statement that reads takes the snapshot."""
        from psycopg import IsolationLevel, errors, sql

        connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
        for setting in _SETTINGS:
            connection.execute(sql.SQL(f"SET LOCAL {setting}"))
        try:
            with connection.transaction():
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
        except errors.WrongObjectType:
            pass  # a materialized view or a foreign table, which cannot be locked beforehand

    def copy(
        self, connection: psycopg.Connection, table: sql.Composable, gather: Gather = gather_in_memory
    ) -> pa.Table:
        """The declared columns of what stands behind FROM."""
        from psycopg import sql

        items = self._select(connection, table)
        # What begins with a byte order mark would lose it, were it not in quotes.
        query = sql.SQL(
            "COPY (SELECT {items} FROM {table}) TO STDOUT (FORMAT csv, NULL {null}, FORCE_QUOTE ({first}))"
        ).format(
            items=sql.SQL(", ").join(items),
            table=table,
            null=sql.Literal(_NULL),
            first=sql.Identifier(self.schema.names[0]),
        )
        with connection.cursor() as cursor, cursor.copy(query) as copy:
            return gather(self.schema, self._read_rows(CopiedBytes(copy)))

    def _select(self, connection: psycopg.Connection, table: sql.Composable) -> list[sql.Composed]:
        """What to select for the declared columns, in their order; SourceError for one that is not there or is other
        than declared.
        """
        from psycopg import sql

        columns = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(table)).description or []
        oids = [column.type_code for column in columns]
        query = "SELECT oid, typname, typcategory, format_type(oid, NULL) FROM pg_type WHERE oid = ANY(%s)"
        types = {oid: ServerType(*rest) for oid, *rest in connection.execute(query, [oids])}
        names = [column.name for column in columns]
        items: list[sql.Composed] = []
        for field in self.schema:
            idx = self._find_column(names, field.name)
            cast = self._find_cast(types[oids[idx]], field)
            spelt = {"name": sql.Identifier(names[idx]), "alias": sql.Identifier(field.name), "cast": sql.SQL(cast)}
            items.append(sql.SQL("{name}{cast} AS {alias}").format(**spelt))
        return items

    def _find_column(self, names: Sequence[str], declared: str) -> int:
        """The column that is spelt exactly so, else the only one that differs in case."""
        for candidates in (
            [idx for idx, name in enumerate(names) if name == declared],
            [idx for idx, name in enumerate(names) if name.lower() == declared.lower()],
        ):
            if len(candidates) == 1:
                return candidates[0]
        raise SourceError(f"{self.shown} has no column `{declared}`; {suggest(declared, names)}")

    def _find_cast(self, type: ServerType, field: pa.Field) -> LiteralString:
        for is_declared, cast in type.readers.items():
            if is_declared(field.type):
                return cast
        remedy = f"declare it {type.declared}" if type.readers else "cast it in a view, and read that"
        raise SourceError(
            f"column `{field.name}` of {self.shown} is {type.shown}, but declared {sql_name(field.type)}; {remedy}"
        )

    def _read_rows(self, copied: CopiedBytes) -> Iterator[pa.Table]:
        for records in csv.read(copied, self.shown, self.schema, _DIALECT):  # pyright: ignore[reportArgumentType]
            if records.rejects.num_rows:
                reason = records.rejects.column("reason")[0].as_py()
                raise SourceError(f"{self.shown}: {reason}; declare another type, or correct the row")
            yield records.rows

    @property
    def shown(self) -> str:
        return f"`{self.table}` in {self.address}"

    def describe_failure(self, error: psycopg.Error, is_broken: bool) -> str:
        """Why a table could not be read, although there was a connection."""
        from psycopg import errors

        if is_broken:
            return f"the connection was lost while {self.shown} was read: {first_line(error)}; run again"
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return f"there is no {self.shown}; check the option `table`, or create it"
        if isinstance(error, errors.InsufficientPrivilege):
            return f"{self.shown} may not be read: {first_line(error)}; grant this user SELECT on it"
        return f"{self.shown} cannot be read: {first_line(error)}; remove the cause, and run again"


class CopiedBytes:
    """What a COPY sends, as a file that can be read once."""

    def __init__(self, copy: psycopg.Copy):
        self._copy = copy

    def read(self, n_bytes: int) -> bytes:
        """At least so many bytes, unless these are the last."""
        parts: list[bytes] = []
        n_read = 0
        while n_read < n_bytes and (part := bytes(self._copy.read())):
            parts.append(part)
            n_read += len(part)
        return b"".join(parts)
