"""Lists, strings and maps with offsets of 64 bits, as windows keep them, and of the width that was declared."""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

AnyList: TypeAlias = pa.ListType | pa.LargeListType | pa.MapType


def is_list(type: pa.DataType) -> TypeGuard[AnyList]:
    return pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_map(type)


def list_offsets(array: pa.Array) -> np.ndarray:
    """Where the lists begin among all entries, and where the last one ends."""
    width = np.int64 if pa.types.is_large_list(array.type) else np.int32
    starts = array.buffers()[1]
    assert starts is not None
    return np.frombuffer(starts, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)


def to_type(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Values as they were declared: all offsets with 32 bits that had 32 bits when they came."""
    if array.type == type:
        return array
    if pa.types.is_struct(type):
        assert isinstance(array, pa.StructArray)
        fields = [to_type(array.field(idx), type.field(idx).type) for idx in range(type.num_fields)]
        return _assemble(type, array, [], fields)
    if pa.types.is_fixed_size_list(type):
        assert isinstance(array, pa.FixedSizeListArray)
        items = array.values.slice(array.offset * type.list_size, len(array) * type.list_size)
        return _assemble(type, array, [], [to_type(items, type.value_type)])
    if not is_list(type):
        return array.cast(type)
    assert isinstance(array, (pa.ListArray, pa.LargeListArray))
    offsets = list_offsets(array)
    entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    is_map = pa.types.is_map(type)
    entries = to_type(entries, pa.struct([type.key_field, type.item_field]) if is_map else type.value_type)
    width = np.int64 if pa.types.is_large_list(type) else np.int32
    return _assemble(type, array, [pa.py_buffer((offsets - offsets[0]).astype(width))], [entries])


def _assemble(type: pa.DataType, array: pa.Array, buffers: list[pa.Buffer], children: list[pa.Array]) -> pa.Array:
    """An array with the NULLs of another and these parts, which begin with its first value."""
    valid = None
    if array.null_count:
        flags = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        valid = pa.py_buffer(np.packbits(flags, bitorder="little"))
    return pa.Array.from_buffers(type, len(array), [valid, *buffers], children=children)
