"""What users pass to `sash.sql`: frames of several kinds, as streams or relations."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, PlanError, SourceError, require_extra, suggest
from sash.io.time_column import tell_times, time_type
from sash.operators.changes import read_times
from sash.runtime.arrow import normalised, to_arrow
from sash.runtime.callers import short_tracebacks
from sash.runtime.moments import Length, length_us
from sash.sql import duck
from sash.sql.catalog import NO_STATISTICS, Catalog, RelationInfo, StreamInfo, StreamStatistics, Validity
from sash.sql.declared_times import UNITS, UNLIMITED, choose_ahead
from sash.sql.parameters import Values
from sash.sql.parse import parse_query

WATERMARK_DELAY = "spark.watermarkDelayMs"
IN_THIS_PROCESS = "pass Arrow, pandas or Polars frames, to answer in this process"
"""What whoever has no Spark can do instead."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Stream:
    """A frame with the declaration that makes it a stream. Made by `sash.stream`."""

    frame: Any
    time: str | None = None
    slack_us: int | None = None
    tie: tuple[str, ...] = ()
    late: str | None = None
    statistics: StreamStatistics = NO_STATISTICS
    unit: str | None = None
    ahead: int | str | None = None
    """In microseconds, UNLIMITED, or None for the default."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A frame that does not change. Made by `sash.relation`."""

    frame: Any
    validity: Validity | None = None


@short_tracebacks
def stream(
    frame: Any,
    time: str | None = None,
    slack: Length | None = None,
    tie: str | tuple[str, ...] = (),
    late: str | None = None,
    rate: float | None = None,
    distinct: Mapping[str, int] | None = None,
    unit: str | None = None,
    ahead: Length | None = None,
) -> Stream:
    """Declares a frame to be a stream.

    `time` names its time column (a lone timestamp column needs no naming), `slack` says how late a row may be ("5
    seconds", or a timedelta), `tie` names columns that order rows of one instant. Without a slack, a table or DataFrame
    at rest is a complete recording in which nothing is late; a Spark stream uses the delay of its watermark, or none.
    `late` is a directory where a Spark stream's late rows are written as Parquet, and with `.rejects` at the end of its
    name what is rejected; without it they are only counted.
    `rate` (rows per second of event time) and `distinct` (how many values columns have) let the planner choose how to
    join; of a table given whole they are observed if not declared. `unit` says what integers in the time column count
    since 1970: "s", "ms", "us" or "ns"; they are timestamps to the query. Without it they are microseconds, and stay
    integers. `ahead` says how much newer than all before it a row may be ("1 hour", or "unlimited") unless the next one
    confirms it; else it is rejected. Without it: 366 days, or the slack if that is longer.
    """
    slack_us = None if slack is None else length_us(slack, "slack")
    ahead_us = (
        None
        if ahead is None
        else UNLIMITED
        if isinstance(ahead, str) and ahead == UNLIMITED
        else length_us(ahead, "ahead")
    )
    if unit is not None and unit not in UNITS:
        raise BindError(f"`unit` is {unit!r}; give one of {', '.join(map(repr, UNITS))}")
    if late is not None and not is_spark(frame):
        raise BindError(
            "`late` is for Spark streams; the late rows of a query in this process are in sash.query(...).late"
        )
    if late is not None and "://" not in late:
        late = os.path.abspath(late)
    statistics = _statistics(rate, distinct or {})
    return Stream(
        frame, time, slack_us, (tie,) if isinstance(tie, str) else tuple(tie), late, statistics, unit, ahead_us
    )


def _statistics(rate: float | None, distinct: Mapping[str, int]) -> StreamStatistics:
    if rate is not None and not 0 < rate < float("inf"):
        raise BindError(f"`rate` is {rate}; give the rows per second, more than zero, or leave it out")
    for column, n_values in distinct.items():
        if n_values < 1 or n_values != int(n_values):
            raise BindError(f"`distinct` gives `{column}` {n_values} values; give a whole number of at least 1")
    return StreamStatistics(rate, tuple((column, int(n_values)) for column, n_values in distinct.items()))


@short_tracebacks
def relation(frame: Any, valid_from: str | None = None, valid_to: str | None = None) -> Relation:
    """Declares a frame at rest to be a relation: it has no window, and joins every tuple at any time.

    `valid_from` and `valid_to` name columns that say when each row is valid: at T if `valid_from <= T < valid_to`; a
    NULL is no bound. A query may then read it `FOR SYSTEM_TIME AS OF` the time of a stream.
    """
    if valid_from is None and valid_to is None:
        return Relation(frame)
    if valid_from is None or valid_to is None:
        raise BindError("`valid_from` and `valid_to` go together; name both columns, or neither")
    return Relation(frame, Validity(valid_from, valid_to))


def declare_relation(name: str, frame: Any, schema: pa.Schema, hint: str | None = None) -> RelationInfo:
    """What binding must know of a relation; checks that the columns which say when rows are valid can tell time."""
    validity = frame.validity if isinstance(frame, Relation) else None
    for column in (validity.start, validity.end) if validity else ():
        if column not in schema.names:
            raise BindError(f"relation `{name}` has no column `{column}`; {suggest(column, schema.names)}")
        type_ = schema.field(column).type
        if not (pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_int64(type_)):
            raise BindError(f"`{column}` of relation `{name}` is no time but {type_}; make it a timestamp")
    return RelationInfo(schema, hint=hint, validity=validity)


def is_spark(frame: Any) -> bool:
    """Whether a frame is a Spark DataFrame; tells without importing Spark."""
    return any(kind.__module__.startswith("pyspark.") for kind in type(bare_frame(frame)).__mro__)


def bare_frame(frame: Any) -> Any:
    """Without what was declared of it. A frame's attribute is not asked for: it may be a column of that name."""
    return frame.frame if isinstance(frame, Stream | Relation) else frame


def has_spark(frames: Mapping[str, Any]) -> bool:
    """Whether queries over these frames run on Spark. Raises ResourceError if they do, and what Sash needs for that is
    not installed: who has pyspark need not have the rest.
    """
    found = any(is_spark(frame) for frame in frames.values())
    if found:
        require_extra("spark", "a query over Spark frames", IN_THIS_PROCESS)
    return found


def frames_for(text: str, params: Values | None, given: Mapping[str, Any], caller: FrameType | None) -> dict[str, Any]:
    """The frames that are given, and for other tables that a query names the caller's variables of these names.

    Raises BindError if such a variable holds something else than a frame.
    """
    variables = {} if caller is None else ChainMap(caller.f_locals, caller.f_globals)
    known = {name.lower() for name in given}
    words = _WORD.findall(text) if isinstance(text, str) else []
    wanted = {word for word in words if word.lower() not in known and word in variables}
    if not wanted:
        return dict(given)
    tree = parse_query(text, params).tree
    known |= {named.alias.lower() for named in tree.find_all(exp.CTE)}
    found: dict[str, Any] = {}
    for name in {table.name for table in tree.find_all(exp.Table)} & wanted:
        if name.lower() in known:
            continue
        if not is_frame(variables[name]):
            kind = type(variables[name]).__qualname__
            raise BindError(
                f"the query reads `{name}`, and your variable of that name is no frame but a {kind}; pass one, as in "
                f"`{name}=…`"
            )
        found[name] = variables[name]
    return {**found, **given}


def is_frame(value: Any) -> bool:
    """Whether a value is one of the frames that have columns with types: no schema, and no list of dictionaries."""
    if isinstance(value, Stream | Relation | pa.Table | pa.RecordBatch) or is_spark(value):
        return True
    module, name = type(value).__module__.split(".")[0], type(value).__name__
    return (module, name) in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame"))


def declare(name: str, frame: Stream, table: pa.Table, default_slack_us: int = 0) -> StreamInfo:
    """What binding must know of a stream; checks that its time column can tell time. Of the table, which may be empty,
    only the columns and an example are looked at.
    """
    schema = table.schema
    time = _time_column(name, frame, table)
    for column in frame.tie:
        if column not in schema.names:
            raise BindError(f"stream `{name}` has no column `{column}` to break ties; {suggest(column, schema.names)}")
    for column, _ in frame.statistics.distinct:
        if column not in schema.names:
            raise BindError(f"stream `{name}` has no column `{column}` to count; {suggest(column, schema.names)}")
    seen = schema.set(schema.names.index(time), pa.field(time, time_type(schema.field(time).type, frame.unit)))
    slack_us = default_slack_us if frame.slack_us is None else frame.slack_us
    try:
        ahead_us = choose_ahead(frame.ahead, slack_us)
    except ValueError as error:
        raise BindError(f"stream `{name}`: {error}") from None
    return StreamInfo(seen, time, slack_us, frame.tie, frame.statistics, unit=frame.unit, ahead_us=ahead_us)


def refuse_same_names(names: Iterable[str]) -> None:
    """BindError where one of two frames could not be named."""
    known: dict[str, str] = {}
    for name in names:
        if name.lower() in known:
            raise BindError(f"`{known[name.lower()]}` and `{name}` are one name to SQL; rename one")
        known[name.lower()] = name


def table_catalog(frames: Mapping[str, Any]) -> tuple[Catalog, dict[str, pa.Table], dict[str, pa.Table]]:
    """Frames at rest as a catalog, its streams (in order of arrival) and its relations."""
    refuse_same_names(frames)
    catalog: Catalog = {}
    streams, relations = {}, {}
    for name, frame in frames.items():
        table = normalised(to_arrow(bare_frame(frame), name))
        if isinstance(frame, Relation) or (not isinstance(frame, Stream) and not _has_time(table.schema)):
            hint = None if isinstance(frame, Relation) else _hint(name, table, frame)
            catalog[name.lower()] = declare_relation(name, frame, table.schema, hint)
            relations[name.lower()] = table
            continue
        declared = frame if isinstance(frame, Stream) else Stream(table)
        info = declare(name, declared, table)
        catalog[name.lower()] = info
        streams[name.lower()] = _arrivals(name, table, info, is_recording=declared.slack_us is None)
    return catalog, streams, relations


def _has_time(schema: pa.Schema) -> bool:
    return any(pa.types.is_timestamp(field.type) for field in schema)


def _hint(name: str, table: pa.Table, frame: Any) -> str | None:
    """How a table without a timestamp column could be a stream, if a column of it, or its index, looks like a time."""
    if str(getattr(getattr(frame, "index", None), "dtype", "")).startswith("datetime64"):
        return (
            f"`{name}` has no timestamp column; give its index a name, as in `{name}.rename_axis('ts')`, and it is one"
        )
    for field in table.schema:
        if pa.types.is_date(field.type):
            return f"`{name}` has no timestamp column; for its dates, pass sash.stream({name}, time='{field.name}')"
        text = _example(table, field.name) if pa.types.is_string(field.type) else None
        if text is not None and duck.is_timestamp(text):
            return f"`{name}` has no timestamp column; `{field.name}` holds text like '{text}': cast it to a timestamp"
    return None


def _example(table: pa.Table, column: str) -> Any:
    """The first value that is there."""
    found = table.column(column).drop_null()
    return found[0].as_py() if len(found) else None


def _time_column(name: str, frame: Stream, table: pa.Table) -> str:
    schema = table.schema
    if frame.time is None:
        lone = [field.name for field in schema if pa.types.is_timestamp(field.type)]
        if len(lone) == 1:
            return lone[0]
        seen = "none of its columns is a timestamp" if not lone else f"it has {len(lone)} timestamp columns"
        hint = _hint(name, table, frame.frame) if not lone else None
        raise BindError(
            f"which column of stream `{name}` is its time? {seen}; say so with sash.stream(..., time=...)", note=hint
        )
    if frame.time not in schema.names:
        raise BindError(f"stream `{name}` has no time column `{frame.time}`; {suggest(frame.time, schema.names)}")
    type = schema.field(frame.time).type
    if frame.unit is not None and not pa.types.is_integer(type):
        raise BindError(f"`unit` is for integers, and `{frame.time}` of stream `{name}` is {type}; leave it out")
    is_time = pa.types.is_timestamp(type) or pa.types.is_date(type) or pa.types.is_int64(type)
    if frame.unit is None and not is_time:
        raise BindError(_no_time(name, frame.time, type, _example(table, frame.time)))
    return frame.time


def _no_time(name: str, time: str, type: pa.DataType, example: Any) -> str:
    what = f"column `{time}` of stream `{name}` is {type}"
    if pa.types.is_string(type):
        shown = "" if example is None else f", like '{example}'"
        return f"{what}{shown}; cast it to a timestamp first"
    if pa.types.is_integer(type):
        return f"{what}; say what it counts, as in sash.stream(..., unit='s')"
    return f"{what}; a time column is a timestamp, a date, or an integer: cast it first"


def _arrivals(name: str, table: pa.Table, info: StreamInfo, is_recording: bool) -> pa.Table:
    timed = tell_times(table, info.time, info.unit)
    if timed.is_timed is not None:
        row = int(np.argmin(timed.is_timed))
        raise SourceError(
            f"row {row} of stream `{name}` has no time: {timed.reasons[0]}; filter such rows out, or correct them"
        )
    if not is_recording or table.num_rows < 2:
        return timed.rows
    ts = read_times(timed.rows.column(info.time))
    return timed.rows if (ts[1:] >= ts[:-1]).all() else timed.rows.take(pa.array(np.argsort(ts, kind="stable")))


def refuse_mixture(frames: Mapping[str, Any]) -> None:
    """Spark streams and tables of this process cannot stream side by side; a table can be a relation there."""
    for name, frame in frames.items():
        if isinstance(frame, Stream) and not is_spark(frame):
            raise PlanError(f"`{name}` is a stream of this process among Spark frames; pass it as a Spark frame too")
