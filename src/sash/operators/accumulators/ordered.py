"""MIN, MAX, MEDIAN, COUNT(DISTINCT), FIRST and LAST: read off the ordered values of a group.

Values that fit are kept as 64-bit integers in their order; all others, and the pairs (time, value) of FIRST and LAST,
as byte strings in their order, each under a number. An event costs a walk down a balanced tree, never a look at all
values of the group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.byte_strings import with_prefix
from sash.kernels.ordered_aggregates import DISTINCT, GREATEST, LEAST, MIDDLE, follow
from sash.operators.accumulators.columns import as_type, both, unit_of, valid_flags
from sash.operators.accumulators.runs import Runs
from sash.operators.accumulators.sortable import (
    from_bytes,
    from_words,
    is_word,
    to_bytes,
    to_doubles,
    to_words,
)
from sash.store.byte_strings import ByteStrings
from sash.store.group_array import GroupArray
from sash.store.ordered_multiset import NO_WORDS, OrderedMultiset
from sash.store.vector import Home

WHAT = {
    "min": LEAST,
    "max": GREATEST,
    "median": MIDDLE,
    "count_distinct": DISTINCT,
    "first": LEAST,
    "last": GREATEST,
}
TIME_BYTES = 8
PREFIX_BYTES = TIME_BYTES + 1
ALL_VALID = np.empty(0, np.bool_)


class Ordered:
    """An aggregate of values in their order; of the tuples in order of time, then value, for FIRST and LAST."""

    def __init__(self, function: str, type: pa.DataType, result: pa.DataType, home: Home):
        self._function = function
        self._type = type
        self._result = result
        self._has_time = function in ("first", "last")
        self.reset(home)

    def reset(self, home: Home) -> None:
        self._members = OrderedMultiset(home)
        self._results = GroupArray(np.int64, home, (2,))
        self._strings = None if is_word(self._type) and not self._has_time else ByteStrings(home)

    def apply(self, runs: Runs, values: pa.Array | None) -> tuple[pa.Array, pa.Array]:
        assert values is not None
        valid = ALL_VALID if self._has_time else valid_flags(values)
        members = to_words(values) if self._strings is None else self._intern(runs, values, valid)
        self._members.reserve(runs.n_groups, len(members))
        self._results.reserve(runs.n_groups)
        out = np.empty((2, len(runs.groups), 2), np.int64)
        out_valid = np.empty((2, len(runs.groups)), np.bool_)
        follow(
            runs.starts, runs.groups, runs.signs, valid, members, WHAT[self._function],
            *self._members.arrays(), NO_WORDS if self._strings is None else self._strings.words,
            self._results.array, out, out_valid,
        )  # fmt: skip
        return self._read(out, out_valid)

    def compact(self, mapping: np.ndarray) -> None:
        self._members.compact(mapping)
        self._results.compact(mapping)

    def _intern(self, runs: Runs, values: pa.Array, valid: np.ndarray) -> np.ndarray:
        """The number of each value's bytes, or of each pair of time and value."""
        assert self._strings is not None
        self._forget_strings()
        offsets, data = to_bytes(values)
        if self._has_time:
            offsets, data = _behind_time(runs.ts, offsets, data, valid_flags(values))
        return self._strings.intern(offsets, data, valid, runs.signs)

    def _forget_strings(self) -> None:
        """Gives strings that are in use new numbers, when most are not."""
        assert self._strings is not None
        renumbered = self._strings.compact()
        if renumbered is None:
            return
        self._members.renumber(renumbered)
        if self._function != "count_distinct":
            # A group that is empty keeps a result of the past, which nobody reads.
            results = self._results.array
            results[:] = renumbered[np.minimum(results, len(renumbered) - 1)]

    def _read(self, out: np.ndarray, valid: np.ndarray) -> tuple[pa.Array, pa.Array]:
        if self._function == "count_distinct":
            return both(out[:, :, 0], np.ones_like(valid), self._result)
        read = self._read_middle if self._function == "median" else self._read_value
        before, after = (as_type(read(out[side], valid[side]), self._result) for side in range(2))
        return before, after

    def _read_value(self, out: np.ndarray, valid: np.ndarray, column: int = 0) -> pa.Array:
        if self._strings is None:
            return from_words(np.ascontiguousarray(out[:, column]), valid, self._type)
        strings = np.where(valid, out[:, column], -1)
        if self._has_time:
            # The byte behind the time tells NULL, which takes part in FIRST and LAST, from a value.
            offsets, data = self._strings.words
            flag_at = offsets[np.maximum(strings, 0)] + TIME_BYTES
            valid = valid & (data[np.where(valid, flag_at, 0)] == 1)
            strings = np.where(valid, strings, -1)
        return from_bytes(*self._strings.take(strings, PREFIX_BYTES if self._has_time else 0), valid, self._type)

    def _read_middle(self, out: np.ndarray, valid: np.ndarray) -> pa.Array:
        if pa.types.is_floating(self._type):
            numbers = _mean_of_doubles(to_doubles(out[:, 0]), to_doubles(out[:, 1]))
        elif self._strings is None:
            numbers = _mean_of_integers(out, pa.types.is_uint64(self._type)) / unit_of(self._type)
        else:
            sides = (self._read_value(out, valid, column).cast(pa.float64()).fill_null(0.0) for column in range(2))
            numbers = _mean_of_doubles(*(side.to_numpy() for side in sides))
        return pa.array(numbers, mask=~valid)


def _behind_time(ts: np.ndarray, offsets: np.ndarray, data: np.ndarray, valid: np.ndarray) -> tuple:
    """Pairs of time and value as bytes: the time, whether there is a value, the value."""
    prefixes = np.ones((len(ts), PREFIX_BYTES), np.uint8)
    flipped = ts.view(np.uint64) ^ np.uint64(1 << 63)
    prefixes[:, :TIME_BYTES] = flipped.astype(">u8").view(np.uint8).reshape(-1, TIME_BYTES)
    if len(valid):
        prefixes[:, TIME_BYTES] = valid
    out_offsets = np.empty(len(ts) + 1, np.int64)
    out_data = np.empty(prefixes.size + int(offsets[-1] - offsets[0]), np.uint8)
    end = with_prefix(prefixes, offsets, data, valid, out_offsets, out_data)
    return out_offsets, out_data[:end]


def _mean_of_doubles(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Without an overflow on the way."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = low + high
        return np.where(np.isinf(total), low / 2 + high / 2, total / 2)


def _mean_of_integers(pairs: np.ndarray, is_unsigned: bool) -> np.ndarray:
    """The nearest doubles to the means of pairs of words."""
    low, high = pairs[:, 0], pairs[:, 1]
    half = (low ^ high) & 1
    floor = (low & high) + ((low ^ high) >> 1)
    if is_unsigned:
        floor, half = floor.view(np.uint64) ^ np.uint64(1 << 63), half.view(np.uint64)
    # Far beyond 54 bits, one half only says on which side of a tie the mean lies: the lowest bit can say so as well.
    is_small = floor < 1 << 60 if is_unsigned else np.abs(floor >> 1) < 1 << 60
    return np.where(is_small, (2 * floor + half).astype(np.float64) / 2, (floor | half).astype(np.float64))
