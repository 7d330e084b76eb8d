"""A PostgreSQL server for tests: in a directory of its own, behind a socket that only this machine reaches."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

PASSWORD = "s3cret-of-the-reader"
ACCESS = """
local all owner trust
local all reader scram-sha-256
"""
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "20",
    "autovacuum": "off",
}
MISSING = "no PostgreSQL server on this machine: install it with `.ci/postgresql`, or `apt-get install postgresql`"


@dataclass(frozen=True)
class Server:
    """`owner` may do everything without a password; `reader` has one, and may read what it is granted."""

    sockets: Path

    def address(self, user: str = "owner", database: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.sockets), safe='')}"

    def execute(self, *statements: str) -> list[tuple]:
        """Runs statements one after the other as the owner; returns the rows of the last one, if it has any."""
        import psycopg

        with psycopg.connect(self.address(), autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def find_programs() -> Path | None:
    """The directory with the server's programs; Debian does not put it into the path."""
    for each in (shutil.which("initdb"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)):
        if each and Path(each).resolve().with_name("postgres").exists():
            return Path(each).resolve().parent
    return None


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    """A fresh server while this lasts. It refuses to be run by root: somebody else runs it then."""
    place = Path(tempfile.mkdtemp(prefix="sash-pg-"))  # not pytest's directory, as the path of a socket must be short
    data = place / "data"
    user = _give_away(place)

    def run(program: str, *arguments: Any) -> None:
        command = [programs / program, "-D", data, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place, **user)
        assert done.returncode == 0, (place / "log").read_text()

    with (place / "log").open("a") as log:
        try:
            run("initdb", "-U", "owner", "-E", "UTF8", "--locale=C", "--no-sync")
            (data / "pg_hba.conf").write_text(ACCESS)
            settings = {**SETTINGS, "unix_socket_directories": str(place)}
            (data / "postgresql.auto.conf").write_text(
                "".join(f"{name} = '{value}'\n" for name, value in settings.items())
            )
            run("pg_ctl", "start", "-w", "-s")
            try:
                server = Server(place)
                server.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
                yield server
            finally:
                run("pg_ctl", "stop", "-m", "immediate", "-s")
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _give_away(place: Path) -> dict[str, Any]:
    """Who runs the server, as arguments of `subprocess.run`; the directory is theirs."""
    if os.getuid() != 0:
        return {}
    users = {each.pw_name: each for each in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    os.chown(place, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
