"""Values that others place, as `x` in `LIST(x ORDER BY y DESC)` and in `ARG_MIN(x, y)`, as members of groups.

A member is the byte string of the keys and then of the value: keys decide, and among equal keys the value, NULL before
all others. So the order of members is total, and follows from the rows alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.kernels.sort_key_bytes import ENDED, FIXED, LAST, THERE, append_column, find_last, gather_tails
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.manner import SortKey
from sash.operators.accumulators.members import ALL_VALID
from sash.operators.accumulators.sortable import from_bytes, is_bytes, is_word, to_bytes
from sash.store.byte_strings import ByteStrings
from sash.store.ordered_multiset import Words
from sash.store.vector import Arena

NULL_BEFORE, NULL_BEHIND = 0, 2
TURNED = 0xFF


class RankedMembers:
    """Structs of a value and its keys. `needed` of the first fields must not be NULL, else an event does not count."""

    def __init__(self, type: pa.StructType, keys: tuple[SortKey, ...], needed: int, arena: Arena):
        self._type = type.field(0).type
        self._keys = keys
        self._needed = needed
        widths = [_width(type.field(1 + idx).type) for idx in range(len(keys))]
        self._widths = np.array(widths, np.int64)
        self._flips = np.array([TURNED if key.is_descending else 0 for key in keys], np.uint8)
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        """Forgets all values."""
        self._strings = ByteStrings(arena)

    @property
    def are_words(self) -> bool:
        """Whether values are 64-bit integers themselves."""
        return False

    @property
    def words(self) -> Words:
        """The byte strings that members stand for. Not to be kept over `encode` or `forget`."""
        return self._strings.words

    def encode(self, runs: AggregateRuns, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The member of each event, and which ones count; all if that is empty. Each is used, by its sign.

        The values may also be byte strings that `written` has given.
        """
        if pa.types.is_binary(values.type):
            return self._strings.intern(*to_bytes(values), ALL_VALID, runs.signs), ALL_VALID
        assert isinstance(values, pa.StructArray)
        value, *keys = values.flatten()
        rows: Words = np.zeros(len(values) + 1, np.int64), np.empty(0, np.uint8)
        for key, column in zip(self._keys, keys, strict=True):
            form = ENDED if is_bytes(column.type) else FIXED
            rows = append_key(rows, column, form, NULL_BEFORE if key.nulls_first else NULL_BEHIND, key.is_descending)
        rows = append_key(rows, value, LAST, NULL_BEFORE, False)
        valid = self._valid([value, *keys])
        return self._strings.intern(*rows, valid, runs.signs), valid

    def use(self, members: np.ndarray, sign: int) -> None:
        """Each of these members is used once more (+1) or less (-1); -1 is none."""
        self._strings.use(members, sign)

    def forget(self) -> np.ndarray | None:
        """Gives members that are in use new numbers, in the same order, when most are not. By the old ones."""
        return self._strings.compact()

    def decode(self, members: np.ndarray, valid: np.ndarray) -> pa.Array:
        """The values; NULL where not valid."""
        starts = np.full(len(members), -1, np.int64)
        there = np.flatnonzero(valid)
        found = np.empty(len(there), np.int64)
        strings = np.ascontiguousarray(members[there])
        find_last(strings, self.words, self._widths, self._flips, found)
        has_value = self.words[1][found] == THERE if len(found) else np.zeros(0, np.bool_)
        starts[there[has_value]] = found[has_value] + 1
        lengths = self.words[0][strings + 1] - found
        offsets, data = np.empty(len(members) + 1, np.int64), np.empty(int(lengths.sum()), np.uint8)
        gather_tails(np.ascontiguousarray(members), starts, self.words, offsets, data)
        return from_bytes(offsets, data[: offsets[-1]], starts >= 0, self._type)

    def written(self, members: np.ndarray, valid: np.ndarray) -> pa.Array:
        """The byte strings of members, for a log; NULL where not valid."""
        return from_bytes(*self._strings.take(np.where(valid, members, -1)), valid, pa.binary())

    def _valid(self, fields: list[pa.Array]) -> np.ndarray:
        flags = [each.is_valid().to_numpy(zero_copy_only=False) for each in fields[: self._needed] if each.null_count]
        return np.logical_and.reduce(flags) if flags else ALL_VALID


def _width(type: pa.DataType) -> int:
    """How many bytes values have; 0 for strings."""
    return 0 if is_bytes(type) else 8 if is_word(type) else 16


def append_key(rows: Words, column: pa.Array, form: int, null: int, is_descending: bool) -> Words:
    """Byte strings with one column more, whose NULLs have the marker `null`."""
    markers = np.full(len(column), THERE, np.uint8)
    if column.null_count:
        markers[column.is_null().to_numpy(zero_copy_only=False)] = null
    # Behind a NULL there may be anything.
    offsets, data = to_bytes(pc.fill_null(column, b"") if is_bytes(column.type) and column.null_count else column)
    n_most = len(rows[1]) + 3 * len(column) + 2 * int(offsets[-1] - offsets[0])
    out = np.empty(len(column) + 1, np.int64), np.empty(n_most, np.uint8)
    end = append_column(rows, (offsets, data), markers, form, TURNED if is_descending else 0, out)
    return out[0], out[1][:end]
