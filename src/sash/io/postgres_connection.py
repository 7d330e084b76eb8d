"""Connections to PostgreSQL: addresses, names of tables, and what may go wrong, in Sash's words.

A password never stands in an address. libpq, which makes the connection, finds it in `PGPASSWORD`, in a password file
or in a service file, and Sash never sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

from sash.errors import PlanError, SourceError, require_extra

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://user@host:5432/database"

_NAME = r'"(?:[^"]|"")+"|[^\s".]+'
_TABLE = re.compile(rf"(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})")

T = TypeVar("T")


class AddressError(PlanError):
    """An address that is none, or holds a password. What was written is not shown beside it."""


def check_address(address: str) -> None:
    """AddressError if it is none of PostgreSQL, or holds a password."""
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


def is_table_name(text: str) -> bool:
    """Whether a text is a name of a table as PostgreSQL reads it, perhaps with its schema."""
    return _TABLE.fullmatch(text) is not None


def identifiers_of(table: str) -> list[str]:
    """The parts of a name as PostgreSQL reads them: in lower case, unless they stand in quotes."""
    found = _TABLE.fullmatch(table)
    assert found, "checked when it was given"
    names = [name for name in found.group("schema", "name") if name]
    return [name[1:-1].replace('""', '"') if name.startswith('"') else name.lower() for name in names]


def ask_server(
    address: str, work: Callable[[psycopg.Connection], T], describe: Callable[[psycopg.Error, bool], str]
) -> T:
    """What `work` makes of a connection, which is closed then. SourceError if there is none, or if the work fails;
    `describe` says why, of an error and whether the connection was lost.
    """
    require_extra("postgres", "a table of PostgreSQL", "export it to a file")
    import psycopg

    # psycopg's errors know the connection, which knows the password: they are gone when Sash's error is raised.
    try:
        connection = psycopg.connect(address, client_encoding="utf8", prepare_threshold=None)
    except psycopg.Error as error:
        reason = _describe_refusal(error)
    else:
        with closing(connection):
            try:
                return work(connection)
            except SourceError as error:
                reason = str(error)
            except psycopg.Error as error:
                reason = describe(error, connection.broken)
    raise SourceError(reason)


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
    return f"{first_line(error)}; {remedy}"


def first_line(error: psycopg.Error) -> str:
    """What an error says, in short."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].removeprefix("connection failed: ").rstrip(" .:")
