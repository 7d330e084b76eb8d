"""The functions users call. Spark is imported only when a Spark frame or session is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sash.embedded.analyze import analyze_tables
from sash.embedded.query import Query
from sash.embedded.row_notes import REJECTED, rejections
from sash.embedded.run_to_end import run_tables
from sash.errors import PlanError, require_extra
from sash.frames import (
    IN_THIS_PROCESS,
    Relation,
    Stream,
    bare_frame,
    declare,
    declare_relation,
    frames_for,
    has_spark,
    refuse_same_names,
    table_catalog,
)
from sash.plan.explain.describe_memory import memory_line
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.under_limit import query_under_limit
from sash.plan.memory_forecast import MemoryForecast
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.runtime.arrow import normalised, to_arrow
from sash.runtime.callers import calling_frame, short_tracebacks, warn_caller
from sash.runtime.memory_settings import Size, configured, set_memory
from sash.runtime.moments import Moment, moment_us
from sash.runtime.plain_answer import Groups, plain_answer
from sash.runtime.published_changes import PublishedChanges
from sash.sql.bind import bind
from sash.sql.catalog import Catalog
from sash.sql.parameters import Values
from sash.sql.parse import parse_query


@short_tracebacks
def sql(text: str, /, *, params: Any = None, **frames: Any) -> Any:
    """Answers a query over the named frames. `params` are the values of its parameters: `$x` is `params["x"]`.

    Over Spark streaming DataFrames: the changes as a streaming DataFrame; DataFrames at rest among them are relations.
    Over Arrow, pandas or Polars frames: the changes as an Arrow table, worked out in this process.
    Tables that the query names and that are not passed are variables of the caller that hold frames.
    """
    frames = frames_for(text, params, frames, calling_frame())
    if has_spark(frames):
        from sash.spark.spark_sql import spark_sql

        return spark_sql(text, frames, params)
    catalog, streams, relations = table_catalog(frames)
    plan = plan_text(text, catalog, streams, params)
    changes, finished = run_tables(plan, streams, relations)
    _warn_of_rows(finished)
    return changes


@short_tracebacks
def answer(changes: Any, at: Moment | None = None, *, groups: Groups = None) -> Any:
    """The rows that are in a query's answer at an instant: a datetime, its text, or microseconds.

    `changes` are all changes of the query: as Sash returned them, an Arrow table or a frame made of one; a Spark
    DataFrame at rest, read from where they were written; or the path of the directory that a query writes INTO. Returns
    an Arrow table, or a DataFrame, of the selected columns; equal rows as often as they are there.

    Without `at`: at the newest instant up to which the changes are known to be final, or else at their newest `_ts`.
    How they are to be read is told by what Sash returned or wrote. If that has been lost, `groups` says it: the columns
    by which the newest row of a group replaces the older one, or False if rows are counted.
    """
    if isinstance(changes, str | os.PathLike):
        return PublishedChanges.open(os.fspath(changes)).answer(at)
    if has_spark({"changes": changes}):
        from sash.spark.answer_frame import answer_frame

        return answer_frame(changes, at, groups)
    return plain_answer(to_arrow(changes, "changes"), at, groups)


@short_tracebacks
def explain(text: str, /, *, analyze: bool = False, verbose: bool = False, params: Any = None, **frames: Any) -> str:
    """How a query over the named frames would run: a line for each operator, and what it keeps for how long.

    If `verbose`, all that there is to say of every operator. With `analyze` the query does run, over frames of this
    process, and the text also says what every operator has done. Frames that are not passed are found as by `sql`.
    """
    frames = frames_for(text, params, frames, calling_frame())
    if has_spark(frames):
        from sash.spark.spark_session import forecast_memory_of
        from sash.spark.spark_sql import known_tables, spark_plan, spark_session_of

        if analyze:
            raise PlanError("`analyze` runs the query in this process; pass Arrow, pandas or Polars frames")
        plan = query_under_limit(spark_plan(text, frames, params))
        tables = known_tables(frames)
        return _explained(plan, verbose, forecast_memory_of(spark_session_of(frames), [Plan.alone(plan)], tables))
    catalog, streams, relations = table_catalog(frames)
    plan = plan_text(text, catalog, streams, params)
    if analyze:
        return analyze_tables(plan, streams, relations, verbose)
    settings = configured()
    plan = query_under_limit(plan) if settings.is_limited else plan
    return _explained(plan, verbose, settings.forecast([Plan.alone(plan)], {**streams, **relations}))


@short_tracebacks
def query(text: str, /, *, params: Any = None, keep_answer: Any = False, **frames: Any) -> Query:
    """A query to be fed batch by batch. A frame gives a stream's schema only: an empty table, or a schema, will do.

    Relations are given whole, with `sash.relation`. With `keep_answer` what is in the answer is kept, so that
    `query.answer()` tells it: as of now, or for a length of time ("10 minutes", or a timedelta) also as of then.
    """
    refuse_same_names(frames)
    catalog: Catalog = {}
    relations: dict[str, pa.Table] = {}
    for name, frame in frames.items():
        table = normalised(to_arrow(bare_frame(frame), name))
        if isinstance(frame, Relation):
            catalog[name.lower()] = declare_relation(name, frame, table.schema)
            relations[name.lower()] = table
        else:
            declared = frame if isinstance(frame, Stream) else Stream(table)
            catalog[name.lower()] = declare(name, declared, table)
    return Query(plan_text(text, catalog, params=params), relations, keep_answer=keep_answer)


@short_tracebacks
def complete(frame: Any, stream: str | None = None, until_us: Moment | None = None) -> None:
    """Tells the query that runs on a frame returned by `sash.sql` that a stream (or all) is complete.

    Up to and including `until_us`, microseconds or a datetime, or up to the newest timestamp seen. What waited for it
    comes out in the next batch.
    """
    require_extra("spark", "`sash.complete`", "use sash.query, whose `advance` says it in this process")
    from sash.spark.frame import complete as complete_frame

    complete_frame(frame, stream, None if until_us is None else moment_us(until_us))


@short_tracebacks
def configure(
    builder: Any = None, /, *, memory: Size | None = None, spill: str | os.PathLike[str] | None = None
) -> Any:
    """Says how much memory a query or session that starts from now on in this process may take for its windows, and in
    which directory it keeps what does not fit.

    `memory` is a number of bytes, or a text like `"256 MiB"`. What is None is as the environment says: `SASH_MEMORY`,
    `SASH_SPILL`. Without a limit, everything is in memory.

    Given the builder of a Spark session, it sets there what Sash needs, memory included, and returns the builder: what
    you have set yourself stays. `spark = sash.configure(SparkSession.builder.master("local[4]")).getOrCreate()`
    """
    if builder is None:
        set_memory(memory, spill)
        return None
    if isinstance(builder, int | str):
        raise PlanError(f"`configure` takes memory by its name: sash.configure(memory={builder!r})")
    if not (hasattr(builder, "config") and hasattr(builder, "getOrCreate")):
        raise PlanError(
            f"`configure` takes the builder of a Spark session, not {type(builder).__name__}: pass "
            "`SparkSession.builder`, before `getOrCreate()`"
        )
    require_extra("spark", "a Spark session", IN_THIS_PROCESS)
    from sash.spark.own_builder import configure_builder

    return configure_builder(builder, memory, spill)


@short_tracebacks
def spark_session(master: str = "local[*]", **config: Any) -> Any:
    """A Spark session with the settings that Sash needs; local by default."""
    require_extra("spark", "a Spark session", IN_THIS_PROCESS)
    from sash.spark.spark_session import spark_session as start

    return start(master, **config)


def plan_text(
    text: str, catalog: Catalog, streams: Mapping[str, pa.Table] | None = None, params: Values | None = None
) -> QueryPlan:
    """The plan of a query text; the content of streams that are there as tables may be looked at to choose it."""
    return plan_query(bind(parse_query(text, params), catalog), streams)


def _explained(plan: QueryPlan, verbose: bool, forecast: MemoryForecast | None) -> str:
    text = explain_plan(plan, verbose=verbose, forecast=forecast)
    return text if forecast is None else text + memory_line(forecast)


def _warn_of_rows(finished: Query) -> None:
    late = [
        f"{n_late} of {finished.n_read[name]} rows of stream `{name}` came later than its slack allows and are not in "
        "the answer; declare a larger slack, or use sash.query to get at them"
        for name, n_late in finished.n_late.items()
        if n_late
    ]
    rejected = [f"{told}; use sash.query to get at such rows" for told in rejections(finished.rejected)]
    for note in (*finished.notes.take(but=REJECTED), *late, *rejected):
        warn_caller(note)
