"""A session on Spark: one streaming query for every join that queries share, one for every query that runs alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sash.errors import PlanError, ResourceError, SashError
from sash.io.sink import FileSink
from sash.plan.identity import identify
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.who_shares import Sharing, decide_sharing
from sash.runtime.callers import short_tracebacks, warn_caller
from sash.runtime.job import Job, QueryRun, Tally
from sash.runtime.jobs import Jobs, group_runs, started_below
from sash.runtime.moments import Moment, moment_us
from sash.runtime.run_lock import LockSet
from sash.spark.checkpoint import Checkpoint
from sash.spark.control import Control
from sash.spark.frame import known_stream, row_message_frame
from sash.spark.session_checks import check_session
from sash.spark.spark_run import RunningQuery
from sash.spark.spark_sql import load_relation, streaming_frames


@short_tracebacks
class SessionHandle:
    """The queries of a session while they run on Spark. To change the set, it is told the whole new one."""

    def __init__(self, frames: Mapping[str, Any], checkpoint: str, n_stages: int = 1):
        self._streams = streaming_frames(frames)
        self._spark: SparkSession = next(iter(self._streams.values())).sparkSession
        self.checkpoint = checkpoint
        """The directory that it goes on from."""
        self._n_stages = n_stages
        self._relations = {
            name: load_relation(name, frame) for name, frame in frames.items() if name not in self._streams
        }
        self._functions: Mapping[str, Callable[..., Any]] = {}
        self._running: dict[str, RunningQuery] = {}
        self.alone: Mapping[str, str] = {}
        """By query that shares no join, why it does not."""
        self.is_stopped = False
        for complaint in check_session(self._spark):
            warn_caller(complaint)
        self._locks = LockSet()
        self._locks.add([checkpoint])

    def decide(self, plans: Mapping[str, QueryPlan]) -> Sharing:
        """Who would share if these were the queries from now on."""
        return decide_sharing(plans, started=started_below(self.checkpoint), n_fragments=self._n_stages)

    def change(self, plans: Mapping[str, QueryPlan], into: Mapping[str, Any]) -> Jobs:
        """Goes on with these queries, each with a sink or a function to write to.

        What is not touched by the change runs on; a join that is goes on from its checkpoint. What cannot run is
        refused before anything is stopped.
        """
        self._refuse_own_callers()
        runs = [self._query_run(name, plan, into[name]) for name, plan in plans.items()]
        found = group_runs(runs, self.decide(plans), self.checkpoint)
        wanted = {each.checkpoint: each for each in found.all}
        unchanged = {path for path, query in self._running.items() if _is_same(query.job, wanted.get(path))}
        directories = [run.sink.path for run in runs if run.is_kept]
        self._lock_and_check(directories, [wanted[path] for path in wanted.keys() - unchanged])
        for path in self._running.keys() - unchanged:
            self._running.pop(path).stop()
        self._locks.keep([self.checkpoint, *directories])
        self._functions = {name: each for name, each in into.items() if callable(each)}
        self.alone = found.reasons
        for path, job in wanted.items():
            if path not in self._running:
                query = RunningQuery(job, self._spark, lambda name, tally: None, self._read, self._hand_over)
                query.start()
                self._running[path] = query
        return found

    def process_all_available(self) -> None:
        """Waits until all rows that are there now have been answered for, as far as no others can still come."""
        for query in self._running.values():
            query.process_all_available()

    def complete(self, stream: str | None = None, until_us: Moment | None = None) -> None:
        """Declares a stream, or all, complete up to a time, or up to the newest timestamp seen."""
        known = "" if stream is None else known_stream(stream, self._streams)
        until = None if until_us is None else moment_us(until_us)
        for query in self._running.values():
            query.complete(known, until)

    def finish(self) -> None:
        """Waits until all input has been answered for, up to its last timestamp."""
        for query in self._running.values():
            query.finish()

    def stop(self) -> None:
        """Stops all queries; a session with the same checkpoint goes on."""
        self._refuse_own_callers()
        self.is_stopped = True
        for query in self._running.values():
            query.stop()
        self._locks.keep(())

    @property
    def tallies(self) -> dict[str, Tally]:
        """What each query has done since it was last started, by name."""
        return {name: tally for query in self._running.values() for name, tally in query.tallies.items()}

    def _lock_and_check(self, directories: Sequence[str], jobs: Sequence[Job]) -> None:
        """Holds the locks of all outputs, and refuses jobs that may not go on there; then it holds what it held."""
        new = self._locks.add(directories)
        try:
            for job in jobs:
                Checkpoint(job.checkpoint).check(job)
        except BaseException:
            self._locks.drop(new)
            raise

    def _query_run(self, name: str, plan: QueryPlan, into: Any) -> QueryRun:
        handed = f"{self.checkpoint}/handed/{identify(query=name, plan=plan.fingerprint)[:24]}"
        sink = into if isinstance(into, FileSink) else FileSink(handed, "parquet")
        return QueryRun(name, plan, {}, self._relations, sink, is_kept=isinstance(into, FileSink))

    def _read(self, job: Job, n_groups: int, control: Control) -> DataFrame:
        return row_message_frame(job, self._streams, n_groups, control)

    def _hand_over(self, name: str, sink: FileSink, batch_id: int) -> None:
        """Calls a function with the rows of a batch. After a crash it may be called again with the same number."""
        directory = Path(sink.path) / f"batch={batch_id}"
        if name in self._functions and directory.exists():
            rows = self._spark.read.parquet(str(directory))
            try:
                self._functions[name](rows, batch_id)
            except SashError:
                raise
            except Exception as error:
                raise ResourceError(
                    f"the function that `{name}` hands its changes to failed in batch {batch_id}: "
                    f"{type(error).__name__}: {error}; the batch runs again when the session does"
                ) from error
            shutil.rmtree(directory)

    def _refuse_own_callers(self) -> None:
        if any(query.is_publishing_here for query in self._running.values()):
            raise PlanError(
                "a function that is handed changes cannot change or stop its session, which waits for it to return; "
                "do so afterwards"
            )


def _is_same(job: Job, wanted: Job | None) -> bool:
    return wanted is not None and wanted.plan.edition == job.plan.edition
