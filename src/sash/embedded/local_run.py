"""The queries of a session while they run in this process: fed step by step, with their changes passed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from sash.embedded.embedded_session import EmbeddedSession
from sash.embedded.shared_query import Answer
from sash.embedded.snapshot import seal, unseal
from sash.errors import PlanError
from sash.runtime.delivery import Delivery
from sash.runtime.registered import Queries, Registered, active_plans, written_runs
from sash.sql.bound_query import StreamInfo

Changes = dict[str, list[pa.Table]]


class LocalRun:
    """Runs queries. To change the set, it is told the whole new one."""

    def __init__(self, streams: Mapping[str, StreamInfo], relations: Mapping[str, pa.Table]):
        self._running = EmbeddedSession(relations)
        for name, info in streams.items():
            self._running.declare(name, info)
        self._delivery = Delivery()
        self._queries: Queries = {}
        self._postponed: list[Queries] | None = None
        """During a step: the sets of queries with which to go on when it is over. They may be asked for by a function
        that is called with changes, when the join is in the middle of its work."""

    def declare(self, stream: str, info: StreamInfo) -> None:
        """Tells of another stream, before its first row."""
        self._running.declare(stream, info)

    def change(self, queries: Queries) -> None:
        """Goes on with these queries; during a step, when it is over. Raises SourceError if the directory of one that
        is new is not, and ResourceError if another process has it.
        """
        runs = written_runs(queries)
        new = [run for run in runs if run.name not in self._delivery]
        self._delivery.claim(new, {})
        self._delivery.begin(new, {})
        self._delivery.keep(runs)
        self._queries = queries
        if self._postponed is None:
            self._become(queries)
        else:
            self._postponed.append(queries)

    def push(self, stream: str, rows: Any) -> dict[str, pa.Table]:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now, by query."""
        self._refuse_in_step()
        return self._collected(self._running.push(stream, rows))

    def advance(self, time_us: int, stream: str | None) -> dict[str, pa.Table]:
        """Declares one stream, or all, complete up to and including a time; returns the changes that are due now."""
        self._refuse_in_step()
        return self._collected(self._running.advance(time_us, stream))

    def finish(self) -> dict[str, pa.Table]:
        """Declares all streams complete up to the last timestamp seen in any of them; returns the rest."""
        self._refuse_in_step()
        return self._collected(self._running.finish())

    def run(self, batches: Iterable[tuple[str, pa.Table]]) -> dict[str, pa.Table]:
        """Takes rows of all streams to their end; returns all changes, by query. What is to be told is in `notes`."""
        changes: Changes = {}
        self._running.is_quiet = True
        for stream, rows in batches:
            self._deliver(self._running.push(stream, rows), changes)
        self._deliver(self._running.finish(), changes)
        return self._gathered(changes)

    def clock_us(self, name: str) -> int:
        """Up to and including this time the answers of a query are final."""
        self._refuse_idle(name)
        return self._running.clock_us(name)

    def partial_until_us(self, name: str) -> int | None:
        """Until when the answers of a query that was added late may lack something; None if they do not."""
        self._refuse_idle(name)
        return self._running.partial_until_us(name)

    @property
    def has_begun(self) -> bool:
        """Whether it has been fed."""
        return self._postponed is not None or any(n_read for _, n_read in self.late().values())

    def late(self) -> dict[str, tuple[int, int]]:
        """By stream, how many rows came late, and how many were read."""
        return self._running.late()

    def notes(self) -> list[str]:
        """What whoever brought the rows should be told, beside of those that are late or rejected."""
        return self._running.notes()

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return self._running.rejected

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        self._refuse_in_step()
        bookmarks = self._delivery.bookmarks()
        written = {name: (self._queries[name].identity, bookmark) for name, bookmark in bookmarks.items()}
        return seal("session", (self._running.held(), written))

    def restore(self, snapshot: bytes, queries: Queries) -> None:
        """Goes on from a snapshot with these queries. One that it knows goes on in its directory, less what was
        written into it since; other directories have to be new. What does not fit is refused before anything changes.
        """
        self._refuse_in_step()
        state, written = unseal("session", snapshot)
        runs = written_runs(queries)
        bookmarks = {
            name: bookmark
            for name, (identity, bookmark) in written.items()
            if name in queries and queries[name].identity == identity
        }
        self._delivery.claim(runs, bookmarks)
        self._queries = queries
        self._become(queries)
        self._running.hand(state)
        self._delivery.begin(runs, bookmarks)
        self._delivery.keep(runs)

    def close(self) -> None:
        """Lets go of all directories."""
        self._delivery.keep(())

    @property
    def engine(self) -> EmbeddedSession:
        """What runs, for whoever measures it."""
        return self._running

    def _become(self, queries: Queries) -> None:
        # Changes that just go back to whoever brought the rows need no schedule.
        self._running.is_prompt = any(each.into is not None and not each.is_paused for each in queries.values())
        self._running.change(active_plans(queries))

    def _collected(self, answers: Iterable[Answer]) -> dict[str, pa.Table]:
        changes: Changes = {}
        self._deliver(answers, changes)
        return self._gathered(changes)

    def _deliver(self, answers: Iterable[Answer], changes: Changes) -> None:
        """Passes the changes of a step on as they come, and collects them. The step is brought to its end also if a
        function or a directory fails that takes them: the queries are whole then, and can go on.
        """
        served, failures, postponed = self._queries, [], []
        self._postponed = postponed
        try:
            for name, table in answers:
                if self._queries.get(name) is served[name]:
                    changes.setdefault(name, []).append(table)
                    self._pass_on(served[name], table, failures)
        finally:
            self._postponed = None
        for queries in postponed:
            self._become(queries)
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

    def _refuse_in_step(self) -> None:
        if self._postponed is not None:
            raise PlanError(
                "a function that is called with changes cannot drive the session, as the step that called it is not "
                "over; do it when that has returned"
            )

    def _refuse_idle(self, name: str) -> None:
        if name not in self._running:
            when = "is paused; resume it first" if self._queries[name].is_paused else "begins when this step is over"
            raise PlanError(f"the query `{name}` {when}")
