"""Arrays as Arrow columns, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def times_column(times_us: np.ndarray, zone: str | None = None) -> pa.Array:
    """Microseconds as timestamps."""
    return pa.array(times_us).cast(pa.timestamp("us", zone))


def read_times(column: pa.ChunkedArray) -> np.ndarray:
    """Timestamps as microseconds; none of them may be NULL."""
    return column.cast(pa.int64()).to_numpy()


def zone_of(column: pa.ChunkedArray) -> str | None:
    """The time zone of timestamps, if they have one."""
    assert pa.types.is_timestamp(column.type)
    return column.type.tz


def decimals_column(unscaled: np.ndarray, dtype: pa.DataType) -> pa.Array:
    """Numbers that are not negative, as decimals: 128 bits each, of which the upper half is zero."""
    words = np.zeros((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    return pa.Array.from_buffers(dtype, len(unscaled), [None, pa.py_buffer(words)])
