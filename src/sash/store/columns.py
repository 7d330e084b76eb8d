"""Columns of rows that come at the end and go at the front, in vectors laid out as Arrow lays out an array.

There is one kind of column for each layout: fixed width, booleans, strings and byte strings, lists, structs.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sash.errors import InternalError
from sash.kernels.gather import gather_words
from sash.store.column_buffers import Bits, NullMask, Offsets
from sash.store.offset_widths import is_list, list_offsets
from sash.store.vector import Arena, Vector


class Column(Protocol):
    """Values of one type. The number of values is the owner's to know."""

    @property
    def type(self) -> pa.DataType:
        """Of a view: as declared, but with 64 bits for every offset, as a window may hold more than a batch can."""
        ...

    def append(self, array: pa.Array, n_rows: int) -> None: ...

    def view(self, first: int, n_rows: int) -> pa.Array: ...

    def drop(self, n_gone: int, n_rows: int) -> None: ...


class FixedColumn:
    """Numbers, times, decimals: all that has a fixed width in bytes."""

    def __init__(self, type: pa.DataType, arena: Arena):
        self.type = type
        self._width = type.bit_width // 8
        self._valid = NullMask(arena)
        self.items = Vector(f"V{self._width}", arena)

    def append(self, array: pa.Array, n_rows: int) -> None:
        self._valid.append(array, n_rows)
        data = array.buffers()[1]
        assert data is not None or not len(array)
        start = array.offset * self._width
        values = np.frombuffer(data, np.uint8)[start : start + len(array) * self._width] if data is not None else b""
        self.items.write(n_rows, np.frombuffer(values, f"V{self._width}"))

    def view(self, first: int, n_rows: int) -> pa.Array:
        buffers = [self._valid.buffer(), pa.py_buffer(self.items.array)]
        return pa.Array.from_buffers(self.type, n_rows, buffers, offset=first)

    @property
    def is_words(self) -> bool:
        """Whether values are 64 bits each, and none is NULL."""
        return self._width == 8 and self._valid.buffer() is None

    def gather(self, rows: np.ndarray, base: int) -> pa.Array:
        """The values of some rows, of which `base` is the first."""
        words = gather_words(self.items.array.view(np.int64), rows, base)
        return pa.Array.from_buffers(self.type, len(rows), [None, pa.py_buffer(words)])

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._valid.drop(n_gone, n_rows)
        self.items.drop(n_gone, n_rows)


class _BooleanColumn:
    type = pa.bool_()

    def __init__(self, type: pa.DataType, arena: Arena):
        self._valid = NullMask(arena)
        self._values = Bits(arena)

    def append(self, array: pa.Array, n_rows: int) -> None:
        self._valid.append(array, n_rows)
        self._values.append(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8), n_rows)

    def view(self, first: int, n_rows: int) -> pa.Array:
        return pa.Array.from_buffers(pa.bool_(), n_rows, [self._valid.buffer(), self._values.buffer()], offset=first)

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._valid.drop(n_gone, n_rows)
        self._values.drop(n_gone, n_rows)


class _NullColumn:
    type = pa.null()

    def __init__(self, type: pa.DataType, arena: Arena):
        pass

    def append(self, array: pa.Array, n_rows: int) -> None:
        pass

    def view(self, first: int, n_rows: int) -> pa.Array:
        return pa.nulls(n_rows)

    def drop(self, n_gone: int, n_rows: int) -> None:
        pass


class _BytesColumn:
    """Strings and byte strings."""

    def __init__(self, type: pa.DataType, arena: Arena):
        is_text = pa.types.is_string(type) or pa.types.is_large_string(type)
        self.type = pa.large_string() if is_text else pa.large_binary()
        self._valid = NullMask(arena)
        self._offsets = Offsets(arena)
        self._data = Vector(np.uint8, arena)

    def append(self, array: pa.Array, n_rows: int) -> None:
        array = array.cast(self.type)
        self._valid.append(array, n_rows)
        if not len(array):
            return
        _, starts, data = array.buffers()
        assert starts is not None
        offsets = np.frombuffer(starts, np.int64)[array.offset : array.offset + len(array) + 1]
        if data is not None:
            self._data.write(self._offsets.at(n_rows), np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]])
        self._offsets.append(offsets, n_rows)

    def view(self, first: int, n_rows: int) -> pa.Array:
        buffers = [self._valid.buffer(), self._offsets.buffer(), pa.py_buffer(self._data.array)]
        return pa.Array.from_buffers(self.type, n_rows, buffers, offset=first)

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._valid.drop(n_gone, n_rows)
        self._data.drop(self._offsets.at(n_gone), self._offsets.at(n_rows))
        self._offsets.drop(n_gone, n_rows)


class _StructColumn:
    def __init__(self, type: pa.DataType, arena: Arena):
        fields = [type.field(idx) for idx in range(type.num_fields)]
        self._fields = [make_column(field.type, arena) for field in fields]
        self.type = pa.struct([field.with_type(own.type) for field, own in zip(fields, self._fields, strict=True)])
        self._valid = NullMask(arena)

    def append(self, array: pa.Array, n_rows: int) -> None:
        assert isinstance(array, pa.StructArray)
        self._valid.append(array, n_rows)
        for idx, column in enumerate(self._fields):
            column.append(array.field(idx), n_rows)

    def view(self, first: int, n_rows: int) -> pa.Array:
        fields = [column.view(0, first + n_rows) for column in self._fields]
        return pa.Array.from_buffers(self.type, n_rows, [self._valid.buffer()], offset=first, children=fields)

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._valid.drop(n_gone, n_rows)
        for column in self._fields:
            column.drop(n_gone, n_rows)


class _ListColumn:
    """Lists, and maps as lists of their entries."""

    def __init__(self, type: pa.DataType, arena: Arena):
        assert is_list(type)
        is_map = pa.types.is_map(type)
        self._items = make_column(pa.struct([type.key_field, type.item_field]) if is_map else type.value_type, arena)
        self.type = pa.large_list(self._items.type)
        self._valid = NullMask(arena)
        self._offsets = Offsets(arena)

    def append(self, array: pa.Array, n_rows: int) -> None:
        self._valid.append(array, n_rows)
        if not len(array):
            return
        offsets = list_offsets(array)
        self._items.append(_entries(array).slice(offsets[0], offsets[-1] - offsets[0]), self._offsets.at(n_rows))
        self._offsets.append(offsets, n_rows)

    def view(self, first: int, n_rows: int) -> pa.Array:
        items = self._items.view(0, self._offsets.at(first + n_rows))
        buffers = [self._valid.buffer(), self._offsets.buffer()]
        return pa.Array.from_buffers(self.type, n_rows, buffers, offset=first, children=[items])

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._valid.drop(n_gone, n_rows)
        self._items.drop(self._offsets.at(n_gone), self._offsets.at(n_rows))
        self._offsets.drop(n_gone, n_rows)


class _FixedListColumn:
    """Lists that are all of one length."""

    def __init__(self, type: pa.DataType, arena: Arena):
        assert pa.types.is_fixed_size_list(type)
        self._size = type.list_size
        self._items = make_column(type.value_type, arena)
        self.type = pa.list_(self._items.type, self._size)
        self._valid = NullMask(arena)

    def append(self, array: pa.Array, n_rows: int) -> None:
        assert isinstance(array, pa.FixedSizeListArray)
        self._valid.append(array, n_rows)
        items = array.values.slice(array.offset * self._size, len(array) * self._size)
        self._items.append(items, n_rows * self._size)

    def view(self, first: int, n_rows: int) -> pa.Array:
        items = self._items.view(0, (first + n_rows) * self._size)
        return pa.Array.from_buffers(self.type, n_rows, [self._valid.buffer()], offset=first, children=[items])

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._valid.drop(n_gone, n_rows)
        self._items.drop(n_gone * self._size, n_rows * self._size)


def make_column(type: pa.DataType, arena: Arena) -> Column:
    kinds = (
        (pa.types.is_null, _NullColumn),
        (pa.types.is_boolean, _BooleanColumn),
        (_is_bytes, _BytesColumn),
        (pa.types.is_struct, _StructColumn),
        (is_list, _ListColumn),
        (pa.types.is_fixed_size_list, _FixedListColumn),
        (_is_fixed, FixedColumn),
    )
    for is_kind, make in kinds:
        if is_kind(type):
            return make(type, arena)
    raise InternalError(f"a window cannot hold values of type {type}")


def _is_bytes(type: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(type) for test in tests)


def _is_fixed(type: pa.DataType) -> bool:
    try:
        return type.bit_width % 8 == 0 and not pa.types.is_dictionary(type)
    except ValueError:
        return False


def _entries(array: pa.Array) -> pa.Array:
    """The entries of all lists, or of all maps as structs, those of values outside a slice included."""
    if isinstance(array, pa.MapArray):
        fields = [array.type.key_field, array.type.item_field]
        return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    assert isinstance(array, (pa.ListArray, pa.LargeListArray))
    return array.values
