"""`sash bench shared` on Spark: all queries sharing, then each alone with a checkpoint of its own, over the same files.

They run one after the other on one cluster. Before that, both ways run once without being measured, so that neither
pays for a cold Java machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sash.io.sink import FileSink
from sash.lab.bench.agreement import Checksum, check_agreement
from sash.lab.bench.embedded_join import SYSTEM_COLUMNS
from sash.lab.bench.measure import Measured
from sash.lab.bench.sash_engine import measure_run
from sash.lab.bench.shared_queries import SharedQueries
from sash.lab.bench.sharing_gain import SharingOutcome, shared_facts
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import write_workload
from sash.runtime.job import Job, QueryRun
from sash.runtime.jobs import decide_script, group_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bench_shared_spark(queries: SharedQueries, directory: Path, spark: SparkSession, stages: Stages) -> dict[str, Any]:
    """Writes the streams below `directory` and runs all queries on Spark; for JSON.

    Raises `MismatchError` if a query gives other rows in company than alone.
    """
    files, workload = directory / "streams", queries.workload
    with stages.stage("writing the streams", workload.total_rows) as note:
        write_workload(workload, files, note)
    runs = list(queries.runs(files).values())

    def measure(title: str, job: Job) -> Measured:
        with stages.stage(title, workload.total_rows) as note:
            return measure_run(job, workload, spark, note)

    measure("warming up, alone", Job.alone(_into(runs[-1], directory / "warm" / "alone")))
    measure("warming up, sharing", shared_run(runs, directory / "warm" / "shared"))
    shared = measure(f"{len(runs)} queries sharing", shared_run(runs, directory / "shared"))
    separate = {run.name: measure(f"{run.name} alone", Job.alone(_into(run, directory / "alone"))) for run in runs}
    with stages.stage("comparing the answers", None):
        answers = {run.name: _compare(queries, directory, run.name) for run in runs}
    return shared_facts(
        queries,
        SharingOutcome(shared, answers),
        {name: SharingOutcome(each, {name: answers[name]}) for name, each in separate.items()},
    )


def shared_run(runs: Sequence[QueryRun], directory: Path) -> Job:
    """All queries, sharing their join, with their answers and their checkpoint below a directory."""
    placed = [_into(run, directory) for run in runs]
    sharing = decide_script({run.name: run.plan for run in placed}, None)
    (shared,) = group_runs(placed, sharing, str((directory / "checkpoint").absolute())).all
    return shared


def _into(run: QueryRun, directory: Path) -> QueryRun:
    return replace(run, sink=FileSink(str((directory / run.name).absolute()), "parquet"))


def _compare(queries: SharedQueries, directory: Path, name: str) -> Checksum:
    outputs = {way: sorted((directory / way / name).glob("batch=*/*.parquet")) for way in ("shared", "alone")}
    return check_agreement(outputs, {**queries.columns(), **SYSTEM_COLUMNS})
