"""`sash bench topk`: what the first rows of a GROUP BY cost, against the GROUP BY alone, in this process, one thread.

    batches    0 … until the window is full … | n_tuples: measured

The same tuples go through both queries, which take turns; the fastest run of each counts, in CPU seconds. The first run
of each is checked: DuckDB answers the same question over the tuples that are in the window, at the end of every batch
that is measured, and for the groups at the end of the last one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sash.api import query as make_query
from sash.errors import MismatchError, PlanError
from sash.lab.bench.compare_engines import describe_environment
from sash.lab.bench.embedded_join import one_thread
from sash.lab.bench.measure import Note
from sash.lab.bench.stages import Stages
from sash.lab.workloads.key_choice import even_keys
from sash.operators.operator_tree import Work

GROUPED, TOP_K = "grouped", "topk"
TITLES = {GROUPED: "GROUP BY", TOP_K: "GROUP BY … ORDER BY … LIMIT"}
N_RUNS = 3
GAP_US = 10
"""Between two tuples."""
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True, slots=True)
class TopKBench:
    """What is measured: `n_tuples` of a stream, in a window that has `per_key` tuples of each key on average."""

    n_keys: int = 1_000_000
    n_shown: int = 10
    n_tuples: int = 500_000
    per_key: float = 2.0
    aggregate: str = "count(*)"
    batch_rows: int = 20_000
    seed: int = 1

    def __post_init__(self):
        least = {"keys": self.n_keys, "limit": self.n_shown, "tuples": self.n_tuples, "batch": self.batch_rows}
        for name, value in least.items():
            if value < 1:
                raise PlanError(f"`{name}` is {value}, but must be at least 1")
        if self.per_key <= 0:
            raise PlanError(f"`per-key` is {self.per_key:g}, but must be more than 0")

    @property
    def n_filling(self) -> int:
        """Tuples until the window is full: whole batches."""
        return -(-max(1, round(self.n_keys * self.per_key)) // self.batch_rows) * self.batch_rows

    @property
    def window_us(self) -> int:
        return max(1, round(self.n_keys * self.per_key)) * GAP_US

    @property
    def texts(self) -> dict[str, str]:
        """The queries, less their windows: as DuckDB reads them, too."""
        grouped = f"SELECT k, {self.aggregate} AS n FROM s GROUP BY k"
        return {GROUPED: grouped, TOP_K: f"{grouped} ORDER BY n DESC LIMIT {self.n_shown}"}

    def stream(self) -> pa.Table:
        """All tuples, those that fill the window first."""
        n_rows = self.n_filling + self.n_tuples
        keys, values = even_keys([self.seed, 0], self.n_keys, n_rows), even_keys([self.seed, 1], 1_000_000, n_rows)
        return pa.table([keys, values, (1 + np.arange(n_rows)) * GAP_US], schema=SCHEMA)


@dataclass(slots=True)
class TopKRun:
    """One query over all tuples. `changes` are its answer."""

    cpu_seconds: float = 0.0
    n_changes: int = 0
    n_state_bytes: int = 0
    operators: dict[str, Work] = field(default_factory=dict)
    changes: list[pa.Table] = field(default_factory=list)


def bench_top_k(bench: TopKBench, stages: Stages, n_runs: int = N_RUNS) -> dict[str, Any]:
    """Measures both queries, and checks their answers; all of it, for JSON. Raises `MismatchError` if one is wrong."""
    stream, runs = bench.stream(), {name: list[TopKRun]() for name in bench.texts}
    answer: dict[str, dict[str, int]] = {}
    with one_thread():
        for number in range(n_runs):
            for name in bench.texts:
                with stages.stage(f"{TITLES[name]}, run {number + 1}", stream.num_rows) as note:
                    runs[name].append(_run(bench, name, stream, note))
            if number == 0:
                with stages.stage("checking the answers", None):
                    answer = {name: _check(bench, name, stream, each[0]) for name, each in runs.items()}
            for each in runs.values():
                each[-1].changes = []
    best = {name: min(each, key=lambda run: run.cpu_seconds) for name, each in runs.items()}
    return {
        "benchmark": "topk",
        "bench": asdict(bench) | {"window_us": bench.window_us},
        "environment": describe_environment(),
        "answer": answer,
        "queries": {name: _facts(bench, best[name], each) for name, each in runs.items()},
        "ratios": {f"{TOP_K}/{GROUPED}": best[TOP_K].cpu_seconds / best[GROUPED].cpu_seconds},
    }


def _run(bench: TopKBench, name: str, stream: pa.Table, note: Note) -> TopKRun:
    query, run = make_query(f"{bench.texts[name]} WINDOW {bench.window_us} MICROSECONDS", s=SCHEMA), TopKRun()
    for first in range(0, stream.num_rows, bench.batch_rows):
        began = time.process_time()
        changes = query.push("s", stream.slice(first, bench.batch_rows))
        seconds = time.process_time() - began
        run.changes.append(changes)
        if first >= bench.n_filling:
            run.cpu_seconds += seconds
            run.n_changes += changes.num_rows
            _add_work(run.operators, query.work())
        note(first + bench.batch_rows)
    run.n_state_bytes = query.n_state_bytes
    run.changes.append(query.finish())
    return run


def _add_work(total: dict[str, Work], done: Mapping[str, Work]) -> None:
    for name, work in done.items():
        sum_ = total.setdefault(name, Work())
        sum_.rows_in += work.rows_in
        sum_.rows_out += work.rows_out
        sum_.seconds += work.seconds


def _check(bench: TopKBench, name: str, stream: pa.Table, run: TopKRun) -> dict[str, int]:
    """How many rows were compared, at how many instants."""
    ends = [min(first + bench.batch_rows, stream.num_rows) for first in range(0, stream.num_rows, bench.batch_rows)]
    instants = [end * GAP_US for end in ends if end > bench.n_filling] if name == TOP_K else [ends[-1] * GAP_US]
    n_rows = 0
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("changes", pa.concat_tables(run.changes))
        connection.register("stream", stream)
        for instant in instants:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {_wanted(bench, name, instant)}")
            connection.execute(f"CREATE OR REPLACE TEMP TABLE found AS {_SHOWN[name].format(instant=instant)}")
            for one, other in (("wanted", "found"), ("found", "wanted")):
                missing = connection.sql(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 1").fetchall()
                if missing:
                    told = f"k = {missing[0][0]}, n = {missing[0][1]}"
                    raise MismatchError(f"{TITLES[name]} is wrong at {instant} µs: {told} is {one}, but not {other}")
            (count,) = connection.sql("SELECT count(*) FROM found").fetchall()[0]
            n_rows += count
    return {"instants": len(instants), "rows": n_rows}


_SHOWN = {
    TOP_K: "SELECT k, n FROM (SELECT k, n, sum(_op) AS times FROM changes WHERE _ts <= make_timestamp({instant}) "
    "GROUP BY ALL), range(times::BIGINT)",
    GROUPED: "SELECT k, n FROM (SELECT k, max_by(n, _ts) AS n, max_by(_op, _ts) AS op FROM changes "
    "WHERE _ts <= make_timestamp({instant}) GROUP BY k) WHERE op > 0",
}
"""What changes amount to: rows that are counted, or the newest row of each group."""


def _wanted(bench: TopKBench, name: str, instant: int) -> str:
    """The rows that are right at an instant: those that LIMIT leaves equal are placed by their columns."""
    is_there = f"ts <= make_timestamp({instant}) AND ts > make_timestamp({instant - bench.window_us})"
    text = bench.texts[name].replace("FROM s", f"FROM (FROM stream WHERE {is_there})")
    return text.replace("ORDER BY n DESC", "ORDER BY n DESC, k")


def _facts(bench: TopKBench, best: TopKRun, runs: list[TopKRun]) -> dict[str, Any]:
    return {
        "cpu_seconds": best.cpu_seconds,
        "cpu_us_per_tuple": 1e6 * best.cpu_seconds / bench.n_tuples,
        "tuples_per_cpu_second": bench.n_tuples / best.cpu_seconds,
        "changes_per_tuple": best.n_changes / bench.n_tuples,
        "state_bytes": best.n_state_bytes,
        "operators": {name: asdict(work) for name, work in best.operators.items()},
        "runs": [run.cpu_seconds for run in runs],
    }
