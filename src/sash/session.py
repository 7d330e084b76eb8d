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
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.embedded.embedded_session import EmbeddedSession
from sash.embedded.row_notes import rejections
from sash.embedded.run_to_end import interleaved
from sash.errors import BindError, PlanError, suggest
from sash.frames import Relation, Stream, declare, declare_relation, has_spark, relation, stream, table_catalog
from sash.io.places import real_place
from sash.plan.explain.describe_memory import memory_line
from sash.plan.explain.describe_sharing import explain_sharing
from sash.plan.explain.under_limit import sharing_under_limit
from sash.plan.least_memory import require_memory
from sash.plan.memory_forecast import MemoryForecast
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.who_shares import Sharing, decide_sharing
from sash.runtime.arrow import normalised, to_arrow
from sash.runtime.callers import short_tracebacks, warn_caller
from sash.runtime.delivery import Into, Sink, open_sink
from sash.runtime.jobs import started_below
from sash.runtime.kept_answer import NOT_KEPT, Keep, history_of
from sash.runtime.memory_settings import Size, configured
from sash.runtime.moments import Moment, moment_us
from sash.runtime.registered import Queries, Registered, active_plans
from sash.runtime.session_places import SessionPlaces
from sash.sql.bind import bind
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.parameters import Values
from sash.sql.parse import parse_query
from sash.store.batch import BEGINNING


@short_tracebacks
class Session:
    """Streams, relations, and queries over them."""

    def __init__(self, memory: Size | None = None) -> None:
        """`memory` is what its windows in this process may take, like `"256 MiB"`; None: what `sash.configure`
        or `SASH_MEMORY` says. On Spark `spark.sash.memory` says it.
        """
        self._memory = configured(memory)
        self._frames: dict[str, Any] = {}
        self._queries: dict[str, Registered] = {}
        self._local: EmbeddedSession | None = None
        self._rejected: dict[str, list[pa.Table]] = {}
        """Of the last run that is over."""
        self._handle: Any = None
        """What runs on Spark."""

    def stream(self, name: str, frame: Any, **declaration: Any) -> None:
        """Registers a stream. `declaration` is what `sash.stream` takes: time, slack, tie, late, rate, distinct,
        unit, ahead.

        To feed it batch by batch with `push`, a schema or an empty table will do. What `sash.stream` has returned is
        declared already.
        """
        is_declared = isinstance(frame, Stream) and not declaration
        self._register(name, frame if is_declared else stream(frame, **declaration))

    def relation(self, name: str, frame: Any, valid_from: str | None = None, valid_to: str | None = None) -> None:
        """Registers a relation: a frame at rest, that joins every tuple at any time. The columns are as those of
        `sash.relation`, or it has declared them.
        """
        is_declared = isinstance(frame, Relation) and valid_from is None and valid_to is None
        self._register(name, frame if is_declared else relation(frame, valid_from, valid_to))

    def query(
        self,
        name: str,
        text: str,
        into: Into = None,
        format: str = "parquet",
        params: Values | None = None,
        keep_answer: Keep = False,
    ) -> None:
        """Registers a query; if the session runs, it begins now, with what is in its windows.

        `into` is a directory for its changes, which has to be its own, or a function that is called with them as they
        come: with an Arrow table, or on Spark with a DataFrame and the number of the batch. Such a function may itself
        add, drop, pause and resume queries; that takes effect when the step is over that called it. `params` are the
        values of the query's parameters, by name. With `keep_answer` what is in the answer is kept for `answer`, in
        this process: as of now, or for a length of time also as of then.
        """
        if name in self._queries:
            raise PlanError(f"there is a query `{name}` already; drop it first, or give this one another name")
        if not name.strip():
            raise PlanError("a query needs a name by which its changes are known; give it one")
        keep_us = history_of(keep_answer)
        if keep_us is not None and self._is_spark:
            raise PlanError(
                "`keep_answer` is for queries in this process; on Spark, use sash.answer on what they write"
            )
        new = Registered(name, text, self._plan(text, params), self._sink(name, into, format), keep_us=keep_us)
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

    def explain(
        self, verbose: bool = False, checkpoint: str | os.PathLike | None = None, stages: int | None = None
    ) -> str:
        """Which queries share which join, how that runs, and which run alone and why; in full if `verbose`.

        On Spark, as they run, or as `run` with this `checkpoint` and these `stages` would run them: what goes on from
        there keeps its stages. Nothing there is changed.
        """
        if (checkpoint, stages) != (None, None) and (not self._is_spark or self._active_handle is not None):
            whose = "a session that runs has its own" if self._is_spark else "they are for Spark streams"
            raise PlanError(f"leave `checkpoint` and `stages` out: {whose}")
        place = None if checkpoint is None else real_place(os.fspath(checkpoint))
        sharing = self._decide(self._queries, place, stages or 1)
        if self._is_spark or self._memory.is_limited:
            sharing = sharing_under_limit(sharing)
        if self._is_spark:
            forecast = self._spark_forecast(sharing.plans)
        else:
            forecast = self._memory.forecast(sharing.plans, self._relations())
        told = explain_sharing(sharing, self._is_spark, verbose, forecast)
        return told if forecast is None else told + memory_line(forecast)

    def _decide(self, queries: Queries, checkpoint: str | None = None, n_stages: int = 1) -> Sharing:
        """Who shares among these queries, as what runs decides it, or else as it would with a checkpoint."""
        plans, handle = active_plans(queries), self._active_handle
        if handle is not None:
            return handle.decide(plans)
        return decide_sharing(plans, started=started_below(checkpoint), n_fragments=n_stages)

    def _spark_forecast(self, plans: Sequence[Plan]) -> MemoryForecast | None:
        from sash.spark.spark_session import forecast_memory_of
        from sash.spark.spark_sql import known_tables, spark_session_of

        return forecast_memory_of(spark_session_of(self._frames), plans, known_tables(self._frames))

    def run(self, checkpoint: str | os.PathLike | None = None, stages: int = 1) -> Any:
        """Runs all queries.

        Over Arrow, pandas or Polars frames: to their end, and returns the changes of each query by name. Over Spark
        streams: starts them and returns a handle; `checkpoint` is a directory from which a later session goes on, also
        with other queries. A join is started with `stages` stages of Spark, or as many as its queries need; one that
        comes later and needs more runs alone. Two let it group by other columns than the join's.
        """
        if not self._queries:
            raise PlanError("the session has no query; register one with session.query(name, text)")
        if self._is_spark:
            return self._run_on_spark(checkpoint, stages)
        if checkpoint is not None:
            raise PlanError("`checkpoint` is for Spark streams; in this process, see session.snapshot()")
        catalog, tables, _ = table_catalog(self._frames)
        streams = {name: info for name, info in catalog.items() if isinstance(info, StreamInfo)}
        running = self._running()
        if running.has_begun:
            raise PlanError("the session runs already; bring more rows with session.push(stream, rows)")
        try:
            changes = running.run(interleaved(streams, tables))
        finally:
            running.close()
            self._local = None
        self._rejected = running.rejected
        self._warn_of_rows(running)
        return changes

    def push(self, stream: str, rows: Any) -> dict[str, pa.Table]:
        """Takes rows of a stream, in order of arrival; returns the changes that are due now, by query.

        The rows are an Arrow, pandas or Polars frame, or a list of dictionaries.
        """
        running, known = self._running(), self._known_stream(stream)
        return running.push(known, rows)

    def advance(self, time_us: Moment, stream: str | None = None) -> dict[str, pa.Table]:
        """Declares one stream, or all, complete up to and including a time, in microseconds or as a datetime; returns
        the changes that are due now.
        """
        running, known = self._running(), None if stream is None else self._known_stream(stream)
        return running.advance(moment_us(time_us), known)

    def finish(self) -> dict[str, pa.Table]:
        """Declares all streams complete up to the last timestamp seen in any of them; returns the rest."""
        return self._running().finish()

    def answer(self, name: str, at: Moment | None = None) -> pa.Table:
        """The rows that are in the answer of a query at an instant, or at its clock, while the session runs.

        The query was registered with `keep_answer`: True to know it at the clock alone, a length of time to know it
        since so long before.
        """
        known = self._queries[self._known(name)]
        if known.keep_us is None:
            raise PlanError(f"the answer of `{name}` {NOT_KEPT}")
        if self._local is None:
            raise PlanError(
                f"the answer of `{name}` is not known: the session does not run; push rows first, or pass what `run` "
                "has returned of it to sash.answer"
            )
        return self._local.answer(name, at)

    def clock_us(self, name: str) -> int:
        """Up to and including this time the answers of a query are final."""
        return self._running().clock_us(self._known(name))

    def partial_until_us(self, name: str) -> int | None:
        """Until when the answers of a query that was added late may lack something; None if they do not."""
        self._known(name)
        if self._handle is not None:
            tally = self._handle.tallies.get(name)
            if tally is None or tally.partial_until_us is None:
                return None
            return tally.partial_until_us if tally.partial_until_us > (tally.clock_us or BEGINNING) else None
        return self._running().partial_until_us(name)

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return self._rejected if self._local is None and self._rejected else self._running().rejected

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process, with these or other queries; see `restore`."""
        return self._running().snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Goes on from a snapshot of a session with the same streams.

        A query that was there goes on in its directory: what was written into it after the snapshot was taken is
        removed, as the rows that come now bring it again. Other queries begin now, and so do their directories.
        """
        running = self._local or self._start()
        running.restore(snapshot, self._queries)
        self._local = running

    @property
    def _is_spark(self) -> bool:
        return has_spark(self._frames)

    @property
    def _active_handle(self) -> Any:
        """What runs on Spark, if it does."""
        return None if self._handle is None or self._handle.is_stopped else self._handle

    def _register(self, name: str, frame: Stream | Relation) -> None:
        if name.lower() in self._frames:
            raise BindError(f"there is a stream or relation `{name}` already; give this one another name")
        self._frames[name.lower()] = frame
        try:
            info = self._catalog()[name.lower()]
        except Exception:
            del self._frames[name.lower()]
            raise
        if self._local is not None and isinstance(info, StreamInfo):
            self._local.declare(name.lower(), info)

    def _catalog(self) -> Catalog:
        if self._is_spark:
            from sash.spark.session_checks import refuse_connect
            from sash.spark.spark_sql import spark_catalog

            refuse_connect(each.frame for each in self._frames.values())
            return spark_catalog(self._frames)
        catalog: Catalog = {}
        for name, frame in self._frames.items():
            table = normalised(to_arrow(frame.frame, name).slice(0, 1))
            if isinstance(frame, Stream):
                catalog[name] = declare(name, frame, table)
            else:
                catalog[name] = declare_relation(name, frame, table.schema)
        return catalog

    def _plan(self, text: str, params: Values | None = None) -> QueryPlan:
        return plan_query(bind(parse_query(text, params), self._catalog()))

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
        sink, handle = open_sink(into, format), self._active_handle
        checkpoint = None if handle is None else handle.checkpoint
        self._places.refuse_taken(name, sink, checkpoint)
        return sink

    @property
    def _places(self) -> SessionPlaces:
        if not self._is_spark:
            return SessionPlaces(self._queries, is_spark=False)
        from sash.spark.spark_sql import streamed_paths

        return SessionPlaces(self._queries, True, streamed_paths(self._frames))

    def _become(self, queries: dict[str, Registered]) -> None:
        """Has these queries from now on, and tells whatever runs; if that refuses, all stays as it was."""
        sharing = self._decide(queries)  # raises if they cannot run together
        if not self._is_spark:
            require_memory(sharing.plans, self._memory.budget())
        if self._local is not None:
            self._local.change(queries)
        before, self._queries = self._queries, queries
        try:
            if self._active_handle is not None:
                self._change_on_spark(self._active_handle)
        except Exception:
            self._queries = before
            raise

    def _start(self) -> EmbeddedSession:
        """What runs here, without queries."""
        if self._is_spark:
            raise PlanError("Spark brings the rows of its streams itself; use session.run(checkpoint=...)")
        streams = {name: info for name, info in self._catalog().items() if isinstance(info, StreamInfo)}
        return EmbeddedSession(streams, self._relations(), self._memory.budget())

    def _relations(self) -> dict[str, pa.Table]:
        return {
            name: normalised(to_arrow(frame.frame, name))
            for name, frame in self._frames.items()
            if isinstance(frame, Relation)
        }

    def _running(self) -> EmbeddedSession:
        if self._local is None:
            running = self._start()
            running.change(self._queries)
            self._local = running
        return self._local

    def _warn_of_rows(self, finished: EmbeddedSession) -> None:
        late = [
            f"{n_late} of {n_read} rows of stream `{name}` came later than its slack allows and are in no answer; "
            "declare a larger slack"
            for name, (n_late, n_read) in finished.late().items()
            if n_late
        ]
        rejected = [f"{told}; such rows are in session.rejected" for told in rejections(finished.rejected)]
        for note in (*finished.notes(), *late, *rejected):
            warn_caller(note)

    def _run_on_spark(self, checkpoint: str | os.PathLike | None, n_stages: int) -> Any:
        if checkpoint is None:
            raise PlanError("on Spark a session needs a directory to go on from: session.run(checkpoint='dir')")
        if self._active_handle is not None:
            raise PlanError("the session runs already; stop it first, with the handle that `run` has returned")
        from sash.spark.session_run import SessionHandle

        place = real_place(os.fspath(checkpoint))
        self._places.refuse_checkpoint(place)
        handle = SessionHandle(self._frames, place, n_stages)
        try:
            self._change_on_spark(handle)
        except BaseException:
            handle.stop()
            raise
        self._handle = handle
        return handle

    def _change_on_spark(self, handle: Any) -> None:
        active = active_plans(self._queries)
        handle.change(active, {name: self._places.sink_of(name, self._queries[name].into) for name in active})
