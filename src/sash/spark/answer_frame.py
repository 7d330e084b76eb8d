"""`sash.answer` over a Spark DataFrame of changes: the answer as a DataFrame, by Spark's own functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from sash.errors import PlanError
from sash.operators.living_rows import SYSTEM
from sash.runtime.moments import Moment, moment_us
from sash.runtime.plain_answer import Groups, choose_reading
from sash.store.batch import EXPIRES, OP, TS
from sash.store.changes_reading import READING

COPIES = "#copies"
_REMEDY = "read what the frame of `sash.sql` was written to, or, of a query INTO a directory, pass its path"
_TOO_FEW = "the changes take back rows that they have not brought; give all changes, and those of one query only"


def answer_frame(changes: DataFrame, at: Moment | None = None, groups: Groups = None) -> DataFrame:
    """The rows that are in the answer at an instant; without `at`, at the newest `_ts`, which is looked up now."""
    if changes.isStreaming:
        raise PlanError("a streaming DataFrame has no answer yet; write it, and read what was written with spark.read")
    reading = choose_reading(_schema(changes), groups, _REMEDY)
    instant = _newest(changes) if at is None else _literal(moment_us(at), changes.schema[TS].dataType)
    happened = F.col(TS).isNull() if instant is None else F.col(TS).isNull() | (F.col(TS) <= instant)
    past = changes.where(happened)
    if reading.replaced_by is not None:
        return _newest_rows(past, reading.replaced_by)
    return _counted_rows(past if instant is None else past.where(F.col(EXPIRES).isNull() | (F.col(EXPIRES) > instant)))


def _counted_rows(changes: DataFrame) -> DataFrame:
    """Every row as often as `_op` adds up to."""
    content = _content(changes)
    counted = changes.groupBy(*content).agg(F.sum(OP).cast("int").alias(COPIES))
    copies = _column(COPIES)
    is_there = F.when(copies < 0, F.raise_error(_TOO_FEW).cast("boolean")).otherwise(copies > 0)
    repeated = counted.where(is_there).withColumn(COPIES, F.explode(F.array_repeat(F.lit(1), copies)))
    return repeated.select(*content)


def _newest_rows(changes: DataFrame, groups: Sequence[str]) -> DataFrame:
    """The newest row of each group, unless it says that the group has gone."""
    age = F.struct(F.col(TS).isNotNull(), F.col(TS))
    whole = F.struct(*map(_column, changes.columns))
    newest = changes.groupBy(*map(_column, groups)).agg(F.max_by(whole, age).alias(COPIES)).select(f"`{COPIES}`.*")
    return newest.where(F.col(OP) > 0).select(*_content(changes))


def _content(changes: DataFrame) -> list[Column]:
    return [_column(name) for name in changes.columns if name not in SYSTEM]


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _schema(changes: DataFrame) -> pa.Schema:
    """As of an Arrow table, with what the column `_op` tells."""
    schema = to_arrow_schema(changes.schema, timezone="UTC")
    told = changes.schema[OP].metadata.get(READING.decode()) if OP in changes.columns else None
    return schema.with_metadata(None if told is None else {READING: told.encode()})


def _newest(changes: DataFrame) -> Column | None:
    """The newest time of a change; None if none has one."""
    kind, newest = changes.schema[TS].dataType, F.max(TS)
    # Not as Python's datetime, which is in the time zone of this machine, and ends with the year 9999.
    if isinstance(kind, TimestampNTZType):
        newest = newest.cast("string")
    elif isinstance(kind, TimestampType):
        newest = F.unix_micros(newest)
    found = changes.agg(newest).collect()[0][0]
    return None if found is None else _literal(found, kind)


def _literal(time: int | str, kind: DataType) -> Column:
    """An instant, in microseconds or as text, as a value of the type that tells time."""
    if isinstance(kind, TimestampNTZType):
        text = str(np.datetime64(time, "us")) if isinstance(time, int) else time
        return F.lit(text).cast(kind)
    return F.timestamp_micros(F.lit(time)) if isinstance(kind, TimestampType) else F.lit(time)
