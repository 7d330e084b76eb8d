"""One engine with one window, measured in a process of its own: what `sash bench memory` has a row for.

    steps    0 … until the window is full, and WARM_UP more … | the last n_measured: measured
             memory is looked at from the first step on

The process warms up with a tiny workload first, so that what it has imported and compiled is there when it says how
much memory it has. It writes messages to stdout, a line of JSON each:

    {"idle_bytes": …}   {"n_done": rows}   {"found": figures, or the reason why there are none}
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.lab.bench.process_facts import MovedMeter, resident_bytes
from sash.lab.bench.step_engines import BUILTIN, PAIR_COLUMNS, SEGMENTS, generate_steps, make_engine
from sash.lab.workloads.join_streams import JoinWorkload
from sash.store.batch import int64_column

Tell: TypeAlias = Callable[[dict[str, Any]], None]
WARM_LIMIT_BYTES = 1 << 16
WARM_WORKLOAD = JoinWorkload(n_tuples=2_400, window_us=10_000, batch_rows=400)


@dataclass(frozen=True, slots=True)
class MemoryCell:
    """What is measured. The batches of the workload are the steps; the last `n_measured` of them count."""

    engine: str
    limit_bytes: int
    workload: JoinWorkload
    n_measured: int

    @classmethod
    def from_json(cls, text: str) -> MemoryCell:
        told = json.loads(text)
        return cls(**told | {"workload": JoinWorkload(**told["workload"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def n_filling(self) -> int:
        """Steps before those that are measured."""
        return len(self.workload.batches) - self.n_measured

    @property
    def first_row(self) -> int:
        """Of each stream, the first row that is measured."""
        return sum(self.workload.batches[: self.n_filling]) // self.workload.n_streams

    def measured_pairs(self, pairs: pa.Table) -> pa.Table:
        """Of pairs those whose later row is measured: `v` numbers the rows of a stream."""
        later = np.maximum(*(int64_column(pairs, name) for name in PAIR_COLUMNS))
        return pairs.select(list(PAIR_COLUMNS)).filter(pa.array(later >= self.first_row))


class StepCosts:
    """Adds up what this process takes while something runs."""

    def __init__(self):
        self.seconds = self.cpu_seconds = 0.0
        self.n_read = self.n_written = 0
        self._meter = MovedMeter([os.getpid()])

    @contextmanager
    def counting(self) -> Iterator[None]:
        before, began, cpu_began = self._meter.look(), time.monotonic(), time.process_time()
        yield
        self.seconds += time.monotonic() - began
        self.cpu_seconds += time.process_time() - cpu_began
        after = self._meter.look()
        self.n_read += after.n_read - before.n_read
        self.n_written += after.n_written - before.n_written


def measure_cell(cell: MemoryCell, directory: Path, tell: Tell) -> dict[str, Any]:
    """The figures of an engine that is fed step by step, or `left_out` with the reason.

    The pairs of the measured steps go to Parquet files in `directory`/answer.
    """
    try:
        return _measure(cell, directory, tell)
    except duckdb.OutOfMemoryException:
        return {"left_out": "ran out of memory"}


def run_process(cell: MemoryCell, directory: Path, tell: Tell) -> None:
    """All that the process of a cell does."""
    if cell.engine == BUILTIN:
        from sash.lab.bench.bounded_builtin import measure_builtin

        tell({"found": measure_builtin(cell, directory, tell)})
        return
    pa.set_cpu_count(1)
    _warm_up(cell, directory)
    tell({"idle_bytes": resident_bytes([os.getpid()])})
    tell({"found": measure_cell(cell, directory, tell)})


def _warm_up(cell: MemoryCell, directory: Path) -> None:
    """With so little memory that rows go to disk; DuckDB, which then refuses to work, has nothing to compile."""
    limit_bytes = cell.limit_bytes if cell.engine == SEGMENTS else WARM_LIMIT_BYTES
    with tempfile.TemporaryDirectory(dir=directory) as place:
        warming = replace(cell, limit_bytes=limit_bytes, workload=WARM_WORKLOAD, n_measured=2)
        measure_cell(warming, Path(place), lambda message: None)
    gc.collect()


def _measure(cell: MemoryCell, directory: Path, tell: Tell) -> dict[str, Any]:
    engine, costs = make_engine(cell.engine, cell.workload, cell.limit_bytes, directory / "disk"), StepCosts()
    answer, n_done = directory / "answer", 0
    answer.mkdir()
    for number, step in enumerate(generate_steps(cell.workload)):
        if number < cell.n_filling:
            engine.fill(step)
        else:
            with costs.counting():
                pairs = engine.push(step)
            pq.write_table(cell.measured_pairs(pairs), answer / f"{number}.parquet")
        n_done += sum(rows.num_rows for rows in step.values())
        tell({"n_done": n_done})
    pq.write_table(cell.measured_pairs(engine.finish()), answer / "rest.parquet")
    n_tuples = sum(cell.workload.batches[-cell.n_measured :])
    return {
        "cpu_us_per_tuple": 1e6 * costs.cpu_seconds / n_tuples,
        "us_per_tuple": 1e6 * costs.seconds / n_tuples,
        "read_per_tuple": costs.n_read / n_tuples,
        "written_per_tuple": costs.n_written / n_tuples,
    }


def _print_message(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    run_process(MemoryCell.from_json(sys.argv[1]), Path(sys.argv[2]), _print_message)
