"""How much the constants of a query may take: `repeat('x', 200000000)` is a few letters that make 200 MB.

DuckDB folds constants while it binds, and again whenever it plans, in time and memory that no setting of it limits. So
constants that call functions are worked out once in a process of their own first, innermost first, with limits that
the system sees to. Where an argument is a column nothing is measured: that is decided row by row, when the query runs.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from sash.sql import constant_worker, duck
from sash.sql.dialect import Sash

MAX_BYTES = 1_000_000
"""Of all that the constants of an expression make, each written as a text."""
MAX_SECONDS = 2
"""Of work for the constants of an expression; of the worker's own time, not the clock's."""
MAX_MEMORY = 512_000_000
"""Of the process in which they are worked out."""
_MAX_WAIT_SECONDS = 30
"""By the clock, where the system cannot limit a process's own time."""
_SHORT = 10_000
"""Characters that no function takes long for, if it is given just these."""
_FLAT = ("BOOLEAN", "DATE", "DOUBLE", "FLOAT", "INTEGER", "INTERVAL", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def find_excess(expr: exp.Expr) -> tuple[exp.Expr, str] | None:
    """The part with which the constants of an expression take too much, and why; None if none does."""
    parts = [part for root in _constants(expr) if _may_grow(root) for part in _parts(root)]
    if not parts:
        return None
    total = 0
    for part, size in zip(parts, _sizes(tuple(map(_sql, parts)))):
        if size == constant_worker.TOO_MUCH:
            limits = f"{MAX_SECONDS} seconds or {MAX_MEMORY // 1_000_000} MB"
            return part, f"it takes more than {limits} to work this constant out; write its value, or make it smaller"
        total += size if isinstance(size, int) else 0
        if total > MAX_BYTES:
            return part, f"a constant of {total:,} bytes is too large; make it at most {MAX_BYTES:,}"
    return None


def _constants(expr: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an expression, as large as can be, that no column stands in."""
    if not any(_is_read(column) for column in expr.find_all(exp.Column)):
        yield expr
        return
    for child in expr.iter_expressions():
        yield from _constants(child)


def _is_read(column: exp.Column) -> bool:
    """Whether this is a column, and not what a list comprehension runs over."""
    around = column.find_ancestor(exp.Comprehension)
    while around is not None:
        if column.name.lower() == around.args["expression"].name.lower():
            return False
        around = around.find_ancestor(exp.Comprehension)
    return True


def _may_grow(root: exp.Expr) -> bool:
    """Whether a constant can be more than what is written: not by operators, nor if all it calls gives a number."""
    calls = [node for node in root.walk() if isinstance(node, (exp.Anonymous, exp.Comprehension))]
    if all(call.name.lower() in _flat_functions() for call in calls):
        return bool(calls) and len(_sql(root)) > _SHORT
    return True


def _parts(root: exp.Expr) -> Iterator[exp.Expr]:
    """What is worked out by itself, innermost first: calls, and the whole. What cannot be alone has no size."""
    for node in reversed(list(root.walk(bfs=False))):
        is_method = isinstance(node.parent, exp.Dot) and node.arg_key == "expression"
        if node is root or (isinstance(node, exp.Anonymous) and not is_method):
            yield node


@functools.cache
def _flat_functions() -> frozenset[str]:
    """The functions that only give values of a fixed size, such as numbers and times."""
    query = (
        "SELECT function_name FROM duckdb_functions() GROUP BY function_name "
        "HAVING bool_and(coalesce(function_type = 'scalar' AND "
        f"(return_type IN {_FLAT} OR return_type LIKE '%INT' OR return_type LIKE 'DECIMAL%'), false))"
    )
    with duck.connect() as connection:
        return frozenset(name for (name,) in connection.execute(query).fetchall())


@functools.lru_cache(maxsize=256)
def _sizes(exprs_sql: tuple[str, ...]) -> tuple[int | str | None, ...]:
    """Of each expression, up to the first that takes too much. None of one that has no value."""
    return tuple(_worker(os.getpid()).measure(exprs_sql))


@functools.lru_cache(maxsize=1)
def _worker(pid: int) -> _Worker:
    """The one of this process: what was forked off has to start its own."""
    return _Worker()


class _Worker:
    """A process that runs `constant_worker`, started when it is needed and again after it had to be ended."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self._end)

    def measure(self, exprs_sql: Sequence[str]) -> list[int | str | None]:
        """Where no process can be started all is left to DuckDB."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()  # somebody else has ended it, which says nothing of what is asked now
            process = self._process or self._start()
            if process is None:
                return []
            alarm = threading.Timer(_MAX_WAIT_SECONDS, process.kill)
            alarm.start()
            sizes: list[int | str | None] = []
            try:
                self._tell(process, exprs_sql)
                while len(sizes) < len(exprs_sql) and constant_worker.TOO_MUCH not in sizes[-1:]:
                    sizes.append(self._hear(process))
            except EOFError:
                sizes.append(constant_worker.TOO_MUCH)
            finally:
                alarm.cancel()
                if len(sizes) < len(exprs_sql) or sizes[-1] == constant_worker.TOO_MUCH:
                    self._end()
            return sizes

    def _start(self) -> subprocess.Popen[str] | None:
        limits: list[Any] = [duck.CLOSED, MAX_SECONDS, MAX_MEMORY]
        command = [sys.executable, "-P", constant_worker.__file__, *map(json.dumps, limits)]
        with contextlib.suppress(OSError, EOFError):
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            if self._hear(self._process) == constant_worker.READY:
                return self._process
        self._end()
        return None

    def _tell(self, process: subprocess.Popen[str], exprs_sql: Sequence[str]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(exprs_sql) + "\n")
            process.stdin.flush()
        except OSError:
            raise EOFError from None

    def _hear(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        if line := process.stdout.readline():
            return json.loads(line)
        raise EOFError

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and os.getpid() == self._pid:  # what was forked off leaves it alone
            process.kill()
            with process:
                pass


def _sql(expr: exp.Expr) -> str:
    return expr.sql(dialect=Sash, normalize_functions=False, comments=False)
