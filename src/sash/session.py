"""`sash.Session`: many queries over the same streams. Those with the same join share it.

    session = sash.Session()
    session.stream("temperature", temperature, time="ts")
    session.stream("humidity", humidity, time="ts")
    session.query("hot", "SELECT … WINDOW 1 MINUTE")
    session.query("humid", "SELECT … WINDOW 1 HOUR")
    changes = session.run()

Every query gets exactly what it would get alone. Queries may be added, dropped, paused and resumed while it runs.
"""

from __future__ import annotations

import os
import pickle
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sash.delivery import Delivery, Into, Sink, open_sink, place_of
from sash.embedded.run import interleaved
from sash.embedded.session import EmbeddedSession
from sash.embedded.shared import Answer
from sash.errors import BindError, PlanError, SashWarning, suggest
from sash.frames import Relation, Stream, declare, is_spark, normalised, stream, table_catalog, to_arrow
from sash.plan.describe_sharing import explain_sharing
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.plan.shared_plan import check_sharing
from sash.script import DEFAULT_OUTPUT
from sash.sources.sink import FileSink
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.sql.query import Catalog, RelationInfo, StreamInfo


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


class Session:
    """Streams, relations, and queries over them."""

    def __init__(self) -> None:
        self._frames: dict[str, Any] = {}
        self._queries: dict[str, Registered] = {}
        self._embedded: EmbeddedSession | None = None
        self._handle: Any = None
        """What runs on Spark."""
        self._delivery = Delivery()
        self._postponed: list[dict[str, Plan]] | None = None
        """During a step: the sets of queries with which to go on when it is over. They may be asked for by a function
        that is called with changes, when the join is in the middle of its work."""

    def stream(self, name: str, frame: Any, **declaration: Any) -> None:
        """Registers a stream. `declaration` is what `sash.stream` takes: time, slack, tie, late, rate, distinct.

        To feed it batch by batch with `push`, a schema or an empty table will do.
        """
        self._register(name, stream(frame, **declaration))

    def relation(self, name: str, frame: Any) -> None:
        """Registers a relation: a frame at rest, that joins every tuple at any time."""
        self._register(name, Relation(frame))

    def query(self, name: str, text: str, into: Into = None, format: str = "parquet") -> None:
        """Registers a query; if the session runs, it begins now, with what is in its windows.

        `into` is a directory for its changes, which has to be its own, or a function that is called with them as they
        come: with an Arrow table, or on Spark with a DataFrame and the number of the batch. Such a function may itself
        add, drop, pause and resume queries; that takes effect when the step is over that called it.
        """
        if name in self._queries:
            raise PlanError(f"there is a query `{name}` already; drop it first, or give this one another name")
        if not re.fullmatch(r"[\w-]+", name):
            raise PlanError(f"`{name}` cannot name a query; use letters, digits, underscores and hyphens")
        new = Registered(name, text, self._plan(text), self._sink(name, into, format))
        if self._embedded is not None:
            self._delivery.claim(new.into)
        self._become(self._queries | {name: new})

    def drop(self, name: str) -> None:
        """Forgets a query, and frees what was kept for it alone."""
        self._known(name)
        self._become({each: query for each, query in self._queries.items() if each != name})

    def pause(self, name: str) -> None:
        """Lets a query rest: it costs nothing and answers nothing, until it is resumed."""
        self._set_paused(name, True)

    def resume(self, name: str) -> None:
        """Lets a query that was paused begin again, as if it had been added now."""
        self._set_paused(name, False)

    def explain(self) -> str:
        """Which queries share which join, how that runs, and which run alone and why."""
        return explain_sharing(self._active(), self._is_spark)

    def run(self, checkpoint: str | os.PathLike | None = None) -> Any:
        """Runs all queries.

        Over Arrow, pandas or Polars frames: to their end, and returns the changes of each query by name. Over Spark
        streams: starts them and returns a handle; `checkpoint` is a directory from which a later session goes on, also
        with other queries.
        """
        if not self._queries:
            raise PlanError("the session has no query; register one with session.query(name, text)")
        if self._is_spark:
            return self._run_on_spark(checkpoint)
        if checkpoint is not None:
            raise PlanError("`checkpoint` is for Spark streams; in this process, see session.snapshot()")
        self._refuse_in_step()
        catalog, tables, _ = table_catalog(self._frames)
        streams = {name: info for name, info in catalog.items() if isinstance(info, StreamInfo)}
        running = self._embedded = self._start_anew()
        changes: dict[str, list[pa.Table]] = {}
        try:
            for name, part in interleaved(streams, tables):
                self._deliver(running.push(name, part), changes)
            self._deliver(running.finish(), changes)
        finally:
            self._embedded = None
        self._warn_of_late_rows(running)
        return self._gathered(changes)

    def push(self, stream: str, rows: Any) -> dict[str, pa.Table]:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now, by query."""
        running, known = self._between_steps(), self._known_stream(stream)
        return self._collected(running.push(known, normalised(to_arrow(rows, stream))))

    def advance(self, time_us: int, stream: str | None = None) -> dict[str, pa.Table]:
        """Declares one stream, or all, complete up to and including a time; returns the changes that are due now."""
        running, known = self._between_steps(), None if stream is None else self._known_stream(stream)
        return self._collected(running.advance(time_us, known))

    def finish(self) -> dict[str, pa.Table]:
        """Declares all streams complete up to the last timestamp seen in any of them; returns the rest."""
        return self._collected(self._between_steps().finish())

    def clock_us(self, name: str) -> int:
        """Up to and including this time the answers of a query are final."""
        return self._running_with(self._known(name)).clock_us(name)

    def partial_until_us(self, name: str) -> int | None:
        """Until when the answers of a query that was added late may lack something; None if they do not."""
        self._known(name)
        if self._handle is not None:
            tally = self._handle.tallies.get(name)
            return None if tally is None else tally.partial_until_us
        return self._running_with(name).partial_until_us(name)

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process, with these or other queries; see `restore`."""
        state = self._between_steps().snapshot()
        written = {
            each.name: (*each.identity, self._delivery.n_batches(each.into))
            for each in self._queries.values()
            if isinstance(each.into, FileSink)
        }
        return pickle.dumps((state, written))

    def restore(self, snapshot: bytes) -> None:
        """Goes on from a snapshot of a session with the same streams.

        A query that was there goes on in its directory: what was written into it after the snapshot was taken is
        removed, as the rows that come now bring it again. Other queries begin now, and so do their directories.
        """
        self._refuse_in_step()
        self._refuse_spark()
        state, written = pickle.loads(snapshot)
        goes_on = {each.name for each in self._queries.values() if written.get(each.name, ())[:2] == each.identity}
        for each in self._queries.values():
            if each.name not in goes_on and not self._delivery.has(each.into):
                self._delivery.claim(each.into)
        running = self._embedded or self._start()
        running.restore(state)
        for _, sink, n_batches in (written[name] for name in goes_on):
            self._delivery.rewind(sink, n_batches)
        self._embedded = running

    @property
    def _is_prompt(self) -> bool:
        """Whether changes go somewhere as they come, and not just back to whoever brought the rows."""
        return any(each.into is not None and not each.is_paused for each in self._queries.values())

    @property
    def _is_spark(self) -> bool:
        return any(is_spark(frame) for frame in self._frames.values())

    def _register(self, name: str, frame: Stream | Relation) -> None:
        if name.lower() in self._frames:
            raise BindError(f"there is a stream or relation `{name}` already; give this one another name")
        self._frames[name.lower()] = frame
        try:
            info = self._catalog()[name.lower()]
        except Exception:
            del self._frames[name.lower()]
            raise
        if self._embedded is not None and isinstance(info, StreamInfo):
            self._embedded.declare(name.lower(), info)

    def _catalog(self) -> Catalog:
        if self._is_spark:
            from sash.spark.sql import spark_catalog

            return spark_catalog(self._frames)
        catalog: Catalog = {}
        for name, frame in self._frames.items():
            schema = normalised(to_arrow(frame.frame, name).slice(0, 0)).schema
            catalog[name] = declare(name, frame, schema) if isinstance(frame, Stream) else RelationInfo(schema)
        return catalog

    def _plan(self, text: str) -> Plan:
        return plan_query(bind(parse_query(text), self._catalog()))

    def _known(self, name: str) -> str:
        if name not in self._queries:
            raise PlanError(f"there is no query `{name}`; {suggest(name, self._queries)}")
        return name

    def _known_stream(self, name: str) -> str:
        if not isinstance(self._frames.get(name.lower()), Stream):
            streams = [each for each, frame in self._frames.items() if isinstance(frame, Stream)]
            raise BindError(f"there is no stream `{name}`; {suggest(name, streams)}")
        return name.lower()

    def _set_paused(self, name: str, is_paused: bool) -> None:
        known = self._queries[self._known(name)]
        if known.is_paused == is_paused:
            raise PlanError(f"the query `{name}` {'is paused already' if is_paused else 'is not paused'}")
        self._become(self._queries | {name: replace(known, is_paused=is_paused)})

    def _sink(self, name: str, into: Into, format: str) -> Sink:
        """Where a query writes, which is nobody else's place."""
        sink = open_sink(into, format)
        for other in self._queries.values():
            if sink is not None and place_of(other.into) == place_of(sink):
                place = f"`{sink.path}`" if isinstance(sink, FileSink) else "this function"
                raise PlanError(
                    f"`{name}` cannot write to {place}: that is where `{other.name}` writes; choose another"
                )
        return sink

    def _active(self) -> dict[str, Plan]:
        return {each.name: each.plan for each in self._queries.values() if not each.is_paused}

    def _become(self, queries: dict[str, Registered]) -> None:
        """Has these queries from now on, if they can run together, and tells whatever runs."""
        check_sharing({each.name: each.plan for each in queries.values() if not each.is_paused})
        self._queries = queries
        if self._postponed is not None:
            self._postponed.append(self._active())
        elif self._embedded is not None:
            self._change(self._embedded, self._active())
        if self._handle is not None:
            self._change_on_spark()

    def _change(self, running: EmbeddedSession, plans: Mapping[str, Plan]) -> None:
        running.is_prompt = self._is_prompt
        running.change(plans)

    def _start(self) -> EmbeddedSession:
        relations = {
            name: normalised(to_arrow(frame.frame, name))
            for name, frame in self._frames.items()
            if isinstance(frame, Relation)
        }
        running = EmbeddedSession(relations)
        for name, info in self._catalog().items():
            if isinstance(info, StreamInfo):
                running.declare(name, info)
        self._change(running, self._active())
        return running

    def _start_anew(self) -> EmbeddedSession:
        """From nothing, so the output of every query does too."""
        self._delivery = Delivery()
        for each in self._queries.values():
            self._delivery.claim(each.into)
        return self._start()

    def _running(self) -> EmbeddedSession:
        self._refuse_spark()
        if self._embedded is None:
            self._embedded = self._start_anew()
        return self._embedded

    def _running_with(self, name: str) -> EmbeddedSession:
        running = self._running()
        if name not in running:
            when = "is paused; resume it first" if self._queries[name].is_paused else "begins when this step is over"
            raise PlanError(f"the query `{name}` {when}")
        return running

    def _between_steps(self) -> EmbeddedSession:
        self._refuse_in_step()
        return self._running()

    def _refuse_spark(self) -> None:
        if self._is_spark:
            raise PlanError("Spark brings the rows of its streams itself; use session.run(checkpoint=...)")

    def _refuse_in_step(self) -> None:
        if self._postponed is not None:
            raise PlanError(
                "a function that is called with changes cannot drive the session, as the step that called it is not "
                "over; do it when that has returned"
            )

    def _collected(self, answers: Iterable[Answer]) -> dict[str, pa.Table]:
        changes: dict[str, list[pa.Table]] = {}
        self._deliver(answers, changes)
        return self._gathered(changes)

    def _deliver(self, answers: Iterable[Answer], changes: dict[str, list[pa.Table]]) -> None:
        """Passes the changes of a step on as they come, and collects them. The step is brought to its end also if a
        function or a directory fails that takes them: the queries are whole then, and can go on.
        """
        assert self._embedded is not None
        served, postponed, failures = self._queries, [], []
        self._postponed = postponed
        try:
            for name, table in answers:
                if self._queries.get(name) is not served[name]:
                    continue
                changes.setdefault(name, []).append(table)
                try:
                    self._delivery.pass_on(served[name].into, table)
                except Exception as failure:
                    failures.append(failure)
        finally:
            self._postponed = None
        for plans in postponed:
            self._change(self._embedded, plans)
        for name in [name for name in changes if not self._is_still(served.get(name))]:
            del changes[name]
        for failure in failures[:1]:
            raise failure

    def _is_still(self, query: Registered | None) -> bool:
        """Whether a query is there, perhaps paused, and not another one of its name."""
        return query is not None and query.name in self._queries and self._queries[query.name].plan is query.plan

    def _gathered(self, changes: Mapping[str, list[pa.Table]]) -> dict[str, pa.Table]:
        """What every query answered; a table without rows if nothing."""
        return {
            name: pa.concat_tables([plan.schema.empty_table(), *changes.get(name, [])]).combine_chunks()
            for name, plan in self._active().items()
        }

    def _warn_of_late_rows(self, finished: EmbeddedSession) -> None:
        for name, (n_late, n_read) in finished.late().items():
            if n_late:
                warnings.warn(
                    f"{n_late} of {n_read} rows of stream `{name}` came later than its slack allows and are in no "
                    "answer; declare a larger slack",
                    SashWarning,
                    stacklevel=3,
                )

    def _run_on_spark(self, checkpoint: str | os.PathLike | None) -> Any:
        if checkpoint is None:
            raise PlanError("on Spark a session needs a directory to go on from: session.run(checkpoint='dir')")
        from sash.spark.session_run import SessionHandle

        self._handle = SessionHandle(self._frames, os.path.abspath(checkpoint))
        self._change_on_spark()
        return self._handle

    def _change_on_spark(self) -> None:
        """A query without a sink writes where one of a script would."""
        default = {name: FileSink(os.path.abspath(f"{DEFAULT_OUTPUT}/{name}"), "parquet") for name in self._queries}
        self._handle.change(
            self._active(), {name: self._queries[name].into or default[name] for name in self._active()}
        )
