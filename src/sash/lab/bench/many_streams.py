"""`sash bench multiway`: three streams or more, joined on one key within one window.

In this process, on one core: Sash batch by batch, and DuckDB over all files at once. A tuple completes many
combinations, so the answer may be larger than memory: it is dropped part by part, and compared in runs of their own.

On Spark it is `sash bench join` with more streams: Sash, a cascade of Spark's own joins of two streams, and DuckDB.
That cascade is slow, so Spark may be given a share of the rate and of the keys, with which a tuple completes as many
combinations.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sash.errors import MismatchError, PlanError
from sash.lab.bench.agreement import Checksum, checksum_of
from sash.lab.bench.compare_engines import bench_join, describe_workload, is_window_full
from sash.lab.bench.embedded_join import SYSTEM_COLUMNS, one_thread
from sash.lab.bench.join_texts import duckdb_sql, output_columns, select_list, system_columns
from sash.lab.bench.measure import BatchMeasure, Measured, Note
from sash.lab.bench.sash_engine import run_sash_embedded
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, write_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_RUNS = 2
"""Of each engine in this process; the faster one counts."""


def combinations_per_tuple(workload: JoinWorkload) -> float:
    """How many a tuple completes on average when the windows are full, if keys are even."""
    n_partners = workload.rate * workload.window_us / 1e6 / workload.keys
    return n_partners ** (workload.n_streams - 1)


def share_of(workload: JoinWorkload, share: float, batch_rows: int) -> JoinWorkload:
    """A smaller workload over as many seconds of event time in which a tuple completes as many combinations."""
    if not 0 < share <= 1:
        raise PlanError(f"the share is {share:g}, but must be above 0 and at most 1")
    rate, n_keys = max(1, round(workload.rate * share)), max(1, round(workload.keys * share))
    n_tuples = max(workload.n_streams, round(workload.n_tuples * share))
    return replace(workload, n_tuples=n_tuples, rate=rate, n_keys=n_keys, batch_rows=batch_rows)


def bench_multiway_embedded(
    workload: JoinWorkload, directory: Path, stages: Stages, n_runs: int = N_RUNS
) -> dict[str, Any]:
    """Writes the workload below `directory`, joins it with Sash and with DuckDB, compares the answers; for JSON.

    Raises `MismatchError` if the answers differ.
    """
    files = directory / "streams"
    with stages.stage("writing the streams", workload.total_rows) as note:
        write_workload(workload, files, note)
    measured: dict[str, list[Measured]] = {"sash": [], "duckdb": []}
    with one_thread():
        for number in range(n_runs):
            with stages.stage(f"Sash in this process, run {number + 1}", workload.total_rows) as note:
                measured["sash"].append(run_sash_embedded(workload, files, note))
            with stages.stage(f"DuckDB with one thread, run {number + 1}", None):
                measured["duckdb"].append(_run_duckdb(workload, files))
    with stages.stage("comparing the answers", workload.total_rows) as note:
        answer = _compare(workload, files, note)
    return _facts(workload, {engine: min(runs, key=_cpu_seconds) for engine, runs in measured.items()}, answer)


def bench_multiway_spark(
    workload: JoinWorkload, directory: Path, engines: Sequence[str], spark: SparkSession | None, stages: Stages
) -> dict[str, Any]:
    """As `bench_join`, which see; for JSON."""
    facts = bench_join(workload, directory, engines, spark, stages).facts()
    return facts | {"workload": _describe(workload)}


def _run_duckdb(workload: JoinWorkload, files: Path) -> Measured:
    """Joins all files at once, and takes the answer as Arrow batches, as Sash's changes come."""
    started, cpu_started = time.monotonic(), time.process_time()
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        n_rows = sum(batch.num_rows for batch in connection.sql(_duckdb_sql(workload, files)).to_arrow_reader())
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
    batch = BatchMeasure(workload.total_rows, seconds, n_changes=n_rows, cpu_seconds=cpu_seconds)
    return Measured([batch], seconds, seconds, cpu_seconds=cpu_seconds)


def _duckdb_sql(workload: JoinWorkload, files: Path) -> str:
    return duckdb_sql(workload, files, f"{select_list(workload)}, {system_columns(workload)}")


def _compare(workload: JoinWorkload, files: Path, note: Note) -> Checksum:
    """The checksum of the answer that Sash and DuckDB both give; each is joined once more for it."""
    columns = output_columns(workload) | SYSTEM_COLUMNS
    parts = [Checksum(0, 0, 0)]
    run_sash_embedded(
        workload, files, note, lambda changes: parts.append(checksum_of("FROM changes", columns, changes=changes))
    )
    ours, theirs = sum(parts[1:], parts[0]), checksum_of(_duckdb_sql(workload, files), columns)
    if ours != theirs:
        raise MismatchError(f"the answers differ: `sash` gives {ours}, `duckdb` gives {theirs}")
    return ours


def _describe(workload: JoinWorkload) -> dict[str, Any]:
    return describe_workload(workload) | {"combinations_per_tuple": combinations_per_tuple(workload)}


def _facts(workload: JoinWorkload, measured: Mapping[str, Measured], answer: Checksum) -> dict[str, Any]:
    engines = {
        engine: each.facts() | {"rows_per_cpu_second": answer.n_rows / _cpu_seconds(each)}
        for engine, each in measured.items()
    }
    return {
        "workload": _describe(workload),
        "answer": {"rows": answer.n_rows, "checksum": f"{answer.sum:x}-{answer.xor:x}"},
        "window_is_full": is_window_full(workload),
        "engines": engines,
        "ratios": {
            "sash/duckdb": engines["sash"]["tuples_per_cpu_second"] / engines["duckdb"]["tuples_per_cpu_second"]
        },
    }


def _cpu_seconds(measured: Measured) -> float:
    assert measured.cpu_seconds is not None, "in this process they are always known"
    return measured.cpu_seconds
