"""What users pass to `sash.sql`: frames of several kinds, as streams or relations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.errors import BindError, PlanError, SourceError, suggest
from sash.operators.changes import read_times
from sash.sql.query import NO_STATISTICS, Catalog, RelationInfo, StreamInfo, StreamStatistics
from sash.sql.windows import parse_interval
from sash.store.batch import is_timed

WATERMARK_DELAY = "spark.watermarkDelayMs"


@dataclass(frozen=True, slots=True)
class Stream:
    """A frame with the declaration that makes it a stream. Made by `sash.stream`."""

    frame: Any
    time: str | None = None
    slack_us: int | None = None
    tie: tuple[str, ...] = ()
    late: str | None = None
    statistics: StreamStatistics = NO_STATISTICS


@dataclass(frozen=True, slots=True)
class Relation:
    """A frame that does not change. Made by `sash.relation`."""

    frame: Any


def stream(
    frame: Any,
    time: str | None = None,
    slack: str | None = None,
    tie: str | tuple[str, ...] = (),
    late: str | None = None,
    rate: float | None = None,
    distinct: Mapping[str, int] | None = None,
) -> Stream:
    """Declares a frame to be a stream.

    `time` names its time column (a lone timestamp column needs no naming), `slack` says how late a row may be ("5
    seconds"), `tie` names columns that order rows of one instant. Without a slack, a table or DataFrame at rest is a
    complete recording in which nothing is late; a Spark stream uses the delay of its watermark, or none. `late` is a
    directory where a Spark stream's late rows are written as Parquet; without it they are only counted. `rate` (rows
    per second of event time) and `distinct` (how many values columns have) let the planner choose how to join; of a
    table given whole they are observed if not declared.
    """
    slack_us = None if slack is None else parse_interval(slack)
    if late is not None and not is_spark(frame):
        raise BindError(
            "`late` is for Spark streams; the late rows of a query in this process are in sash.query(...).late"
        )
    if late is not None and "://" not in late:
        late = os.path.abspath(late)
    statistics = _statistics(rate, distinct or {})
    return Stream(frame, time, slack_us, (tie,) if isinstance(tie, str) else tuple(tie), late, statistics)


def _statistics(rate: float | None, distinct: Mapping[str, int]) -> StreamStatistics:
    if rate is not None and not 0 < rate < float("inf"):
        raise BindError(f"`rate` is {rate}; give the rows per second, more than zero, or leave it out")
    for column, n_values in distinct.items():
        if n_values < 1 or n_values != int(n_values):
            raise BindError(f"`distinct` gives `{column}` {n_values} values; give a whole number of at least 1")
    return StreamStatistics(rate, tuple((column, int(n_values)) for column, n_values in distinct.items()))


def relation(frame: Any) -> Relation:
    """Declares a frame at rest to be a relation: it has no window, and joins every tuple at any time."""
    return Relation(frame)


def is_spark(frame: Any) -> bool:
    """Whether a frame is a Spark DataFrame; tells without importing Spark."""
    inner = frame.frame if isinstance(frame, Stream | Relation) else frame
    return any(kind.__module__.startswith("pyspark.") for kind in type(inner).__mro__)


def to_arrow(frame: Any, name: str) -> pa.Table:
    """An Arrow, pandas or Polars frame as an Arrow table; a schema as one without rows."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.Schema):
        return frame.empty_table()
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    module = type(frame).__module__.split(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    if module == "polars":
        frame = frame.collect() if type(frame).__name__ == "LazyFrame" else frame
        return frame.to_arrow()
    raise BindError(
        f"`{name}` is a {type(frame).__module__}.{type(frame).__qualname__}; pass an Arrow, pandas, Polars or Spark one"
    )


def declare(name: str, frame: Stream, schema: pa.Schema, default_slack_us: int = 0) -> StreamInfo:
    """What binding must know of a stream; checks that its time column can tell time."""
    time = _time_column(name, frame.time, schema)
    for column in frame.tie:
        if column not in schema.names:
            raise BindError(f"stream `{name}` has no column `{column}` to break ties; {suggest(column, schema.names)}")
    for column, _ in frame.statistics.distinct:
        if column not in schema.names:
            raise BindError(f"stream `{name}` has no column `{column}` to count; {suggest(column, schema.names)}")
    slack_us = default_slack_us if frame.slack_us is None else frame.slack_us
    return StreamInfo(schema, time, slack_us, frame.tie, frame.statistics)


def table_catalog(frames: Mapping[str, Any]) -> tuple[Catalog, dict[str, pa.Table], dict[str, pa.Table]]:
    """Frames at rest as a catalog, its streams (in order of arrival) and its relations."""
    catalog: Catalog = {}
    streams, relations = {}, {}
    for name, frame in frames.items():
        table = normalised(to_arrow(getattr(frame, "frame", frame), name))
        if isinstance(frame, Relation) or (not isinstance(frame, Stream) and not _has_time(table.schema)):
            catalog[name.lower()], relations[name.lower()] = RelationInfo(table.schema), table
            continue
        declared = frame if isinstance(frame, Stream) else Stream(table)
        info = declare(name, declared, table.schema)
        catalog[name.lower()] = info
        streams[name.lower()] = _arrivals(name, table, info.time, is_recording=declared.slack_us is None)
    return catalog, streams, relations


def normalised(table: pa.Table) -> pa.Table:
    """The table in types that every engine shares: timestamps in microseconds, plain strings, no dictionaries."""
    fields = [pa.field(field.name, _shared_type(field.type)) for field in table.schema]
    try:
        return table.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise SourceError(f"a value does not fit into microseconds or a shared type: {error}") from None


def _shared_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", tz=None if type.tz is None else "UTC")
    if pa.types.is_dictionary(type):
        return _shared_type(type.value_type)
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    if pa.types.is_large_binary(type) or pa.types.is_binary_view(type):
        return pa.binary()
    return type


def _has_time(schema: pa.Schema) -> bool:
    return any(pa.types.is_timestamp(field.type) for field in schema)


def _time_column(name: str, time: str | None, schema: pa.Schema) -> str:
    if time is None:
        lone = [field.name for field in schema if pa.types.is_timestamp(field.type)]
        if len(lone) == 1:
            return lone[0]
        seen = "none of its columns is a timestamp" if not lone else f"it has {len(lone)} timestamp columns"
        raise BindError(f"which column of stream `{name}` is its time? {seen}; say so with sash.stream(..., time=...)")
    if time not in schema.names:
        raise BindError(f"stream `{name}` has no time column `{time}`; {suggest(time, schema.names)}")
    type = schema.field(time).type
    if not (pa.types.is_timestamp(type) or pa.types.is_int64(type)):
        raise BindError(
            f"column `{time}` of stream `{name}` is {type}; a time column is a timestamp or int64 microseconds"
        )
    return time


def _arrivals(name: str, table: pa.Table, time: str, is_recording: bool) -> pa.Table:
    column = table.column(time)
    if not (has_time := is_timed(column)).all():
        row = int(np.argmin(has_time))
        reason = "is NULL" if column[row].as_py() is None else "is the least of 64 bits, which no instant is"
        raise SourceError(f"row {row} of stream `{name}` has no time: `{time}` {reason}; filter such rows out first")
    if not is_recording or table.num_rows < 2:
        return table
    ts = read_times(column)
    return table if (ts[1:] >= ts[:-1]).all() else table.take(pa.array(np.argsort(ts, kind="stable")))


def refuse_mixture(frames: Mapping[str, Any]) -> None:
    """Spark streams and tables of this process cannot stream side by side; a table can be a relation there."""
    for name, frame in frames.items():
        if isinstance(frame, Stream) and not is_spark(frame):
            raise PlanError(f"`{name}` is a stream of this process among Spark frames; pass it as a Spark frame too")
