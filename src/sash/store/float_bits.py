"""Floats as the integers of their bits, so that zeros of either sign, and one NaN and another, are different values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.keys import one_chunk

_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def bits_type(type_: pa.DataType) -> pa.DataType:
    """The type of the bits of floats; any other type as it is."""
    return _INTEGERS[type_.bit_width] if pa.types.is_floating(type_) else type_


def to_bits(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, floats as their bits."""
    array = one_chunk(column)
    return array.view(bits_type(array.type)) if pa.types.is_floating(array.type) else array


def from_bits(column: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """What `to_bits` was given."""
    array = one_chunk(column)
    return array.view(type_) if pa.types.is_floating(type_) else array


def in_order(bits: pa.Array) -> pa.Array:
    """The bits of floats as integers in the order of the floats; a negative zero comes before the other one."""
    integers = bits.fill_null(0).to_numpy().astype(np.int64)
    greatest = (1 << (bits.type.bit_width - 1)) - 1
    ordered = np.where(integers < 0, integers ^ greatest, integers)
    return pa.array(ordered, mask=bits.is_null().to_numpy(zero_copy_only=False) if bits.null_count else None)
