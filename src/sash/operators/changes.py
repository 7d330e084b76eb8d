"""The last step of a query: signed tuples as the changes that users see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import EXPIRES, NEVER, TS, int64_column, sorted_by_time


def to_changes(batch: pa.Table, schema: pa.Schema, with_ties: bool = True) -> pa.Table:
    """The batch in order of time with the columns of `schema`; a tuple that never leaves by itself has no expiry.

    The order of changes of one instant costs as much as the join itself. It can be left out where nobody sees it:
    between the groups of a batch on Spark there is none.
    """
    batch = sorted_by_time(batch.select(schema.names), with_ties)
    expires = int64_column(batch, EXPIRES)
    times = {TS: pa.array(int64_column(batch, TS)), EXPIRES: pa.array(expires, mask=expires == NEVER)}
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
