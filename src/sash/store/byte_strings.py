"""Byte strings in use, each under a dense number: equal numbers, equal bytes."""

from __future__ import annotations

import numpy as np

from sash.kernels import byte_string_table as kernel
from sash.store.vector import Arena, Vector

FIRST_SLOTS = 64


class ByteStrings:
    """Counts the uses of each string; numbers of strings without a use may be given anew by `compact`."""

    def __init__(self, arena: Arena):
        self.n_strings = 0
        self._n_used = 0
        self._offsets = Vector(np.int64, arena)
        self._offsets.array[0] = 0
        self._data = Vector(np.uint8, arena)
        self._uses = Vector(np.int64, arena)
        self._table = Vector(np.int64, arena, capacity=FIRST_SLOTS)
        self._table.array[:] = 0

    @property
    def words(self) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and data of all strings. Not to be kept over `intern` or `compact`."""
        return self._offsets.array[: self.n_strings + 1], self._data.array

    def intern(self, offsets: np.ndarray, data: np.ndarray, valid: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """The number of each string, -1 where `valid` is given and False. Each is one use more or less, by sign."""
        self._reserve(len(signs), int(offsets[-1] - offsets[0]))
        out = np.empty(len(signs), np.int64)
        vectors = self._offsets, self._data, self._uses, self._table
        strings = kernel.StringTable(*(vector.array for vector in vectors))
        self.n_strings, n_more_used = kernel.intern(offsets, data, valid, signs, self.n_strings, strings, out)
        self._n_used += n_more_used
        return out

    def use(self, strings: np.ndarray, sign: int) -> None:
        """Each of these strings is used once more (+1) or less (-1); -1 is none."""
        self._n_used += kernel.use(strings, sign, self._uses.array)

    def take(self, strings: np.ndarray, skip: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and data of the given strings without their first `skip` bytes; -1 has no bytes."""
        offsets, data = self.words
        out_offsets = np.empty(len(strings) + 1, np.int64)
        kernel.gather_lengths(strings, skip, offsets, out_offsets)
        out_data = np.empty(int(out_offsets[-1]), np.uint8)
        kernel.gather(strings, skip, offsets, data, out_offsets, out_data)
        return out_offsets, out_data

    def compact(self) -> np.ndarray | None:
        """Forgets strings without a use if they are the most: the new number by the old one, -1: gone. Else None."""
        if self.n_strings < FIRST_SLOTS or 2 * self._n_used >= self.n_strings:
            return None
        mapping = np.empty(self.n_strings, np.int64)
        self.n_strings = kernel.drop_unused(
            self.n_strings, self._offsets.array, self._data.array, self._uses.array, mapping
        )
        n_bytes = int(self._offsets.array[self.n_strings])
        for vector, n_items in (
            (self._offsets, self.n_strings + 1),
            (self._data, n_bytes),
            (self._uses, self.n_strings),
        ):
            vector.resize(n_items)
        self._fill_table(self.n_strings)
        return mapping

    def _reserve(self, n_more: int, n_more_bytes: int) -> None:
        n_strings = self.n_strings + n_more
        self._data.reserve(int(self._offsets.array[self.n_strings]) + n_more_bytes)
        self._offsets.reserve(n_strings + 1)
        self._uses.reserve(n_strings)
        if 2 * n_strings > len(self._table):
            self._fill_table(2 * n_strings)

    def _fill_table(self, n_strings: int) -> None:
        """A new table with room for so many strings."""
        self._table.resize(max(FIRST_SLOTS, 1 << (2 * n_strings - 1).bit_length()) if n_strings else FIRST_SLOTS)
        self._table.array[:] = 0
        kernel.fill_table(self.n_strings, self._offsets.array, self._data.array, self._table.array)
