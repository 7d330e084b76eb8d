"""INL by PostgreSQL for `sash bench relation`: the keys of a step are asked for by `= ANY`, over an index.

The server is the one that is named, or one that is started for this: with as much memory as all others have, in a
directory of its own, behind a socket.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sash.errors import SourceError
from sash.lab.bench.relation_engines import RelationWorkload

TABLE = "sash_bench_relation"
PAGE_BYTES = 8192
LEAST_BUFFERS = 1 << 17
_READ = f"""
SELECT coalesce(sum(heap_blks_read + idx_blks_read), 0) FROM pg_statio_user_tables WHERE relname = '{TABLE}'
"""


class PostgresLookup:
    """A table of its own in a database, which goes in the end."""

    def __init__(self, workload: RelationWorkload, address: str):
        import psycopg

        try:
            self._connection = psycopg.connect(address, autocommit=True)
        except psycopg.Error as error:
            raise SourceError(f"PostgreSQL does not answer: {str(error).strip()}; check --postgres") from None
        self._execute(f"DROP TABLE IF EXISTS {TABLE}")
        self._execute(f"CREATE UNLOGGED TABLE {TABLE} (k BIGINT, v BIGINT, p TEXT)")
        relation = workload.relation()
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT binary)".encode()) as copy,
        ):
            copy.set_types(["int8", "int8", "text"])
            for batch in relation.to_batches(1 << 16):
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    copy.write_row(row)
        self._execute(f"CREATE INDEX ON {TABLE} (k)")
        self._execute(f"ANALYZE {TABLE}")

    def push(self, step: pa.Table) -> pa.Table:
        with self._connection.cursor(binary=True) as cursor:
            keys = step.column("k").unique().to_pylist()
            cursor.execute(f"SELECT k, v, p FROM {TABLE} WHERE k = ANY(%s)".encode(), (keys,), prepare=True)
            rows = cursor.fetchall()
        names = ("k", "v", "p")
        found = pa.table([list(column) for column in zip(*rows)] or [[], [], []], names=list(names))
        found = found.cast(pa.schema([("k", pa.int64()), ("v", pa.int64()), ("p", pa.string())]))
        return step.select(["k", "n"]).join(found, "k", join_type="inner")

    def finish(self) -> pa.Table | None:
        return None

    def n_read(self) -> int | None:
        """What was not among its buffers."""
        self._execute("SELECT pg_stat_force_next_flush()")
        self._execute("SELECT pg_stat_clear_snapshot()")
        return PAGE_BYTES * int(self._execute(_READ)[0][0])

    def close(self) -> None:
        self._execute(f"DROP TABLE IF EXISTS {TABLE}")
        self._connection.close()

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def find_programs() -> Path | None:
    """The directory with the server's programs; Debian does not put it into the path."""
    for each in (shutil.which("initdb"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)):
        if each and Path(each).resolve().with_name("postgres").exists():
            return Path(each).resolve().parent
    return None


@contextmanager
def started_server(programs: Path, limit_bytes: int) -> Iterator[str]:
    """The address of a server that runs while this lasts. It refuses to be run by root: somebody else runs it then."""
    place = Path(tempfile.mkdtemp(prefix="sash-pg-"))  # short, as the path of a socket must be
    data, user = place / "data", _give_away(place)

    def run(program: str, *arguments: Any) -> None:
        command = [programs / program, "-D", data, *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place, **user)
        if done.returncode:
            raise SourceError(f"PostgreSQL cannot be started: {(place / 'log').read_text()[-500:]}; name one")

    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(place),
        "shared_buffers": f"{max(LEAST_BUFFERS, limit_bytes) // 1024}kB",
        "max_connections": "10",
        "fsync": "off",
        "autovacuum": "off",
    }
    with (place / "log").open("a") as log:
        try:
            run("initdb", "-U", "owner", "-E", "UTF8", "--locale=C", "--no-sync", "-A", "trust")
            told = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
            (data / "postgresql.auto.conf").write_text(told)
            run("pg_ctl", "start", "-w", "-s")
            try:
                yield f"postgresql://owner@/postgres?host={quote(str(place), safe='')}"
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
