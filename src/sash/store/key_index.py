"""A dictionary from key rows to dense ids.

    keys      hash       slots            ids    key columns
    (a, 1) -> 0x3f.. -> [0x3f..  0] ----> 0      (a, 1)       compared with the batch's row: equal, so the id is 0
    (b, 2) -> 0x3f.. -> [0x3f..  0] ----> 0      (a, 1)       not equal: on to the next slot with this hash
                        [0x3f..  1] ----> 1      (b, 2)       equal: 1

Law: two rows get the same id iff their keys are equal, where NULL equals NULL, NaN equals NaN and -0.0 equals 0.0. A
hash only names candidates; the columns decide. A single key of 64 bits is its own hash and needs no second look.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels import key_table
from sash.store import keys as hashing
from sash.store.rows import Rows
from sash.store.vector import Arena, Memory, Vector

FIRST_SLOTS = 1024
MAX_ROWS_PER_PART = 1 << 16
NONE = -1


class KeyIndex:
    """Ids 0, 1, 2 … of keys in order of first appearance."""

    def __init__(self, schema: pa.Schema, arena: Arena | None = None):
        """`schema` has the key columns; all are hashable (see `keys.is_hashable`) or of the type of NULL."""
        arena = arena or Memory()
        self.schema = schema
        self.n_ids = 0
        self._arena = arena
        self._names = tuple(field.name for field in schema if not pa.types.is_null(field.type))
        self._is_exact = hashing.is_exact([schema.field(name).type for name in self._names])
        self._rows = Rows(schema, arena)
        self._hashes = Vector(np.int64, arena)
        self._slots = Vector(np.int64, arena, key_table.SLOT_WIDTH)
        self.reset()

    def reset(self) -> None:
        """Forgets all keys."""
        self.n_ids = 0
        self._null_id = NONE
        self._rows.clear(0)
        self._hashes.resize(1)
        self._fill_slots(FIRST_SLOTS)

    def encode(self, keys: pa.Table) -> np.ndarray:
        """The id of every row's key. Keys not seen before get the next ids. Columns beside the schema's do not count.

        Without columns all rows have id 0.
        """
        return self._by_parts(keys, adds=True)

    def find(self, keys: pa.Table) -> np.ndarray:
        """The id of every row's key, -1 where it has none."""
        return self._by_parts(keys, adds=False)

    def take(self, ids: np.ndarray) -> pa.Table:
        """The key columns of ids, in the order given. Zeros are 0.0, and there is one NaN."""
        if not self.schema.names:
            return pa.table({"ids": ids}).select([])
        return self._rows.take(ids + self._rows.base)

    def compact(self, alive: np.ndarray) -> np.ndarray:
        """Keeps the ids with `alive[id]`, in their order. Returns the new id by old id, -1 where it is gone.

        Costs as much as encoding all that stays: call it once more than half are dead.
        """
        assert len(alive) == self.n_ids
        new_ids = np.where(alive, np.cumsum(alive) - 1, NONE)
        kept = np.flatnonzero(alive)
        n_before = self.n_ids
        for first in range(0, len(kept), MAX_ROWS_PER_PART):
            ids = kept[first : first + MAX_ROWS_PER_PART]
            self._rows.append(self.take(ids))
            self._hashes.write(first, self._hashes.array[ids])
            self._arena.release_pages()
        self._rows.drop_before(self._rows.base + n_before)
        self._hashes.resize(len(kept))
        self.n_ids = len(kept)
        self._null_id = NONE if self._null_id < 0 else int(new_ids[self._null_id])
        self._fill_slots(_slots_for(self.n_ids))
        return new_ids

    def _by_parts(self, keys: pa.Table, adds: bool) -> np.ndarray:
        keys = self._normalise(keys)
        if not self._names:
            return self._look_up_nothing(keys, adds)
        parts = [self._look_up(part, adds) for part in self._parts(keys)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def _parts(self, keys: pa.Table) -> Iterator[pa.Table]:
        start = 0
        while start < keys.num_rows:
            n_rows = min(self._arena.rows_per_call, MAX_ROWS_PER_PART)
            yield keys.slice(start, n_rows)
            self._arena.release_pages()
            start += n_rows

    def _normalise(self, keys: pa.Table) -> pa.Table:
        """The key columns alone, each as one array of its declared type, with one zero and one NaN."""
        if not self.schema.names:
            return keys.select([])
        arrays = []
        for field in self.schema:
            array = hashing.one_chunk(keys.column(field.name))
            array = array if array.type == field.type else array.cast(field.type)
            arrays.append(one_zero_one_nan(array) if pa.types.is_floating(field.type) else array)
        return pa.table(arrays, schema=self.schema)

    def _look_up(self, keys: pa.Table, adds: bool) -> np.ndarray:
        if self._is_exact and keys.column(self._names[0]).null_count:
            return self._look_up_null(keys, adds)
        return self._look_up_rows(keys, adds)

    def _look_up_nothing(self, keys: pa.Table, adds: bool) -> np.ndarray:
        """Without columns that tell rows apart there is one key."""
        if adds and keys.num_rows and not self.n_ids:
            self._append(keys.slice(0, 1), np.zeros(1, np.int64))
        return np.full(keys.num_rows, 0 if self.n_ids else NONE, np.int64)

    def _look_up_null(self, keys: pa.Table, adds: bool) -> np.ndarray:
        """NULL has no hash of its own among exact keys: its id is kept apart."""
        column = keys.column(self._names[0])
        nulls = column.is_null().to_numpy()
        if adds and self._null_id < 0:
            first = int(np.argmax(nulls))
            before = self._look_up_rows(keys.slice(0, first), adds)
            self._null_id = self.n_ids
            self._append(keys.slice(first, 1), np.zeros(1, np.int64))
            return np.concatenate([before, self._look_up_null(keys.slice(first), adds)])
        ids = np.full(keys.num_rows, self._null_id, np.int64)
        ids[~nulls] = self._look_up_rows(keys.filter(column.is_valid()), adds)
        return ids

    def _look_up_rows(self, keys: pa.Table, adds: bool) -> np.ndarray:
        """One round per candidate: rows whose columns differ from their candidate's go on to the next."""
        n_rows, n_new = keys.num_rows, 0
        if adds and 2 * (self.n_ids + n_rows) > len(self._slots):
            self._fill_slots(_slots_for(self.n_ids + n_rows))
        hashes = hashing.encode_keys(keys, self._names)
        ids, at, firsts, places = (np.full(n_rows, NONE, np.int64) for _ in range(4))
        search, new = key_table.KeySearch(hashes, at, ids), key_table.NewIds(firsts, places)
        pending = np.arange(n_rows)
        while len(pending):
            n_new = key_table.match(pending, search, self._slots.array, self.n_ids, n_new, adds, new)
            if self._is_exact:
                break
            pending = self._mismatches(keys, pending, ids, firsts)
        return self._add(keys, hashes, ids, firsts[:n_new], places[:n_new]) if n_new else ids

    def _mismatches(self, keys: pa.Table, pending: np.ndarray, ids: np.ndarray, firsts: np.ndarray) -> np.ndarray:
        """The rows whose key is not that of the id which they were given for now."""
        candidates = ids[pending]
        if candidates.min() >= 0 and candidates.max() < self.n_ids:
            return pending[~_are_equal(_rows_of(keys, pending), self.take(candidates), self._names)]
        is_old, is_new = (candidates >= 0) & (candidates < self.n_ids), candidates >= self.n_ids
        is_wrong = np.zeros(len(pending), np.bool_)
        if is_old.any():
            held = self.take(candidates[is_old])
            is_wrong[is_old] = ~_are_equal(_rows_of(keys, pending[is_old]), held, self._names)
        if is_new.any():
            first = firsts[candidates[is_new] - self.n_ids]
            is_copy = first != pending[is_new]
            where = np.flatnonzero(is_new)[is_copy]
            is_wrong[where] = ~_are_equal(_rows_of(keys, pending[where]), _rows_of(keys, first[is_copy]), self._names)
        return pending[is_wrong]

    def _add(
        self, keys: pa.Table, hashes: np.ndarray, ids: np.ndarray, firsts: np.ndarray, places: np.ndarray
    ) -> np.ndarray:
        """Keeps the new keys. Returns the ids, the new ones numbered in order of first appearance."""
        if np.any(firsts[1:] < firsts[:-1]):  # rounds found them in another order
            order = np.argsort(firsts)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            is_new = ids >= self.n_ids
            ids[is_new] = self.n_ids + rank[ids[is_new] - self.n_ids]
            self._slots.array[places, key_table.ID] = self.n_ids + rank
            firsts = firsts[order]
        self._append(_rows_of(keys, firsts), hashes[firsts])
        return ids

    def _append(self, keys: pa.Table, hashes: np.ndarray) -> None:
        self._rows.append(keys)
        self._hashes.write(self.n_ids, hashes)
        self.n_ids += len(hashes)

    def _fill_slots(self, n_slots: int) -> None:
        """Makes a table of so many slots for the ids that there are."""
        self._slots.resize(n_slots)
        self._slots.array[:, key_table.ID] = NONE
        first = 0
        while first < self.n_ids:
            last = min(self.n_ids, first + self._arena.rows_per_call)
            key_table.fill(self._hashes.array, first, last, self._null_id, self._slots.array)
            self._arena.release_pages()
            first = last


def _slots_for(n_ids: int) -> int:
    """A power of two, of which the ids take a quarter to a half."""
    return max(FIRST_SLOTS, 1 << (2 * n_ids).bit_length())


def _rows_of(keys: pa.Table, rows: np.ndarray) -> pa.Table:
    """The given rows in the given order; without a copy when that is the table itself."""
    if len(rows) == keys.num_rows and np.array_equal(rows, np.arange(len(rows))):
        return keys
    return keys.take(pa.array(rows)).combine_chunks()


def _are_equal(left: pa.Table, right: pa.Table, names: tuple[str, ...]) -> np.ndarray:
    """Whether the rows at the same place have equal keys."""
    equal = np.ones(left.num_rows, np.bool_)
    for name in names:
        equal &= _equal_values(_comparable(left.column(name)), _comparable(right.column(name)))
    return equal


def _equal_values(left: pa.Array, right: pa.Array) -> np.ndarray:
    equal = pc.equal(left, right)
    if equal.null_count:
        equal = pc.or_(equal.fill_null(False), pc.and_(left.is_null(), right.is_null()))
    return equal.to_numpy(zero_copy_only=False)


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """One array; floats as their bits, of which NaN has the same ones everywhere in an index."""
    array = hashing.one_chunk(column)
    if not pa.types.is_floating(array.type):
        return array
    return array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[array.type.bit_width])


def one_zero_one_nan(array: pa.Array) -> pa.Array:
    """Floats as an index keeps them: -0.0 is 0.0, and all NaNs have the same bits."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, array.type, mask=nulls)
