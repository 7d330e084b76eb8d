"""The values of groups as 64-bit integers in their order, which kernels compare.

Values that fit are such integers themselves; all others, and the pairs (time, value) of FIRST and LAST, are byte
strings in their order, each under a number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.byte_string_table import with_prefix
from sash.operators.accumulators.aggregate_runs import AggregateRuns
from sash.operators.accumulators.argument_columns import valid_flags
from sash.operators.accumulators.sortable import from_bytes, from_words, is_word, to_bytes, to_words
from sash.store.byte_strings import ByteStrings
from sash.store.ordered_multiset import NO_WORDS, Words
from sash.store.vector import Arena

TIME_BYTES = 8
PREFIX_BYTES = TIME_BYTES + 1
SIGN_BIT = np.uint64(1 << 63)
ALL_VALID = np.empty(0, np.bool_)


class Members:
    """Values of one type, or pairs of a time and such a value, which may be NULL if such are not skipped."""

    def __init__(self, type: pa.DataType, has_time: bool, arena: Arena, skips_nulls: bool = False):
        self._type = type
        self.has_time = has_time
        self._skips_nulls = skips_nulls or not has_time
        self.reset(arena)

    def reset(self, arena: Arena) -> None:
        """Forgets all values."""
        self._strings = None if is_word(self._type) and not self.has_time else ByteStrings(arena)

    @property
    def are_words(self) -> bool:
        """Whether values are 64-bit integers themselves."""
        return self._strings is None

    @property
    def words(self) -> Words:
        """The byte strings that members stand for. Not to be kept over `encode` or `forget`."""
        return NO_WORDS if self._strings is None else self._strings.words

    def encode(self, runs: AggregateRuns, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The member of each event, and which ones count; all if that is empty. Each is used, by its sign."""
        valid = valid_flags(values) if self._skips_nulls else ALL_VALID
        if self._strings is None:
            return to_words(values), valid
        offsets, data = to_bytes(values)
        if self.has_time:
            offsets, data = _behind_time(runs.ts, offsets, data, valid_flags(values))
        return self._strings.intern(offsets, data, valid, runs.signs), valid

    def use(self, members: np.ndarray, sign: int) -> None:
        """Each of these members is used once more (+1) or less (-1); -1 is none."""
        if self._strings is not None:
            self._strings.use(members, sign)

    def forget(self) -> np.ndarray | None:
        """Gives members that are in use new numbers, in the same order, when most are not. By the old ones."""
        return None if self._strings is None else self._strings.compact()

    def decode(self, members: np.ndarray, valid: np.ndarray) -> pa.Array:
        """The values; NULL where not valid."""
        if self._strings is None:
            return from_words(np.ascontiguousarray(members), valid, self._type)
        if self.has_time:
            # The byte behind the time tells NULL, which takes part in FIRST and LAST, from a value.
            valid = valid & (self._prefixes(members, valid)[:, TIME_BYTES] == 1)
        strings = np.where(valid, members, -1)
        return from_bytes(*self._strings.take(strings, PREFIX_BYTES if self.has_time else 0), valid, self._type)

    def times(self, members: np.ndarray, valid: np.ndarray) -> pa.Array:
        """The times of pairs; NULL where not valid."""
        flipped = np.ascontiguousarray(self._prefixes(members, valid)[:, :TIME_BYTES]).view(">u8").reshape(-1)
        return pa.array((flipped.astype(np.uint64) ^ SIGN_BIT).view(np.int64), mask=~valid)

    def _prefixes(self, members: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """The bytes before the value of each pair; anything where not valid."""
        offsets, data = self.words
        if not valid.any():
            return np.zeros((len(members), PREFIX_BYTES), np.uint8)
        starts = offsets[np.where(valid, members, members[valid][0])]
        return data[starts[:, None] + np.arange(PREFIX_BYTES)]


def _behind_time(ts: np.ndarray, offsets: np.ndarray, data: np.ndarray, valid: np.ndarray) -> Words:
    """Pairs of time and value as bytes: the time, whether there is a value, the value."""
    prefixes = np.ones((len(ts), PREFIX_BYTES), np.uint8)
    flipped = ts.view(np.uint64) ^ SIGN_BIT
    prefixes[:, :TIME_BYTES] = flipped.astype(">u8").view(np.uint8).reshape(-1, TIME_BYTES)
    if len(valid):
        prefixes[:, TIME_BYTES] = valid
    out_offsets = np.empty(len(ts) + 1, np.int64)
    out_data = np.empty(prefixes.size + int(offsets[-1] - offsets[0]), np.uint8)
    end = with_prefix(prefixes, offsets, data, valid, out_offsets, out_data)
    return out_offsets, out_data[:end]
