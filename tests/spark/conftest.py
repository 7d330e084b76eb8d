"""Scripts over small stream directories, how to run them on either engine, and caches of groups."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from sash.embedded.run_to_end import run_files
from sash.io.sink import read_sink
from sash.runtime.job import Job, QueryRun, Tally
from sash.runtime.script import bind_script
from sash.spark.group_cache import GroupCache
from sash.spark.machine_budget import MachineBudget
from support.group_caches import MUCH

SCRIPT = """
CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/a' FORMAT csv;
CREATE STREAM b (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM '{root}/b' FORMAT csv;
CREATE QUERY joined AS SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS
  INTO '{root}/{out}' FORMAT parquet;
"""


class StreamFolder:
    """A directory with streams as CSV files and outputs; files arrive in the order in which they are written here."""

    def __init__(self, root: Path):
        self.root = root
        self.script = SCRIPT
        self._n_files = 0

    def write(self, stream: str, rows: list[str]) -> None:
        """Adds a file of rows `id,k,seconds` (or any text, to be rejected)."""
        directory = self.root / stream
        directory.mkdir(exist_ok=True)
        self._n_files += 1
        path = directory / f"{self._n_files:03d}.csv"
        lines = [_with_timestamp(row) for row in rows]
        path.write_text("id,k,ts\n" + "".join(f"{line}\n" for line in lines))
        os.utime(path, (1000 + self._n_files, 1000 + self._n_files))

    def run(self, out: str, script: str | None = None, is_strict: bool = False) -> QueryRun:
        """The script's only query, writing to `out`."""
        (run,) = bind_script((script or self.script).format(root=self.root, out=out)).runs(is_strict)
        return run

    def run_embedded(self, out: str) -> tuple[QueryRun, Tally]:
        run = self.run(out)
        return run, run_files(Job.alone(run), lambda name, tally: None)[run.name]


def _with_timestamp(row: str) -> str:
    *values, seconds = row.split(",")
    return ",".join([*values, f"2026-01-01 00:00:{int(seconds):02d}"]) if seconds.isdecimal() else row


@pytest.fixture
def folder(tmp_path: Path) -> StreamFolder:
    return StreamFolder(tmp_path)


def sorted_rows(table: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.fixture
def outputs() -> Callable[[QueryRun], tuple[list[tuple], dict[str, list[tuple]]]]:
    """The changes that a run has written, and its late rows by stream."""

    def read(run: QueryRun) -> tuple[list[tuple], dict[str, list[tuple]]]:
        late = {name: sorted_rows(read_sink(run.late_sink(name), run.late_schema(name))) for name in run.streams}
        return sorted_rows(read_sink(run.sink, run.plan.schema)), late

    return read


@pytest.fixture
def make_cache(tmp_path: Path) -> Callable[..., GroupCache]:
    """Caches in the same places, as several workers have them."""

    def make(budget: MachineBudget = MUCH) -> GroupCache:
        (tmp_path / "memory").mkdir(exist_ok=True)
        return GroupCache(tmp_path / "memory", [tmp_path / "disk"], budget)

    return make
