"""Whether other machines can run a query: every executor is asked before the first batch, so that what is missing there
is told in a sentence, and not by a task that fails in the middle of one.

    driver      writes a token to the checkpoint       |   one sentence for the first machine that cannot
    executors   read it there, and say what they have  |

What a local master runs is this machine and this Python, of which there is nothing to ask.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from sash.errors import ResourceError
from sash.io.disk import telling_of
from sash.spark.session_settings import SHUFFLE_PARTITIONS, count_local_cores

OURS = str(sys.modules["sash"].__version__)
TASKS_PER_CORE = 4
SECONDS_PER_TASK = 0.1
"""A task takes so long, that no executor has done all of them before another one has begun."""
_asked: set[tuple[str, str]] = set()
"""Applications and directories that all executors have seen."""


class Told(NamedTuple):
    """What an executor says of itself."""

    host: str
    python: str
    version: str
    """Of Sash; empty if it cannot be imported."""
    missing: str
    """The module for lack of which it cannot."""
    seen: str
    """What is in the file with the token; empty if there is none."""


SHARED_PATH = "put checkpoints and outputs on a file system that all machines share, under one path"
SHARED_TEMPORARY = "let TMPDIR name a directory that all machines share where this process starts"

SCHEMA = ", ".join(f"{name} string" for name in Told._fields)


def require_executors(spark: SparkSession, directory: Path, remedy: str) -> None:
    """Raises ResourceError unless all executors that there are have this Sash and see the directory; `remedy` says what
    to do if they do not see it.
    """
    if count_local_cores(spark.conf.get("spark.master", "") or "") is not None:
        return
    asked = spark.conf.get("spark.app.id", "") or "", str(directory)
    if asked not in _asked:
        with _token_in(directory) as (path, token):
            for each in sorted(set(ask_executors(spark, path)), key=str):
                complaint = complaint_of(each, token, directory, remedy)
                if complaint:
                    raise ResourceError(complaint)
        _asked.add(asked)


def ask_executors(spark: SparkSession, path: Path) -> list[Told]:
    """What each of many tasks says, on whichever executor it runs."""
    n_cores = int(spark.conf.get("spark.default.parallelism", None) or spark.conf.get(SHUFFLE_PARTITIONS) or 2)
    n_tasks = TASKS_PER_CORE * n_cores
    asking = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(_look_at(str(path), SECONDS_PER_TASK), SCHEMA)
    return [Told(*row) for row in asking.collect()]


def complaint_of(told: Told, token: str, directory: Path, remedy: str) -> str | None:
    """Why an executor cannot run a query, with the remedy."""
    if not told.version:
        return (
            f"the Python of `{told.host}` (`{told.python}`) has no module `{told.missing}`; install Sash "
            f"{OURS} there, or let PYSPARK_PYTHON name a Python that has it"
        )
    if told.version != OURS:
        return (
            f"the Python of `{told.host}` (`{told.python}`) has Sash {told.version}, but this process has "
            f"{OURS}; install the same one on all machines"
        )
    if told.seen != token:
        return f"`{told.host}` does not see `{directory}` as this machine does; {remedy}"
    return None


@contextmanager
def _token_in(directory: Path) -> Iterator[tuple[Path, str]]:
    token = os.urandom(16).hex()
    path = directory / f".sash-token-{token}"
    with telling_of(str(directory)):
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(token)
    try:
        yield path, token
    finally:
        path.unlink(missing_ok=True)


def _look_at(path: str, seconds: float) -> Callable[[Any], Any]:
    """Runs where there may be no Sash: it is pickled by value, and refers to nothing of it."""

    def look(batches: Any) -> Any:
        import importlib
        import socket
        import sys
        import time

        import pyarrow

        version = missing = seen = ""
        try:
            version = importlib.import_module("sash").__version__
        except ImportError as error:
            missing = str(error.name)
        try:
            with open(path) as file:
                seen = file.read()
        except OSError:
            pass
        for _ in batches:
            pass
        time.sleep(seconds)
        told = {"host": socket.gethostname(), "python": sys.executable, "version": version}
        told |= {"missing": missing, "seen": seen}
        yield pyarrow.RecordBatch.from_pylist([told])

    return look
