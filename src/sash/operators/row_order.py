"""The order of rows by several columns: each row, by its dense number, as a byte string in that order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels import byte_string_table as kernel
from sash.kernels.arrays import Words
from sash.kernels.sort_key_bytes import ENDED, FIXED
from sash.operators.accumulators.argument_columns import decimal_words
from sash.operators.accumulators.manner import SortKey
from sash.operators.accumulators.ranked import NULL_BEFORE, NULL_BEHIND, append_sort_key
from sash.operators.accumulators.sortable import SIGN_BIT, is_bytes, is_word, to_bytes, to_words
from sash.store.keys import one_chunk
from sash.store.vector import Arena, Vector

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
PREFIX_BYTES = 8


class RowOrder:
    """Strings of rows that come in order of their numbers. By `keys` rows are ordered, and by `ties`, upwards with NULL
    behind all others, those of one class: that agree in all keys.
    """

    def __init__(self, keys: tuple[tuple[str, SortKey], ...], ties: tuple[str, ...], arena: Arena):
        self._keys = keys
        self._ties = tuple((name, SortKey()) for name in ties)
        self.n_rows = 0
        self._offsets, self._data = Vector(np.int64, arena), Vector(np.uint8, arena)
        self._key_lengths = Vector(np.int64, arena)
        self._offsets.array[0] = 0

    @property
    def words(self) -> Words:
        """The strings. Not to be kept over a call that changes them."""
        return self._offsets.array[: self.n_rows + 1], self._data.array

    @property
    def key_lengths(self) -> np.ndarray:
        """How many bytes of each string tell its class."""
        return self._key_lengths.array[: self.n_rows]

    def append(self, rows: pa.Table) -> None:
        """Gives the next numbers to rows."""
        none: Words = np.zeros(rows.num_rows + 1, np.int64), np.empty(0, np.uint8)
        keys = _written(rows, self._keys, none)
        offsets, data = _written(rows, self._ties, keys)
        start = int(self._offsets.array[self.n_rows])
        self._data.write(start, data)
        self._offsets.write(self.n_rows + 1, offsets[1:] + start)
        self._key_lengths.write(self.n_rows, np.diff(keys[0]))
        self.n_rows += rows.num_rows

    def compact(self, is_alive: np.ndarray) -> None:
        """Keeps the rows that are alive, in their order, under new numbers."""
        kept = np.flatnonzero(is_alive)
        offsets = np.empty(len(kept) + 1, np.int64)
        kernel.gather_lengths(kept, 0, self.words[0], offsets)
        data = np.empty(int(offsets[-1]), np.uint8)
        kernel.gather(kept, 0, *self.words, offsets, data)
        for vector, items in (
            (self._offsets, offsets),
            (self._data, data),
            (self._key_lengths, self.key_lengths[kept]),
        ):
            vector.resize(len(items))
            vector.write(0, items)
        self.n_rows = len(kept)


def _written(rows: pa.Table, columns: tuple[tuple[str, SortKey], ...], before: Words) -> Words:
    """Strings with some columns more."""
    for name, key in columns:
        column = one_chunk(rows.column(name))
        if pa.types.is_null(column.type):
            continue
        form = ENDED if is_bytes(column.type) else FIXED
        before = append_sort_key(
            before, column, form, NULL_BEFORE if key.nulls_first else NULL_BEHIND, key.is_descending
        )
    return before


class LeadingColumn:
    """What decides first about the order of rows, if the type of a column lets it tell any apart."""

    def __init__(self, keys: tuple[tuple[str, SortKey], ...], ties: tuple[str, ...], schema: pa.Schema):
        telling = [
            (name, key)
            for name, key in (*keys, *((name, SortKey()) for name in ties))
            if not pa.types.is_null(schema.field(name).type)
        ]
        self.name, self._key = telling[0] if telling else (schema.names[0], None)

    def words(self, rows: pa.Table) -> np.ndarray:
        """A number for each row, of which none is less than that of a row that comes before it."""
        column, key = one_chunk(rows.column(self.name)), self._key
        if key is None:
            return np.zeros(len(column), np.int64)
        words = ~_coarse_words(column) if key.is_descending else _coarse_words(column)
        if not column.null_count:
            return words
        return np.where(column.is_null().to_numpy(zero_copy_only=False), LEAST if key.nulls_first else GREATEST, words)


def _coarse_words(column: pa.Array) -> np.ndarray:
    """Integers that are in the order of values; some that differ may be equal."""
    if is_word(column.type):
        return to_words(column)
    if is_bytes(column.type):
        return _prefixes(*to_bytes(column))
    low, high = (decimal_words(column)[:, half].view(np.int64) for half in (0, 1))
    return np.where(high == low >> 63, low, np.where(high < 0, LEAST, GREATEST))


def _prefixes(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The first bytes of strings."""
    starts, ends = offsets[:-1], offsets[1:]
    prefixes = np.zeros(len(starts), np.uint64)
    for place in range(PREFIX_BYTES):
        there = np.flatnonzero(starts + place < ends)
        prefixes[there] |= data[starts[there] + place].astype(np.uint64) << np.uint64(8 * (PREFIX_BYTES - 1 - place))
    return (prefixes ^ SIGN_BIT).view(np.int64)
