"""`sash bench nexmark`: every query of Nexmark over the same files, each for itself.

Sash runs in this process and on Spark, as `sash run` does, and both must write the same changes. Spark runs those that
it can over streams, in its own SQL, from Parquet to Parquet with a checkpoint. Where it has to give the same rows, they
are compared as well; where it tells of windows only when they are over, they cannot be.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from sash.embedded.run_to_end import run_files
from sash.errors import MismatchError, PlanError, suggest
from sash.lab.bench.nexmark_queries import BUILTIN, QUERIES, SAME_ROWS
from sash.lab.bench.stages import Stages
from sash.lab.workloads.batches import BatchCut
from sash.lab.workloads.nexmark import Nexmark
from sash.lab.workloads.recorder import Recorder, record
from sash.lab.workloads.workload import Workload
from sash.oracle.answers import SYSTEM
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLES = {"embedded": "Sash in this process", "spark": "Sash on Spark", "builtin": "Spark's own"}
N_FILES = 10
"""Of each stream; on Spark a batch takes one of each."""


@dataclass(frozen=True, slots=True)
class NexmarkRun:
    """What a query took on one engine. `n_changes`: rows that were written."""

    seconds: float
    n_read: int
    n_changes: int


def parse_queries(text: str) -> tuple[str, ...]:
    """The queries that a user names, or all."""
    named = [name.strip().lower() for name in text.split(",")] if text else list(QUERIES)
    for name in named:
        if name not in QUERIES:
            raise PlanError(f"there is no query `{name}`; {suggest(name, QUERIES)}")
    return tuple(dict.fromkeys(named))


def bench_nexmark(
    workload: Nexmark, queries: Sequence[str], directory: Path, stages: Stages, spark: SparkSession | None
) -> dict[str, Any]:
    """Writes the streams below `directory` and runs the queries over them; on Spark too, if there is a session.

    Raises `MismatchError` if engines that have to agree do not.
    """
    files = directory / "streams"
    with stages.stage("writing the streams", None):
        cut = BatchCut(every_us=-(-workload.duration_us // N_FILES))
        record(workload, Recorder(files, "parquet"), cut, lambda batch: None)
    told: dict[str, dict[str, Any]] = {}
    for name in queries:
        with stages.stage(name, None):
            told[name] = _run_everywhere(name, workload, directory, spark)
    return {"workload": asdict(workload), "queries": told}


def _run_everywhere(name: str, workload: Nexmark, directory: Path, spark: SparkSession | None) -> dict[str, Any]:
    script = (directory / "streams" / "streams.sql").read_text()
    run = _bind(name, script, directory / "embedded")
    changes, rows = run.plan.schema, pa.schema(field for field in run.plan.schema if field.name not in SYSTEM)
    runs, places = {"embedded": _run_embedded(run)}, {"embedded": directory / "embedded" / name}
    if spark is not None:
        runs["spark"] = _run_spark(_bind(name, script, directory / "spark"), spark)
        places["spark"] = directory / "spark" / name
    _require_same(name, {engine: _digest(place, changes) for engine, place in places.items()})
    if spark is not None and name in BUILTIN:
        places["builtin"] = directory / "builtin" / name
        runs["builtin"] = _run_builtin(name, workload, directory / "streams", places["builtin"], spark)
        if name in SAME_ROWS:
            _require_same(name, {engine: _digest(place, rows) for engine, place in places.items()})
    return {engine: asdict(each) for engine, each in runs.items()}


def _bind(name: str, script: str, output: Path) -> QueryRun:
    """One query over the streams that the script declares, instead of its own."""
    declarations = script[: script.index("CREATE QUERY")]
    into = str(output / name).replace("'", "''")
    text = f"{declarations}CREATE QUERY {name} AS {QUERIES[name]} INTO '{into}' FORMAT parquet;"
    (run,) = bind_script(text).runs()
    return run


def _run_embedded(run: QueryRun) -> NexmarkRun:
    started = time.monotonic()
    tally = run_files(Job.alone(run), lambda name, tally: None)[run.name]
    return NexmarkRun(time.monotonic() - started, tally.n_read, tally.n_changes)


def _run_spark(run: QueryRun, spark: SparkSession) -> NexmarkRun:
    from sash.spark.spark_run import run_on_spark

    started = time.monotonic()
    tally = run_on_spark([Job.alone(run)], spark, lambda name, tally: None, files_per_batch=1)[run.name]
    return NexmarkRun(time.monotonic() - started, tally.n_read, tally.n_changes)


def _run_builtin(name: str, workload: Workload, files: Path, output: Path, spark: SparkSession) -> NexmarkRun:
    session = _new_session(spark)
    for stream in workload.streams:
        schema = session.read.parquet(str(files / stream.name)).schema
        reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(files / stream.name))
        frame.withWatermark(stream.time, "0 seconds").createOrReplaceTempView(stream.name)
    for table in workload.tables:
        session.read.csv(str(files / f"{table}.csv"), header=True).createOrReplaceTempView(table)
    started = time.monotonic()
    answer = session.sql(BUILTIN[name])
    numbered = answer.toDF(*(f"c{number}" for number in range(len(answer.columns))))
    writer = numbered.writeStream.format("parquet").trigger(availableNow=True)
    query = writer.options(path=str(output), checkpointLocation=f"{output}.checkpoint").start()
    query.awaitTermination()
    seconds = time.monotonic() - started
    n_read = sum(progress["numInputRows"] for progress in query.recentProgress)
    return NexmarkRun(seconds, n_read, session.read.parquet(str(output)).count())


def _new_session(spark: SparkSession) -> SparkSession:
    """A session of its own, so that settings and views stay here."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    # Spark's default is an outdated type that takes longer to write.
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # A watermark must be on times with a zone.
    session.conf.set("spark.sql.parquet.inferTimestampNTZ.enabled", "false")
    return session


def _digest(output: Path, schema: pa.Schema) -> str:
    """The same for the same rows in any order, whatever engine wrote them, and however it calls the columns."""
    files = [str(path) for path in output.rglob("*.parquet")]
    if not files:
        return "no rows"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.read_parquet(files, hive_partitioning=False)
        hashed = ", ".join(_plain(name, field.type) for name, field in zip(rows.columns, schema))
        found = rows.aggregate(f"count(*), sum(hash({hashed})::HUGEINT)").fetchall()[0]
    return f"{found[0]:,} rows, checksum {found[1] or 0:x}"


def _plain(name: str, dtype: pa.DataType) -> str:
    """Times as microseconds and numbers as floats, as writers differ in how they mark them."""
    quoted = '"' + name.replace('"', '""') + '"'
    if pa.types.is_timestamp(dtype):
        return f"epoch_us({quoted})"
    return quoted if pa.types.is_string(dtype) else f"CAST({quoted} AS DOUBLE)"


def _require_same(name: str, digests: dict[str, str]) -> None:
    if len(set(digests.values())) > 1:
        told = ", ".join(f"`{engine}` gives {digest}" for engine, digest in digests.items())
        raise MismatchError(f"the answers to {name} differ: {told}")
