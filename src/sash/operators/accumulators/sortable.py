"""Values as 64-bit integers or as byte strings in the same order, and back.

Equal values give equal integers and equal bytes: -0.0 is stored as 0.0, and NaN is one value, the greatest, as in
DuckDB. Where a value is NULL, its integer or bytes mean nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.operators.accumulators.argument_columns import decimal_words, from_decimal_words, is_narrow_decimal
from sash.store.ordered_multiset import Words

SIGN_BIT = np.uint64(1 << 63)
MAGNITUDE = np.int64((1 << 63) - 1)


def is_word(type: pa.DataType) -> bool:
    """Whether a 64-bit integer can stand for a value."""
    is_time = pa.types.is_temporal(type) and not pa.types.is_interval(type)
    is_number = pa.types.is_integer(type) or pa.types.is_floating(type) or is_narrow_decimal(type)
    return is_time or is_number or pa.types.is_boolean(type)


def is_bytes(type: pa.DataType) -> bool:
    """Whether a value is a byte string itself."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(type) for test in tests)


def is_sortable(type: pa.DataType) -> bool:
    return is_word(type) or is_bytes(type) or pa.types.is_decimal128(type)


def to_words(array: pa.Array) -> np.ndarray:
    """Values of a word type as integers."""
    type = array.type
    if pa.types.is_decimal(type):
        return np.ascontiguousarray(decimal_words(array)[:, 0]).view(np.int64)
    if pa.types.is_floating(type):
        numbers = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
        return np.where(bits < 0, bits ^ MAGNITUDE, bits)
    if pa.types.is_boolean(type):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(type):
        array = array.view(pa.int32() if type.bit_width == 32 else pa.int64())
    integers = (array.fill_null(0) if array.null_count else array).to_numpy()
    return (integers ^ SIGN_BIT).view(np.int64) if pa.types.is_uint64(type) else integers.astype(np.int64)


def from_words(words: np.ndarray, valid: np.ndarray, type: pa.DataType) -> pa.Array:
    """Values of a word type, NULL where not valid."""
    if pa.types.is_decimal(type):
        words = np.where(valid, words, 0)
        halves = np.stack([words, words >> 63], axis=1).view(np.uint64)
        return from_decimal_words(halves, valid, type.scale).cast(type)
    if pa.types.is_temporal(type):
        integers = words.astype(np.int32) if type.bit_width == 32 else words
        return pa.array(integers, mask=~valid).view(type)
    if pa.types.is_boolean(type):
        return pa.array(words != 0, mask=~valid)
    if pa.types.is_uint64(type):
        return pa.array(words.view(np.uint64) ^ SIGN_BIT, mask=~valid)
    if pa.types.is_floating(type):
        return pa.array(to_doubles(words), mask=~valid).cast(type)
    return pa.array(words.astype(type.to_pandas_dtype()), mask=~valid)


def to_doubles(words: np.ndarray) -> np.ndarray:
    """The doubles that words stand for."""
    return np.where(words < 0, words ^ MAGNITUDE, words).view(np.float64)


def to_bytes(array: pa.Array) -> Words:
    """Values of any sortable type as offsets and data."""
    if is_bytes(array.type):
        is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        starts = np.zeros(1, np.int64)
        if len(array):
            assert offsets is not None
            starts = np.frombuffer(offsets, np.int64 if is_large else np.int32)
            starts = starts[array.offset : array.offset + len(array) + 1].astype(np.int64)
        return starts, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    if is_word(array.type):
        columns = [to_words(array).view(np.uint64) ^ SIGN_BIT]
    else:
        halves = decimal_words(array)
        columns = [halves[:, 1] ^ SIGN_BIT, halves[:, 0]]
    data = np.stack(columns, axis=1).astype(">u8").view(np.uint8).reshape(-1)
    return np.arange(len(array) + 1, dtype=np.int64) * (8 * len(columns)), data


def from_bytes(offsets: np.ndarray, data: np.ndarray, valid: np.ndarray, type: pa.DataType) -> pa.Array:
    """Values of any sortable type, NULL where not valid; such have no bytes."""
    n_values = len(offsets) - 1
    if is_bytes(type):
        is_large = pa.types.is_large_string(type) or pa.types.is_large_binary(type)
        flags = pa.py_buffer(np.packbits(valid, bitorder="little"))
        starts = pa.py_buffer(offsets.astype(np.int64 if is_large else np.int32))
        return pa.Array.from_buffers(type, n_values, [flags, starts, pa.py_buffer(data)])
    width = 1 if is_word(type) else 2
    columns = np.zeros((n_values, width), np.uint64)
    columns[valid] = data.view(">u8").reshape(-1, width)
    columns[:, 0] ^= SIGN_BIT
    if is_word(type):
        return from_words(np.ascontiguousarray(columns[:, 0]).view(np.int64), valid, type)
    assert pa.types.is_decimal(type)
    columns[~valid] = 0
    return from_decimal_words(columns[:, ::-1], valid, type.scale).cast(type)
