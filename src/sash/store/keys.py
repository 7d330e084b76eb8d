"""Keys as 64-bit integers.

Equal keys give equal integers. A single key of at most 64 bits is its own integer (`is_exact`); for all others two
different keys may, rarely, share one, and whoever looks them up compares the columns themselves afterwards.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.kernels.hashing import NULL_HASH, hash_bytes, hash_words


def is_hashable(type: pa.DataType) -> bool:
    """Whether values of this type can be a hash key; values of other types are compared pair by pair."""
    return _is_word(type) or _is_bytes(type) or pa.types.is_decimal(type)


def is_exact(types: list[pa.DataType]) -> bool:
    """Whether equal integers imply equal keys."""
    return len(types) == 1 and (_is_word(types[0]) or (pa.types.is_decimal(types[0]) and types[0].precision <= 18))


def encode_keys(table: pa.Table, columns: tuple[str, ...]) -> np.ndarray:
    """The integer key of every row, 0 without columns. NULL is a value of its own unless keys are exact."""
    if not columns:
        return np.zeros(table.num_rows, np.int64)
    arrays = [one_chunk(table.column(name)) for name in columns]
    if is_exact([array.type for array in arrays]):
        return _words(arrays[0])[0].view(np.int64)
    return hash_rows(arrays).view(np.int64)


def hash_rows(arrays: list[pa.Array]) -> np.ndarray:
    """A hash of each row over all the arrays; NULL counts as a value of its own."""
    seed = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        before = seed.copy()
        if _is_bytes(array.type):
            offsets, data = _byte_buffers(array)
            hash_bytes(offsets, data, seed)
        else:
            for words in _words(array):
                hash_words(words, seed)
        if array.null_count:
            nulls = array.is_null().to_numpy(zero_copy_only=False)
            seed[nulls] = before[nulls] * np.uint64(31) + NULL_HASH
    return seed


def hash_whole_rows(table: pa.Table) -> np.ndarray:
    """A hash of each row over all columns, of whatever types: values that are nested, or intervals, as text."""
    return hash_rows([hashable(column) for column in table.columns])


def hashable(column: pa.ChunkedArray) -> pa.Array:
    """Values that can be hashed, and are equal where the column's are: as text where they are nested, or intervals."""
    if is_hashable(column.type):
        return one_chunk(column)
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def _is_word(type: pa.DataType) -> bool:
    return (
        pa.types.is_integer(type)
        or pa.types.is_floating(type)
        or pa.types.is_boolean(type)
        or (pa.types.is_temporal(type) and not pa.types.is_interval(type))
    )


def _is_bytes(type: pa.DataType) -> bool:
    return (
        pa.types.is_string(type)
        or pa.types.is_binary(type)
        or pa.types.is_large_string(type)
        or pa.types.is_large_binary(type)
    )


def _words(array: pa.Array) -> list[np.ndarray]:
    """The values as columns of 64-bit words; NULLs hold anything."""
    type = array.type
    if pa.types.is_decimal(type):
        array = array.cast(pa.decimal128(38, type.scale))
        data = array.buffers()[1]
        assert data is not None
        halves = np.frombuffer(data, np.uint64)
        halves = halves[2 * array.offset : 2 * (array.offset + len(array))]
        return [halves[0::2].copy()] if type.precision <= 18 else [halves[0::2].copy(), halves[1::2].copy()]
    if pa.types.is_floating(type):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        return [np.where(np.isnan(values), np.nan, values).view(np.uint64)]
    if not _is_word(type):
        raise InternalError(f"a key of type {type} cannot be hashed")
    if pa.types.is_boolean(type):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(type):
        array = array.view(pa.int32() if type.bit_width == 32 else pa.int64())
    return [array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)]


def _byte_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    assert offsets is not None
    width = np.int64 if is_large else np.int32
    starts = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return starts, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array, decoded if it is a dictionary."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
