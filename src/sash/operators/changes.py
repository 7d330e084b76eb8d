"""The last step of a query: signed tuples as the changes that users see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import BEGINNING, EXPIRES, NEVER, TS, apart_in_time, int64_column, signs, sorted_by_time


def to_changes(batch: pa.Table, schema: pa.Schema, tells_expiry: bool = True, with_ties: bool = True) -> pa.Table:
    """The batch in order of time with the columns of `schema`; a tuple that never leaves by itself has no expiry.

    One that has been there from the beginning has no time. Unless expirations are to be told, a negative tuple for what
    leaves by itself is left out.

    The order of changes of one instant costs as much as the join itself. It can be left out where nobody sees it:
    between the groups of a batch on Spark there is none.
    """
    parts = [_to_changes(part, schema, tells_expiry, with_ties) for part in apart_in_time(batch.select(schema.names))]
    return pa.concat_tables(parts)


def _to_changes(batch: pa.Table, schema: pa.Schema, tells_expiry: bool, with_ties: bool) -> pa.Table:
    if not tells_expiry:
        is_told = (signs(batch) > 0) | (int64_column(batch, TS) < int64_column(batch, EXPIRES))
        batch = batch if is_told.all() else batch.filter(pa.array(is_told))
    batch = sorted_by_time(batch, with_ties)
    ts, expires = int64_column(batch, TS), int64_column(batch, EXPIRES)
    times = {TS: pa.array(ts, mask=ts == BEGINNING), EXPIRES: pa.array(expires, mask=expires == NEVER)}
    arrays = [
        times[field.name].cast(field.type) if field.name in times else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def read_times(column: pa.ChunkedArray) -> np.ndarray:
    """A time column as int64 microseconds; it must not hold NULLs."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.cast(pa.int64()).to_numpy()
