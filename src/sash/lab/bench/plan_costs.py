"""`sash bench plans`: what a tuple costs in whole query plans, in this process, on one core.

The queries are those of `sash.lab.workloads.retail`. Tuples are generated before the clock starts. The first fill the
window, and have the kernels compiled; those after them are measured.

    batches    0 … until the window is full, and at least WARM_UP … | n_tuples: measured
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.api import query as make_query
from sash.embedded.query import Query
from sash.errors import InternalError, PlanError, suggest
from sash.frames import relation
from sash.lab.bench.compare_engines import describe_environment
from sash.lab.bench.measure import Note
from sash.lab.bench.stages import Stages
from sash.lab.workloads.retail import QUERIES, SCHEMA, Retail, batches, query_text, relations_of, streams_of
from sash.operators.operator_tree import Work

WARM_UP = 2
"""At least so many batches of each stream go before those that are measured."""
FAVORITES = 0.1
SLOWER = 20
"""So many times fewer tuples, in windows so many times emptier, are measured where nothing is compiled."""


@dataclass(frozen=True, slots=True)
class PlanBench:
    """What is measured. `n_tuples` counts the rows of all streams of a query together."""

    query: str
    n_tuples: int = 400_000
    rate: float = 2_000
    window_us: int = 60_000_000
    batch_rows: int = 10_000
    n_items: int | None = None
    schedule: str = "tpa"
    seed: int = 1

    def __post_init__(self):
        if self.query not in QUERIES:
            raise PlanError(f"there is no query `{self.query}`; {suggest(self.query, QUERIES)}")
        if self.n_tuples < 1 or self.batch_rows < 1:
            raise PlanError(f"tuples and batch must be above 0, but are {self.n_tuples} and {self.batch_rows}")

    @property
    def n_filling(self) -> int:
        """Tuples of each stream until the window is full: whole batches."""
        n_batches = max(WARM_UP, -(-int(self.rate * self.window_us / 1e6) // self.batch_rows))
        return n_batches * self.batch_rows

    @property
    def retail(self) -> Retail:
        """Sales for as long as it takes, and a little longer.

        There are as many stores as sales of favourite items in a window, so that Q3 counts neither all nor none.
        """
        n_rows = self.n_filling + -(-self.n_tuples // len(streams_of(self.query)))
        duration_us = int(n_rows / self.rate * 1.05e6) + 1_000_000
        n_stores = max(1, round(FAVORITES * self.rate * self.window_us / 1e6))
        return Retail(
            self.rate, duration_us, self.window_us, self.n_items, n_stores, favorites=FAVORITES, seed=self.seed
        )


@dataclass(slots=True)
class PlanMeasure:
    """One query, measured when its window was full."""

    bench: PlanBench
    n_tuples: int = 0
    n_changes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    n_state_rows: int = 0
    n_state_bytes: int = 0
    operators: dict[str, Work] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """All of it and what follows from it, for JSON."""
        n_alive = len(streams_of(self.bench.query)) * self.bench.rate * self.bench.window_us / 1e6
        return asdict(self) | {
            "tuples_per_second": self.n_tuples / self.seconds,
            "tuples_per_cpu_second": self.n_tuples / self.cpu_seconds,
            "cpu_us_per_tuple": self.cpu_seconds / self.n_tuples * 1e6,
            "changes_per_tuple": self.n_changes / self.n_tuples,
            "state_bytes_per_tuple": self.n_state_bytes / n_alive,
        }


def bench_plans(benches: Sequence[PlanBench], stages: Stages) -> list[PlanMeasure]:
    """Measures one after the other."""
    measured = []
    for bench in benches:
        with stages.stage(_title(bench), bench.n_tuples) as note:
            measured.append(measure_plan(bench, note))
    return measured


def measure_plan(bench: PlanBench, note: Note = lambda n_rows: None) -> PlanMeasure:
    """Fills the window, then measures."""
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        return _measure(bench, note)
    finally:
        pa.set_cpu_count(before)


def plan_facts(measured: Sequence[PlanMeasure]) -> dict[str, Any]:
    """All queries, for JSON."""
    return {
        "benchmark": "plans",
        "environment": describe_environment() | {"jit": os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"},
        "queries": [each.facts() for each in measured],
    }


def compare_without_numba(benches: Sequence[PlanBench], stages: Stages) -> list[dict[str, Any]]:
    """The same queries with kernels compiled and as plain Python, both over fewer tuples in emptier windows."""
    small = [replace(each, n_tuples=each.n_tuples // SLOWER, rate=each.rate / SLOWER) for each in benches]
    compiled = [each.facts() for each in bench_plans(small, stages)]
    compared = []
    for bench, fast in zip(small, compiled):
        with stages.stage(f"{_title(bench)} without numba", None):
            slow = _measure_without_numba(bench)
        compared.append(
            {
                "query": bench.query,
                "tuples_per_cpu_second": fast["tuples_per_cpu_second"],
                "tuples_per_cpu_second_without_numba": slow["tuples_per_cpu_second"],
                "ratio": fast["tuples_per_cpu_second"] / slow["tuples_per_cpu_second"],
            }
        )
    return compared


def _title(bench: PlanBench) -> str:
    items = "" if bench.n_items is None else f", {bench.n_items:,} items"
    return f"{bench.query} ({bench.schedule}), {bench.rate:g}/s, window {bench.window_us / 1e6:g} s{items}"


def _open(bench: PlanBench) -> Query:
    retail = bench.retail
    streams = dict.fromkeys(streams_of(bench.query), SCHEMA)
    relations = {name: relation(table) for name, table in relations_of(bench.query, retail).items()}
    return make_query(query_text(bench.query, retail, bench.schedule), **streams, **relations)


def _measure(bench: PlanBench, note: Note) -> PlanMeasure:
    query, measure = _open(bench), PlanMeasure(bench)
    n_filling = bench.n_filling * len(streams_of(bench.query))
    n_filled = 0
    for stream, rows in list(batches(bench.retail, bench.query, bench.batch_rows)):
        if n_filled < n_filling:
            query.push(stream, rows)
            n_filled += rows.num_rows
        elif measure.n_tuples < bench.n_tuples:
            _take(measure, query, stream, rows)
            note(measure.n_tuples)
    measure.n_state_rows, measure.n_state_bytes = query.n_state_rows, query.n_state_bytes
    return measure


def _take(measure: PlanMeasure, query: Query, stream: str, rows: pa.Table) -> None:
    """Pushes a batch and adds up what it cost."""
    began, cpu_began = time.perf_counter(), time.process_time()
    changes = query.push(stream, rows)
    measure.seconds += time.perf_counter() - began
    measure.cpu_seconds += time.process_time() - cpu_began
    measure.n_tuples += rows.num_rows
    measure.n_changes += changes.num_rows
    for name, work in query.work().items():
        total = measure.operators.setdefault(name, Work())
        total.rows_in += work.rows_in
        total.rows_out += work.rows_out
        total.seconds += work.seconds


def _measure_without_numba(bench: PlanBench) -> dict[str, Any]:
    """In a process of its own: whether kernels are compiled is decided when they are imported."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "facts.json"
        done = subprocess.run(
            [sys.executable, "-m", "sash.lab.bench.plan_costs", json.dumps(asdict(bench)), str(out)],
            env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise InternalError(f"the run without numba failed: {done.stderr.strip()[-500:]}")
        return json.loads(out.read_text())


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(measure_plan(PlanBench(**json.loads(sys.argv[1]))).facts()))
