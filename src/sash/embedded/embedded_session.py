"""What runs the queries of a session in this process: fed step by step, with their changes passed on as they come.

Queries with the same join share it, the others run side by side. To change the set, it is told the whole new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from sash.embedded.running_job import Answer, Running, RunningJob
from sash.embedded.session_answers import SessionAnswers, states_for
from sash.embedded.session_streams import SessionStreams
from sash.embedded.snapshot import seal, unseal
from sash.errors import PlanError, ResourceError
from sash.operators.stream_clock import StreamClock, known_clock
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.who_shares import decide_sharing
from sash.runtime.delivery import Delivery
from sash.runtime.moments import Moment
from sash.runtime.registered import Queries, Registered, active_plans, written_runs
from sash.sql.catalog import StreamInfo
from sash.store.batch import BEGINNING, NEVER
from sash.store.changes_reading import tell_final
from sash.store.memory_budget import MemoryBudget

Changes = dict[str, list[pa.Table]]
JobKey = tuple[str, str]
"""What a job is known by from one set of queries to the next: its plan's fingerprint, and of a query alone its name."""


class EmbeddedSession:
    """Runs queries."""

    def __init__(
        self,
        streams: Mapping[str, StreamInfo],
        relations: Mapping[str, pa.Table],
        budget: MemoryBudget | None = None,
    ):
        """`budget` is what all queries together may take; None: memory is not limited."""
        self._budget = budget
        self._streams = SessionStreams(streams)
        self._relations = relations
        self._jobs: dict[JobKey, RunningJob] = {}
        self._begun_us: dict[str, int] = {}
        """By query that found no running job: the newest time that had been seen of its streams."""
        self._answers = SessionAnswers()
        self._delivery = Delivery()
        self._queries: Queries = {}
        self._is_in_step = False
        self._postponed: list[Queries] = []
        """The sets of queries with which to go on when a step is over, or as soon as there is room. They may be asked
        for by a function that is called with changes, when the join is in the middle of its work."""

    def declare(self, stream: str, info: StreamInfo) -> None:
        """Tells of another stream, before its first row."""
        self._streams.declare(stream, info)

    def change(self, queries: Queries) -> None:
        """Goes on with these queries; during a step, when it is over. Raises SourceError if the directory of one that
        is new is not, and ResourceError if another process has it, or if there is no room, also for what was asked for
        before; then all is as it was.
        """
        if not self._is_in_step:
            self._settle()
        runs = written_runs(queries)
        new = [run for run in runs if run.name not in self._delivery]
        self._delivery.claim(new, {})
        try:
            become = partial(self._postponed.append, queries) if self._is_in_step else self._prepared(queries)
        except BaseException:
            self._delivery.keep(written_runs(self._queries))
            raise
        self._delivery.begin(new, {})
        self._delivery.keep(runs)
        self._queries = queries
        become()

    def push(self, stream: str, rows: Any) -> dict[str, pa.Table]:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now, by query."""
        self._settle()
        for job in self._jobs.values():
            job.require_room()
        return self._collected(self._push(stream, self._streams.take(stream, rows)))

    def advance(self, time_us: int, stream: str | None) -> dict[str, pa.Table]:
        """Declares one stream, or all, complete up to and including a time; returns the changes that are due now."""
        self._settle()
        self._streams.complete(time_us, stream)
        return self._collected(answer for job in self._jobs_over(stream) for answer in job.advance(time_us, stream))

    def finish(self) -> dict[str, pa.Table]:
        """Declares all streams complete up to the last timestamp seen in any of them; returns the rest."""
        self._settle()
        return self._collected(self._finish())

    def run(self, batches: Iterable[tuple[str, pa.Table]]) -> dict[str, pa.Table]:
        """Takes rows of all streams to their end; returns all changes, by query. What is to be told is in `notes`."""
        changes: Changes = {}
        self._streams.is_quiet = True
        for stream, rows in batches:
            self._settle()
            self._deliver(self._push(stream, self._streams.take(stream, rows)), changes)
        self._settle()
        self._deliver(self._finish(), changes)
        self._settle()
        return {
            name: tell_final(table, known_clock(self.clock_us(name))) for name, table in self._gathered(changes).items()
        }

    def answer(self, name: str, at: Moment | None) -> pa.Table:
        """The answer of a query at an instant, or at its clock; it is one whose answer is kept."""
        self._refuse_in_step()
        return self._answers.answer(name, at, self.clock_us(name))

    def clock_us(self, name: str) -> int:
        """Up to and including this time the answers of a query are final."""
        return self._job_of(name).intake.clock

    def partial_until_us(self, name: str) -> int | None:
        """Until when the answers of a query that was added late may lack something; None if they do not."""
        job, begun_us = self._job_of(name), self._begun_us.get(name, BEGINNING)
        if begun_us > BEGINNING:
            until = _full_after_us(job.plan.queries[name], begun_us)
        else:
            until = job.partial_until_us(name)
        return until if until is not None and until > job.intake.clock else None

    @property
    def has_begun(self) -> bool:
        """Whether it has been fed."""
        return self._is_in_step or any(n_read for _, n_read in self.late().values())

    def late(self) -> dict[str, tuple[int, int]]:
        """By stream, how many rows came late, and how many were read."""
        return self._streams.late()

    def notes(self) -> list[str]:
        """What whoever brought the rows should be told, beside of those that are late or rejected."""
        return self._streams.notes()

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return self._streams.rejected

    @property
    def jobs(self) -> list[RunningJob]:
        """What runs, for whoever measures it."""
        return list(self._jobs.values())

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        self._settle()
        bookmarks = self._delivery.bookmarks()
        written = {name: (self._queries[name].identity, bookmark) for name, bookmark in bookmarks.items()}
        jobs = {key: job.export_state() for key, job in self._jobs.items()}
        kept = self._answers.export_state(self._queries)
        return seal("session", (jobs, self._begun_us, self._streams.export_state(), written, kept))

    def restore(self, snapshot: bytes, queries: Queries) -> None:
        """Goes on from a snapshot with these queries. One that it knows goes on in its directory, less what was
        written into it since; other directories have to be new. What does not fit is refused before anything changes.
        """
        self._refuse_in_step()
        jobs, begun_us, streams, written, kept = unseal("session", snapshot)
        kept = states_for(kept, queries)
        runs = written_runs(queries)
        bookmarks = {
            name: bookmark
            for name, (identity, bookmark) in written.items()
            if name in queries and queries[name].identity == identity
        }
        self._streams.refuse_unknown(streams)
        self._delivery.claim(runs, bookmarks)
        self._queries = queries
        self._answers = SessionAnswers()
        self._restore_jobs(jobs, begun_us, streams)
        self._answers.import_state(kept)
        self._delivery.begin(runs, bookmarks)
        self._delivery.keep(runs)

    def close(self) -> None:
        """Lets go of all directories."""
        self._delivery.keep(())

    def _prepared(self, queries: Queries) -> Callable[[], None]:
        """What goes on with these queries when it is called; nothing has changed before. What is new begins with what
        is in its windows, as far as that was kept.
        """
        plans, clocks = active_plans(queries), self._clocks()
        # Changes that just go back to whoever brought the rows need not be served in any order.
        is_prompt = any(each.into is not None and not each.is_paused for each in queries.values())
        jobs: dict[JobKey, RunningJob] = {}
        successors: list[tuple[RunningJob, Running]] = []
        fresh: set[str] = set()
        for plan in decide_sharing(plans).plans:
            job = self._jobs.get(_key_of(plan))
            if job is None:
                job = RunningJob(plan, self._relations, *self._streams.progress(plan.streams, clocks), self._budget)
                fresh |= plan.queries.keys()
            elif plan.edition != job.plan.edition:
                successors.append((job, job.successor(plan)))
            jobs[_key_of(plan)] = job
        begun = {name: max(clocks[stream].newest_us for stream in plans[name].streams) for name in fresh}

        def become() -> None:
            for job, successor in successors:
                job.go_on(successor)
            for job in jobs.values():
                job.is_prompt = is_prompt
            self._jobs = jobs
            self._postponed = []
            self._begun_us = {name: us for name, us in (self._begun_us | begun).items() if name in plans}
            self._answers.become(queries)

        return become

    def _restore_jobs(
        self, jobs: Mapping[JobKey, Any], begun_us: Mapping[str, int], streams: Mapping[str, Any]
    ) -> None:
        """Goes on with what the jobs of a snapshot held; queries that it does not know begin now."""
        self._prepared(self._queries)()
        self._jobs = {key: job for key, job in self._jobs.items() if key in jobs}
        for key, job in self._jobs.items():
            job.import_state(jobs[key])
        goes_on = {name for job in self._jobs.values() for name in job.plan.queries}
        self._begun_us = {name: us for name, us in begun_us.items() if name in goes_on}
        self._streams.import_state(streams)
        self._prepared(self._queries)()

    def _push(self, stream: str, rows: pa.Table) -> Iterator[Answer]:
        for job in self._jobs_over(stream):
            yield from job.push(stream, rows)

    def _finish(self) -> Iterator[Answer]:
        self._streams.believe()
        for job in self._jobs.values():
            yield from job.finish()

    def _jobs_over(self, stream: str | None) -> list[RunningJob]:
        return [job for job in self._jobs.values() if stream is None or stream in job.plan.streams]

    def _clocks(self) -> dict[str, StreamClock]:
        return self._streams.clocks(job.intake.clocks for job in self._jobs.values())

    def _collected(self, answers: Iterable[Answer]) -> dict[str, pa.Table]:
        changes: Changes = {}
        self._deliver(answers, changes)
        return self._gathered(changes)

    def _deliver(self, answers: Iterable[Answer], changes: Changes) -> None:
        """Passes the changes of a step on as they come, and collects them. The step is brought to its end also if a
        function or a directory fails that takes them: the queries are whole then, and can go on.
        """
        served, failures = self._queries, []
        self._is_in_step = True
        try:
            for name, table in answers:
                if self._queries.get(name) is served[name]:
                    changes.setdefault(name, []).append(table)
                    self._answers.take(name, table)
                    self._pass_on(served[name], table, failures)
            self._answers.go_on(self.clock_us)
        finally:
            self._is_in_step = False
        with suppress(ResourceError):  # the next step will say so, before it takes anything
            self._settle()
        for name in [name for name in changes if not self._is_still(served.get(name))]:
            del changes[name]
        if failures:
            raise failures[0]

    def _pass_on(self, query: Registered, changes: pa.Table, failures: list[Exception]) -> None:
        try:
            self._delivery.pass_on(query.name, query.into, changes)
        except Exception as failure:
            failures.append(failure)

    def _is_still(self, query: Registered | None) -> bool:
        """Whether a query is there, perhaps paused, and not another one of its name."""
        return query is not None and query.name in self._queries and self._queries[query.name].plan is query.plan

    def _gathered(self, changes: Changes) -> dict[str, pa.Table]:
        """What every query answered; a table without rows if nothing."""
        return {
            name: pa.concat_tables([plan.schema.empty_table(), *changes.get(name, [])]).combine_chunks()
            for name, plan in active_plans(self._queries).items()
        }

    def _settle(self) -> None:
        """Before a step: goes on with the sets of queries that were asked for during the last one, one after the other.
        Raises ResourceError if there is no room.
        """
        self._refuse_in_step()
        for number, queries in enumerate(postponed := list(self._postponed), 1):
            self._prepared(queries)()
            self._postponed = postponed[number:]

    def _refuse_in_step(self) -> None:
        if self._is_in_step:
            raise PlanError(
                "a function that is called with changes cannot drive the session, as the step that called it is not "
                "over; do it when that has returned"
            )

    def _job_of(self, name: str) -> RunningJob:
        job = next((job for job in self._jobs.values() if name in job.plan.queries), None)
        if job is None:
            begins = "begins when this step is over" if self._is_in_step else "begins with the next step"
            when = "is paused; resume it first" if self._queries[name].is_paused else begins
            raise PlanError(f"the query `{name}` {when}")
        return job


def _key_of(plan: Plan) -> JobKey:
    return plan.fingerprint, "" if plan.trunk is not None else next(iter(plan.queries))


def _full_after_us(plan: QueryPlan, begun_us: int) -> int:
    """When the windows of a query that began at a time are full; of windows that are not of time nobody knows."""
    lives = [slot.ingest.life_us for slot in plan.slots]
    return NEVER if None in lives else begun_us + max(life for life in lives if life is not None)
