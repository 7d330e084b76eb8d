"""Sash, measured: on Spark, run as `sash run` runs it, and in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sash.errors import InternalError
from sash.lab.bench.bench_session import bench_session, unload_state
from sash.lab.bench.cpu_time import CpuMarks
from sash.lab.bench.join_texts import sash_script
from sash.lab.bench.measure import (
    BatchMeasure,
    Measured,
    Note,
    batch_seconds,
    checkpoint_bytes,
    read_progress,
    store_bytes,
)
from sash.lab.workloads.join_streams import FILES_PER_BATCH, JoinWorkload
from sash.runtime.job import Job, QueryRun, Tally
from sash.runtime.script import bind_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def run_sash(workload: JoinWorkload, files: Path, output: Path, spark: SparkSession, note: Note) -> Measured:
    """Runs the join on Spark over the files, and measures every batch."""
    return measure_run(Job.alone(bind_workload(workload, files, output)), workload, spark, note)


def measure_run(job: Job, workload: JoinWorkload, spark: SparkSession, note: Note) -> Measured:
    """Runs a job on Spark over the workload's files, and measures every batch."""
    from sash.spark.frame import read_files
    from sash.spark.spark_run import RunningQuery

    session = bench_session(spark, workload)
    tallies = _Tallies(job, note)
    started = time.monotonic()
    running = RunningQuery(job, session, tallies.take, read_files(session, FILES_PER_BATCH))
    try:
        running.start()
        query = next(query for query in session.streams.active if query.name == job.name)
        running.finish()
        wall_seconds, cpu_seconds = time.monotonic() - started, tallies.cpu.seconds()
        progress = read_progress(query.recentProgress)
    finally:
        running.stop()
        unload_state(session)
    by_batch, background = checkpoint_bytes(Path(job.checkpoint) / "spark")
    batches = [
        tallies.measure(number, n_rows, progress[number], by_batch[number])
        for number, n_rows in enumerate(workload.batches)
    ]
    return Measured(batches, sum(map(batch_seconds, progress.values())), wall_seconds, background, cpu_seconds)


def run_sash_embedded(
    workload: JoinWorkload, files: Path, note: Note, see: Callable[[pa.Table], None] = lambda changes: None
) -> Measured:
    """Pushes the files of one batch after the other through a query in this process, and measures that.

    Reading the files counts. The answer is not written, and there is no checkpoint. `see` is given the changes; what it
    does with them does not count.
    """
    from sash.embedded.query import Query

    query, watch = Query(bind_workload(workload, files, files / "unused").plan, {}), WaitTimer()
    batches: list[BatchMeasure] = []
    started = time.monotonic()
    for number, n_rows in enumerate(workload.batches):
        n_changes, before = 0, (watch.seconds, watch.cpu_seconds)
        for changes in watch.each(push_batch(query.push, workload, files, number)):
            n_changes += changes.num_rows
            see(changes)
        seconds, cpu_seconds = watch.seconds - before[0], watch.cpu_seconds - before[1]
        held = query.n_state_rows, query.n_state_bytes
        batches.append(BatchMeasure(n_rows, seconds, None, *held, None, n_changes, cpu_seconds))
        note(sum(batch.n_rows for batch in batches))
    for changes in watch.each(query.finish() for _ in range(1)):
        see(changes)
    return Measured(batches, watch.seconds, time.monotonic() - started, None, watch.cpu_seconds)


def bind_workload(workload: JoinWorkload, files: Path, output: Path) -> QueryRun:
    """The query, ready to run over the files."""
    (run,) = bind_script(sash_script(workload, files.absolute(), output.absolute())).runs()
    return run


def push_batch(push: Callable[[str, pa.Table], T], workload: JoinWorkload, files: Path, number: int) -> Iterator[T]:
    """What the files of a batch bring, one after the other."""
    names = sorted(path.name for path in (files / workload.names[0]).glob("*.parquet"))
    for name in names[number * FILES_PER_BATCH : (number + 1) * FILES_PER_BATCH]:
        for stream in workload.names:
            yield push(stream, pq.read_table(files / stream / name))


class WaitTimer:
    """Runs only while the next of some changes is waited for."""

    def __init__(self):
        self.seconds = self.cpu_seconds = 0.0

    def each(self, changes: Iterator[T]) -> Iterator[T]:
        while True:
            began, cpu_began = time.monotonic(), time.process_time()
            found = next(changes, None)
            self.seconds += time.monotonic() - began
            self.cpu_seconds += time.process_time() - cpu_began
            if found is None:
                return
            yield found


class _Tallies:
    """What Sash reported after every batch, and how long the list of hashes was by then.

    Queries that share a join report one after the other: each what all of them read and keep, and its own changes.
    """

    def __init__(self, job: Job, note: Note):
        self._n_changes = dict.fromkeys((each.name for each in job.members), 0)
        self._last = job.members[-1].name
        self._manifest = Path(job.checkpoint) / "manifest.jsonl"
        self._note = note
        self._tallies = [Tally()]
        self._manifest_bytes = [0]
        self.cpu = CpuMarks()

    def take(self, name: str, tally: Tally) -> None:
        self._n_changes[name] = tally.n_changes
        if name != self._last:
            return
        self.cpu.mark(len(self._tallies))
        self._tallies.append(replace(tally, n_changes=sum(self._n_changes.values())))
        self._manifest_bytes.append(self._manifest.stat().st_size if self._manifest.exists() else 0)
        self._note(tally.n_read)

    def measure(self, number: int, n_rows: int, event: dict[str, Any], n_bytes: int) -> BatchMeasure:
        before, after = self._tallies[number : number + 2]
        if after.n_accepted - before.n_accepted != n_rows:
            raise InternalError(f"batch {number} should have {n_rows} rows in time, but Sash tells of {after}")
        return BatchMeasure(
            n_rows,
            batch_seconds(event),
            n_bytes + self._manifest_bytes[number + 1] - self._manifest_bytes[number],
            after.n_state_rows,
            after.n_state_bytes,
            store_bytes(event),
            after.n_changes - before.n_changes,
            self.cpu.seconds_of(number),
        )
