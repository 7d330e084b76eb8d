"""Arguments as arrays for kernels, and results of kernels as Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def is_narrow_decimal(type: pa.DataType) -> bool:
    """Whether the digits fit a 64-bit integer."""
    return pa.types.is_decimal(type) and type.precision <= 18


def is_integral(type: pa.DataType) -> bool:
    """Whether values are integers of at most 64 bits, with a fixed unit."""
    return pa.types.is_integer(type) or pa.types.is_boolean(type) or is_narrow_decimal(type)


def unit_of(type: pa.DataType) -> float:
    """How many of the integers that stand for values make 1."""
    return 10.0**type.scale if pa.types.is_decimal(type) else 1.0


def parts_of_unit(type: pa.DataType) -> np.ndarray:
    """The same, exactly: as doubles that add up to it."""
    parts: list[float] = []
    left = 10**type.scale if pa.types.is_decimal(type) else 1
    while left:
        parts.append(float(left))
        left -= int(parts[-1])
    return np.array(parts)


def valid_flags(array: pa.Array | None) -> np.ndarray:
    """Which values are not NULL; empty if none is NULL."""
    if array is None or not array.null_count:
        return np.empty(0, np.bool_)
    return array.is_valid().to_numpy(zero_copy_only=False)


def integer_words(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Integers, booleans and decimals as low (uint64) and high (int64) words; where NULL, anything."""
    if pa.types.is_decimal(array.type):
        halves = decimal_words(array)
        return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1]).view(np.int64)
    if pa.types.is_uint64(array.type):
        low = _numbers(array)
        return low, np.zeros(len(low), np.int64)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    words = _numbers(array).astype(np.int64, copy=False)
    return words.view(np.uint64), words >> 63


def decimal_words(array: pa.Array) -> np.ndarray:
    """Decimals as rows of two words, low and high; where NULL, anything."""
    assert pa.types.is_decimal(array.type)
    array = array.cast(pa.decimal128(38, array.type.scale))
    data = array.buffers()[1]
    assert data is not None
    words = np.frombuffer(data, np.uint64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def doubles(array: pa.Array) -> np.ndarray:
    """Numbers as doubles; 0.0 where NULL."""
    return _numbers(array.cast(pa.float64()))


def _numbers(array: pa.Array) -> np.ndarray:
    return (array.fill_null(0) if array.null_count else array).to_numpy()


def both(arrays: np.ndarray, valid: np.ndarray, result: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The two rows of a kernel's result as arrays, NULL where not valid."""
    before, after = (as_type(pa.array(arrays[side], mask=~valid[side]), result) for side in range(2))
    return before, after


def as_type(array: pa.Array, type: pa.DataType) -> pa.Array:
    return array if array.type == type else array.cast(type)


def from_decimal_words(words: np.ndarray, valid: np.ndarray, scale: int) -> pa.Array:
    """Decimals of 38 digits from rows of two words."""
    flags = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [flags, pa.py_buffer(np.ascontiguousarray(words))]
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(words), buffers)
