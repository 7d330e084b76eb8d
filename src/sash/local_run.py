"""The queries of a session while they run in this process: fed step by step, with their changes passed on."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from sash.delivery import Delivery, Sink
from sash.embedded.session import EmbeddedSession
from sash.embedded.shared import Answer
from sash.errors import PlanError
from sash.plan.physical import Plan
from sash.sources.sink import FileSink
from sash.sql.query import StreamInfo

Changes = dict[str, list[pa.Table]]


@dataclass(frozen=True, slots=True)
class Registered:
    """A query of a session."""

    name: str
    text: str
    plan: Plan
    into: Sink
    is_paused: bool = False

    @property
    def identity(self) -> tuple[str, Sink]:
        """By which a snapshot knows it, besides by its name."""
        return self.plan.fingerprint, self.into


Queries = Mapping[str, Registered]


def active_plans(queries: Queries) -> dict[str, Plan]:
    """The plans of queries that are not paused."""
    return {each.name: each.plan for each in queries.values() if not each.is_paused}


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
        is new is not.
        """
        for name in queries.keys() - self._queries.keys():
            self._delivery.claim(queries[name].into)
        self._queries = queries
        if self._postponed is None:
            self._become(queries)
        else:
            self._postponed.append(queries)

    def push(self, stream: str, rows: pa.Table) -> dict[str, pa.Table]:
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
        """Takes rows of all streams to their end; returns all changes, by query."""
        changes: Changes = {}
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

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        self._refuse_in_step()
        written = {
            each.name: (*each.identity, self._delivery.n_batches(each.into))
            for each in self._queries.values()
            if isinstance(each.into, FileSink)
        }
        return pickle.dumps((self._running.snapshot(), written))

    def restore(self, snapshot: bytes, queries: Queries) -> None:
        """Goes on from a snapshot with these queries. One that it knows goes on in its directory, less what was
        written into it since; other directories have to be new.
        """
        self._refuse_in_step()
        state, written = pickle.loads(snapshot)
        goes_on = {name for name, each in queries.items() if written.get(name, ())[:2] == each.identity}
        for name in queries.keys() - goes_on - self._queries.keys():
            self._delivery.claim(queries[name].into)
        self._queries = queries
        self._become(queries)
        self._running.restore(state)
        for _, sink, n_batches in (written[name] for name in goes_on):
            self._delivery.rewind(sink, n_batches)

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
            self._delivery.pass_on(query.into, changes)
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
