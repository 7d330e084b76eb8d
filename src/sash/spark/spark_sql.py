"""`sash.sql` over Spark frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from sash.errors import BindError
from sash.frames import WATERMARK_DELAY, Relation, Stream, bare_frame, declare, declare_relation, refuse_mixture
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.runtime.arrow import normalised, to_arrow
from sash.runtime.callers import warn_caller
from sash.spark.frame import change_frame
from sash.spark.session_checks import check_session
from sash.sql.bind import bind
from sash.sql.catalog import Catalog
from sash.sql.parameters import Values
from sash.sql.parse import parse_query


def spark_sql(text: str, frames: Mapping[str, Any], params: Values | None = None) -> DataFrame:
    """The changes as a streaming DataFrame."""
    streams, session = streaming_frames(frames), spark_session_of(frames)
    plan = spark_plan(text, frames, params)
    for complaint in check_session(session):
        warn_caller(complaint)
    relations = {name for lookup in plan.lookups for name in lookup.tables}
    loaded = {name.lower(): load_relation(name, frame) for name, frame in frames.items() if name.lower() in relations}
    late = {name.lower(): frame.late for name, frame in frames.items() if isinstance(frame, Stream) and frame.late}
    return change_frame(Plan.alone(plan), {name: streams[name] for name in plan.streams}, loaded, late, session)


def spark_plan(text: str, frames: Mapping[str, Any], params: Values | None = None) -> QueryPlan:
    """The plan of a query over Spark frames."""
    return plan_query(bind(parse_query(text, params), spark_catalog(frames)))


def spark_catalog(frames: Mapping[str, Any]) -> Catalog:
    """Spark frames as a catalog; streaming ones are streams, the others relations."""
    refuse_mixture(frames)
    catalog: Catalog = {}
    for name, frame in frames.items():
        inner = frame.frame if isinstance(frame, Stream | Relation) else frame
        if _is_streaming(inner):
            declared = frame if isinstance(frame, Stream) else Stream(inner)
            catalog[name.lower()] = _declare(name, declared)
        elif isinstance(frame, Stream):
            raise BindError(f"`{name}` is a DataFrame at rest; a stream on Spark is read with spark.readStream")
        else:
            schema = _schema(inner) if isinstance(inner, DataFrame) else load_relation(name, frame).schema
            catalog[name.lower()] = declare_relation(name, frame, schema)
    return catalog


def streaming_frames(frames: Mapping[str, Any]) -> dict[str, DataFrame]:
    """The frames that are streams, by name."""
    inner = {name.lower(): bare_frame(frame) for name, frame in frames.items()}
    streaming = {name: frame for name, frame in inner.items() if _is_streaming(frame)}
    if not streaming:
        raise BindError("none of the Spark frames is streaming; read at least one with spark.readStream")
    return streaming


def spark_session_of(frames: Mapping[str, Any]) -> SparkSession:
    """The session that the streams among the frames are of."""
    return next(iter(streaming_frames(frames).values())).sparkSession


def streamed_paths(frames: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which streams Spark reads from files, and from where: directories, or globs."""
    found = []
    for name, frame in streaming_frames(frames).items():
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        for leaf in (leaves.apply(place) for place in range(leaves.size())):
            if leaf.getClass().getSimpleName() == "StreamingRelation":
                path = leaf.dataSource().options().get("path")
                found += [(name, path.get())] if path.isDefined() else []
    return found


def _is_streaming(frame: Any) -> bool:
    return isinstance(frame, DataFrame) and frame.isStreaming


def _is_spark(frame: Any) -> bool:
    return isinstance(frame, DataFrame)


def _declare(name: str, frame: Stream):
    """A watermark on the frame names the time column and the slack where the user did not."""
    marked = {
        field.name: field.metadata[WATERMARK_DELAY] for field in frame.frame.schema if WATERMARK_DELAY in field.metadata
    }
    time = frame.time or next(iter(marked), None)
    delay_us = 1000 * marked.get(time, 0)
    return declare(name, replace(frame, time=time), _schema(frame.frame).empty_table(), delay_us)


def _schema(frame: DataFrame) -> pa.Schema:
    return normalised(to_arrow_schema(frame.schema, timezone="UTC").empty_table()).schema


def known_tables(frames: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The relations that are in this process already: those that are no DataFrames of Spark's."""
    inner = {name: bare_frame(frame) for name, frame in frames.items()}
    return {name.lower(): load_relation(name, frame) for name, frame in inner.items() if not _is_spark(frame)}


def load_relation(name: str, frame: Any) -> pa.Table:
    """The content of a relation."""
    inner = bare_frame(frame)
    return normalised(inner.toArrow() if isinstance(inner, DataFrame) else to_arrow(inner, name))
