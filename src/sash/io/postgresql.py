"""Reads tables of PostgreSQL: whole, and as they are at one moment.

    connect ─ REPEATABLE READ, READ ONLY ─ lock ─ columns and types checked ─ COPY … TO STDOUT ─ close

The lock is the weakest there is, and comes before the snapshot: nobody alters or truncates the table between the look
at its columns and the copy. Values travel as the text that the server writes for them, without loss, and are read as
those of CSV files are; a value that the declared type cannot hold is an error.

A password never stands in an address. libpq, which makes the connection, finds it in `PGPASSWORD`, in a password file
or in a service file, and Sash never sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from sash.errors import PlanError, SourceError, require_extra, suggest
from sash.io import csv
from sash.io.postgres_types import ServerType
from sash.io.values import sql_name

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

OPTIONS = ("table",)
SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://user@host:5432/database"

_NAME = r'"(?:[^"]|"")+"|[^\s".]+'
_TABLE = re.compile(rf"(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})")
_NULL = r"\N"
_DIALECT = csv.Dialect(header=False, null=_NULL)
_SETTINGS: tuple[LiteralString, ...] = ("DateStyle TO 'ISO, YMD'", "TimeZone TO 'UTC'", "extra_float_digits TO 3")
"""By which the server writes values such that they can be read again, exactly."""


class AddressError(PlanError):
    """An address that is none, or holds a password. What was written is not shown beside it."""


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table or view as `FROM 'postgresql://host/db' FORMAT postgresql OPTIONS (table 'schema.name')` declares it.

    PlanError for what cannot be read whatever the server holds. No server is asked before `read`.
    """

    address: str
    table: str
    schema: pa.Schema

    def __post_init__(self) -> None:
        _check_address(self.address)
        if not _TABLE.fullmatch(self.table):
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

    @classmethod
    def from_options(cls, address: str, schema: pa.Schema, options: Sequence[tuple[str, str]]) -> PostgresTable:
        """Reads the texts of an OPTIONS clause, whose names are known to be right."""
        chosen = {name.lower(): text for name, text in options}
        return cls(address, chosen.get("table", ""), schema)

    @property
    def path(self) -> None:
        return None

    def read(self, name: str) -> pa.Table:
        """All rows, as they are at one moment; SourceError if they cannot be had whole."""
        require_extra("postgres", "a table of PostgreSQL", "export it to a file")
        import psycopg

        # psycopg's errors know the connection, which knows the password: they are gone when Sash's error is raised.
        try:
            connection = psycopg.connect(self.address, client_encoding="utf8", prepare_threshold=None)
        except psycopg.Error as error:
            reason = _describe_refusal(error)
        else:
            with closing(connection):
                try:
                    return self._copy(connection)
                except SourceError as error:
                    reason = str(error)
                except psycopg.Error as error:
                    reason = self._describe_failure(error, connection.broken)
        raise SourceError(f"table `{name}`: {reason}")

    def _copy(self, connection: psycopg.Connection) -> pa.Table:
        from psycopg import IsolationLevel, sql

        connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
        table = sql.Identifier(*self._identifiers())
        self._begin(connection, table)
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
            return pa.concat_tables([self.schema.empty_table(), *self._read_rows(CopiedBytes(copy))])

    def _begin(self, connection: psycopg.Connection, table: sql.Identifier) -> None:
        """Begins the transaction with the lock: its first statement that reads takes the snapshot."""
        from psycopg import errors, sql

        for setting in _SETTINGS:
            connection.execute(sql.SQL(f"SET LOCAL {setting}"))
        try:
            with connection.transaction():
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
        except errors.WrongObjectType:
            pass  # a materialized view or a foreign table, which cannot be locked beforehand

    def _select(self, connection: psycopg.Connection, table: sql.Identifier) -> list[sql.Composed]:
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
        raise SourceError(f"{self._shown} has no column `{declared}`; {suggest(declared, names)}")

    def _find_cast(self, type: ServerType, field: pa.Field) -> LiteralString:
        for is_declared, cast in type.readers.items():
            if is_declared(field.type):
                return cast
        remedy = f"declare it {type.declared}" if type.readers else "cast it in a view, and read that"
        raise SourceError(
            f"column `{field.name}` of {self._shown} is {type.shown}, but declared {sql_name(field.type)}; {remedy}"
        )

    def _read_rows(self, copied: CopiedBytes) -> Iterator[pa.Table]:
        for records in csv.read(copied, self._shown, self.schema, _DIALECT):  # pyright: ignore[reportArgumentType]
            if records.rejects.num_rows:
                reason = records.rejects.column("reason")[0].as_py()
                raise SourceError(f"{self._shown}: {reason}; declare another type, or correct the row")
            yield records.rows

    def _identifiers(self) -> list[str]:
        """As PostgreSQL reads names: in lower case, unless they stand in quotes."""
        found = _TABLE.fullmatch(self.table)
        assert found, "checked when it was made"
        names = [name for name in found.group("schema", "name") if name]
        return [name[1:-1].replace('""', '"') if name.startswith('"') else name.lower() for name in names]

    @property
    def _shown(self) -> str:
        return f"`{self.table}` in {self.address}"

    def _describe_failure(self, error: psycopg.Error, is_broken: bool) -> str:
        """Why a table could not be read, although there was a connection."""
        from psycopg import errors

        if is_broken:
            return f"the connection was lost while {self._shown} was read: {_first_line(error)}; run again"
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return f"there is no {self._shown}; check the option `table`, or create it"
        if isinstance(error, errors.InsufficientPrivilege):
            return f"{self._shown} may not be read: {_first_line(error)}; grant this user SELECT on it"
        return f"{self._shown} cannot be read: {_first_line(error)}; remove the cause, and run again"


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


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        parameters = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        parts, parameters = urlsplit(""), []
    if parts.scheme not in SCHEMES:
        raise AddressError(f"its address is none of PostgreSQL; write it as '{EXAMPLE}'")
    before_host = address.partition("://")[2].rpartition("@")[0]
    if ":" in before_host or any("password" in name.lower() for name, _ in parameters):
        raise AddressError(
            "a password has no place in an address, as scripts are kept and shown; take it out, and set PGPASSWORD, or "
            "write it into ~/.pgpass or a service file; an @ that does not follow the user is written %40"
        )


def _describe_refusal(error: psycopg.Error) -> str:
    """Why there is no connection."""
    if error.pgconn is not None and error.pgconn.needs_password:
        return (
            "the server asks for a password, and there is none; set PGPASSWORD, or write it into ~/.pgpass or a "
            "service file"
        )
    if error.pgconn is not None and error.pgconn.used_password:
        remedy = "check the user and the database in its address, and the password in PGPASSWORD or where you keep it"
    else:
        remedy = "check its address, and that the server runs and can be reached from here"
    return f"{_first_line(error)}; {remedy}"


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].removeprefix("connection failed: ").rstrip(" .:")
