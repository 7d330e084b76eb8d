"""The program of a process that works constants out, and that the system ends if they take too much.

Nothing else stops DuckDB within one call of a function: it looks neither at an interrupt nor, for all it allocates, at
its own limit of memory. This file is run by itself, and so imports nothing of Sash.

    arguments   DuckDB's settings, the seconds of work for each line, the bytes of memory; as JSON
    a line in   expressions, as JSON
    lines out   "ready"; then one for each expression, as soon as it is known: how many bytes its value has as a text,
                null if it has none, or "too much" if memory was not enough
"""

from __future__ import annotations

import json
import math
import signal
import sys
from typing import Any

import duckdb

READY = "ready"
TOO_MUCH = "too much"


def main(settings: dict[str, Any], seconds: int, n_bytes: int) -> None:
    """Answers line by line, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides what Ctrl-C means
    connection = duckdb.connect(":memory:", config={**settings, "threads": 1, "memory_limit": f"{n_bytes}B"})
    connection.execute("SELECT 1").fetchall()
    _limit_memory(n_bytes)
    print(json.dumps(READY), flush=True)
    for line in sys.stdin:
        _limit_work(seconds)
        for expr_sql in json.loads(line):
            print(json.dumps(_size(connection, expr_sql)), flush=True)


def _size(connection: duckdb.DuckDBPyConnection, expr_sql: str) -> int | str | None:
    try:
        return connection.execute(f"SELECT strlen(CAST(({expr_sql}) AS VARCHAR))").fetchall()[0][0]
    except (duckdb.OutOfMemoryException, MemoryError):
        return TOO_MUCH
    except duckdb.Error as error:
        return TOO_MUCH if "larger than 2^32" in str(error) else None


def _limit_memory(n_bytes: int) -> None:
    """As far as the system can; Windows cannot, and macOS does not."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
    except (ImportError, ValueError, OSError):
        pass


def _limit_work(seconds: int) -> None:
    """In seconds of this process's own work, so that what else the machine does makes no difference."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime) + seconds, hard))


if __name__ == "__main__":
    main(*map(json.loads, sys.argv[1:]))
