"""The parts that columns are made of, as Arrow lays them out: bitmaps, which values are not NULL, and offsets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.vector import Arena, Vector


class Bits:
    """A bitmap, least bit first."""

    def __init__(self, arena: Arena):
        self._bytes = Vector(np.uint8, arena)

    def append(self, flags: np.ndarray, at: int) -> None:
        first, shift = divmod(at, 8)
        if shift:
            before = np.unpackbits(self._bytes.array[first : first + 1], count=shift, bitorder="little")
            flags = np.concatenate([before, flags])
        self._bytes.write(first, np.packbits(flags, bitorder="little"))

    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(self._bytes.array)

    def drop(self, n_gone: int, n_bits: int) -> None:
        left = np.unpackbits(self._bytes.array, count=n_bits, bitorder="little")[n_gone:]
        self._bytes.resize(len(left) // 8 + 1)
        self.append(left, 0)


class NullMask:
    """Which values are not NULL; a bitmap from the first NULL on."""

    def __init__(self, arena: Arena):
        self._arena = arena
        self._bits: Bits | None = None

    def append(self, array: pa.Array, n_rows: int) -> None:
        if self._bits is None and array.null_count:
            self._bits = Bits(self._arena)
            self._bits.append(np.ones(n_rows, np.uint8), 0)
        if self._bits is not None:
            self._bits.append(array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8), n_rows)

    def buffer(self) -> pa.Buffer | None:
        return None if self._bits is None else self._bits.buffer()

    def drop(self, n_gone: int, n_rows: int) -> None:
        if n_gone == n_rows:
            self._bits = None
        elif self._bits is not None:
            self._bits.drop(n_gone, n_rows)


class Offsets:
    """Where each value of a column of varying length begins, and where the last one ends."""

    def __init__(self, arena: Arena):
        self._starts = Vector(np.int64, arena)
        self._starts.array[0] = 0

    def append(self, offsets: np.ndarray, n_rows: int) -> None:
        end = self._starts.array[n_rows]
        self._starts.write(n_rows + 1, offsets[1:].astype(np.int64) + (end - offsets[0]))

    def at(self, row: int) -> int:
        return int(self._starts.array[row])

    def buffer(self) -> pa.Buffer:
        return pa.py_buffer(self._starts.array)

    def drop(self, n_gone: int, n_rows: int) -> None:
        self._starts.drop(n_gone, n_rows + 1)
        starts = self._starts.array[: n_rows + 1 - n_gone]
        starts -= starts[0]
