"""`sash bench join` and `outer`, `--engine embedded`: the same Arrow tables, by Sash in this process and by DuckDB.

Both use one thread and read the Parquet files themselves. Sash takes them batch by batch and gives its changes in order
of time; DuckDB joins all of them at once, once in whatever order comes out and once in Sash's. They take turns, and the
fastest of each engine's runs counts, in CPU seconds: compilers and other programs have their say in the slower ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sash.embedded.query import Query
from sash.lab.bench.agreement import Checksum, check_agreement
from sash.lab.bench.compare_engines import describe_environment, describe_workload
from sash.lab.bench.join_texts import duckdb_sql, output_columns, select_list, system_columns
from sash.lab.bench.sash_engine import bind_workload, push_batch
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, write_workload

TITLES = {"sash": "Sash", "duckdb": "DuckDB", "duckdb_ordered": "DuckDB, ordered"}
N_RUNS = 5
SYSTEM_COLUMNS = dict.fromkeys(("_ts", "_expires"), pa.timestamp("us", "UTC"))


def bench_embedded_join(
    workload: JoinWorkload, directory: Path, stages: Stages, n_runs: int = N_RUNS
) -> dict[str, Any]:
    """Writes the workload below `directory`, measures the engines, compares their answers; all of it, for JSON."""
    files = directory / "streams"
    with stages.stage("writing the streams", workload.total_rows) as note:
        write_workload(workload, files, note)
    runs: dict[str, Callable[[], pa.Table]] = {
        "sash": lambda: _run_sash(workload, files),
        "duckdb": lambda: _run_duckdb(workload, files, ""),
        "duckdb_ordered": lambda: _run_duckdb(workload, files, "ORDER BY _ts"),
    }
    seconds: dict[str, list[float]] = {engine: [] for engine in runs}
    outputs = {engine: [directory / f"{engine}.parquet"] for engine in runs}
    with stages.stage("joining", n_runs * len(runs)) as note, one_thread():
        for engine, run in [each for _ in range(n_runs) for each in runs.items()]:
            began = time.process_time()
            answer = run()
            seconds[engine].append(time.process_time() - began)
            pq.write_table(answer, outputs[engine][0])
            del answer  # or the next engine would have less memory that is at hand
            note(sum(map(len, seconds.values())))
    with stages.stage("comparing the answers", None):
        checksum = check_agreement(outputs, output_columns(workload) | SYSTEM_COLUMNS)
    return _facts(workload, seconds, checksum)


def _run_sash(workload: JoinWorkload, files: Path) -> pa.Table:
    query = Query(bind_workload(workload, files, files / "unused").plan, {})
    parts = [
        part for number in range(len(workload.batches)) for part in push_batch(query.push, workload, files, number)
    ]
    return pa.concat_tables([*parts, query.finish()])


def _run_duckdb(workload: JoinWorkload, files: Path, order: str) -> pa.Table:
    """The same columns as Sash's changes."""
    sql = duckdb_sql(workload, files, f"{select_list(workload)}, {system_columns(workload)}")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(f"{sql} {order}").to_arrow_table()


def _facts(workload: JoinWorkload, seconds: Mapping[str, list[float]], answer: Checksum) -> dict[str, Any]:
    best = {engine: min(each) for engine, each in seconds.items()}
    return {
        "benchmark": "embedded outer" if workload.is_outer else "embedded join",
        "workload": describe_workload(workload),
        "environment": describe_environment(),
        "answer": {"rows": answer.n_rows, "checksum": f"{answer.sum:x}-{answer.xor:x}"},
        "engines": {
            engine: {
                "cpu_seconds": best[engine],
                "tuples_per_cpu_second": workload.total_rows / best[engine],
                "runs": list(each),
            }
            for engine, each in seconds.items()
        },
        "ratios": {f"sash/{other}": best[other] / best["sash"] for other in ("duckdb", "duckdb_ordered")},
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Arrow reads and computes with one thread."""
    n_threads, n_readers = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(n_threads)
        pa.set_io_thread_count(n_readers)
