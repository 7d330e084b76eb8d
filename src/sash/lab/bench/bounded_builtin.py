"""Spark's own join for `sash bench memory`: the limit is for RocksDB, and the heap of the Java machine is beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sash.lab.bench.cpu_time import tree_stats
from sash.lab.bench.other_engines import run_builtin
from sash.lab.bench.process_facts import Moved, MovedMeter
from sash.lab.bench.step_engines import PAIR_COLUMNS
from sash.lab.workloads.join_streams import write_workload

if TYPE_CHECKING:
    from sash.lab.bench.memory_cell import MemoryCell, Tell

_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
_MIB = 1 << 20


def measure_builtin(cell: MemoryCell, directory: Path, tell: Tell) -> dict[str, Any]:
    """The figures of the last batches of a run, on a session of its own."""
    from sash.spark.spark_session import spark_session

    write_workload(cell.workload, directory / "streams")
    bounds = {
        f"{_ROCKSDB}.boundedMemoryUsage": "true",
        f"{_ROCKSDB}.maxMemoryUsageMB": max(1, cell.limit_bytes // _MIB),
    }
    spark = spark_session(**bounds)
    meter = MovedMeter(set(tree_stats(os.getpid())) - {os.getpid()})
    begins: list[tuple[int, Moved]] = []
    tell({"idle_bytes": 0})

    def note(n_done: int) -> None:
        if n_done >= sum(cell.workload.batches[: cell.n_filling]) and not begins:
            begins.append((n_done, meter.look()))
        tell({"n_done": n_done})

    measured = run_builtin(cell.workload, directory / "streams", directory / "builtin", spark, note)
    end = meter.look()
    spark.stop()
    n_before, before = begins[0]
    n_counted = cell.workload.total_rows - n_before
    moved = [end.n_read - before.n_read, end.n_written - before.n_written]
    read, written = (each / n_counted if n_counted else None for each in moved)
    steps = measured.batches[-cell.n_measured :]
    n_tuples = sum(step.n_rows for step in steps)
    (directory / "answer").mkdir()
    files = (directory / "builtin").glob("*.parquet")
    pairs = pa.concat_tables([pq.read_table(file, columns=list(PAIR_COLUMNS)) for file in files])
    pq.write_table(cell.measured_pairs(pairs), directory / "answer" / "all.parquet")
    return {
        "cpu_us_per_tuple": 1e6 * sum(step.cpu_seconds or 0.0 for step in steps) / n_tuples,
        "us_per_tuple": 1e6 * sum(step.seconds for step in steps) / n_tuples,
        "read_per_tuple": read,
        "written_per_tuple": written,
    }
