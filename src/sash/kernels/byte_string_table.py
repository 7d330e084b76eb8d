"""Byte strings as dense numbers: an open hash table over strings that lie end to end.

offsets, data   string s is `data[offsets[s]:offsets[s + 1]]`
uses            how often each string is in use
table           s + 1 at the hash of the string or after it; 0: free. Its length is a power of two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Bytes, Int8s, Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import kernel


class StringTable(NamedTuple):
    """Strings that have numbers, and where to find them by their hash."""

    offsets: Int64s
    data: Bytes
    uses: Int64s
    table: Int64s


@kernel
def intern(
    new_offsets: Int64s, new_data: Bytes, valid: Bools, signs: Int8s, n_strings: int, strings: StringTable, out: Int64s
) -> tuple[int, int]:
    """The number of each string, -1 where not valid; uses are counted by sign.

    Returns how many strings there are now, and how many more than before are in use. There must be room for all strings
    and their bytes, and free places in the table.
    """
    offsets, data, uses, table = strings
    n_more_used = 0
    for event in range(signs.shape[0]):
        if valid.shape[0] and not valid[event]:
            out[event] = -1
            continue
        first, last = new_offsets[event], new_offsets[event + 1]
        slot = _hash(new_data, first, last) & (table.shape[0] - 1)
        while table[slot] and not _equals(new_data, first, last, data, offsets, table[slot] - 1):
            slot = (slot + 1) & (table.shape[0] - 1)
        # 1. A new string lies behind all others. It has a number before it has a use, whatever its sign.
        if table[slot] == 0:
            start = offsets[n_strings]
            data[start : start + last - first] = new_data[first:last]
            offsets[n_strings + 1] = start + last - first
            uses[n_strings] = 0
            n_strings += 1
            table[slot] = n_strings
        # 2. Strings without a use stay until they are the most: they may come again.
        string = table[slot] - 1
        out[event] = string
        was_used = uses[string] > 0
        uses[string] += signs[event]
        n_more_used += np.int64(uses[string] > 0) - np.int64(was_used)
    return n_strings, n_more_used


@kernel
def use(strings: Int64s, sign: int, uses: Int64s) -> int:
    """Counts one use more or less of each string, -1 is none. Returns how many more than before are in use."""
    n_more_used = 0
    for string in strings:
        if string >= 0:
            was_used = uses[string] > 0
            uses[string] += sign
            n_more_used += np.int64(uses[string] > 0) - np.int64(was_used)
    return n_more_used


@kernel
def fill_table(n_strings: int, offsets: Int64s, data: Bytes, table: Int64s) -> None:
    """Puts all strings into an empty table."""
    for string in range(n_strings):
        slot = _hash(data, offsets[string], offsets[string + 1]) & (table.shape[0] - 1)
        while table[slot]:
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = string + 1


@kernel
def drop_unused(n_strings: int, offsets: Int64s, data: Bytes, uses: Int64s, mapping: Int64s) -> int:
    """Moves the strings in use together, in their order. Writes the new numbers, -1: gone; returns how many stay."""
    n_kept = 0
    end = 0
    for string in range(n_strings):
        if uses[string] == 0:
            mapping[string] = -1
            continue
        first, last = offsets[string], offsets[string + 1]
        for i in range(last - first):
            data[end + i] = data[first + i]
        offsets[n_kept] = end
        end += last - first
        uses[n_kept] = uses[string]
        mapping[string] = n_kept
        n_kept += 1
    offsets[n_kept] = end
    return n_kept


@kernel
def gather_lengths(strings: Int64s, skip: int, offsets: Int64s, out_offsets: Int64s) -> None:
    """Where the strings begin when they lie end to end without their first `skip` bytes; -1 has no bytes."""
    out_offsets[0] = 0
    for i in range(strings.shape[0]):
        string = strings[i]
        length = 0 if string < 0 else offsets[string + 1] - offsets[string] - skip
        out_offsets[i + 1] = out_offsets[i] + length


@kernel
def gather(strings: Int64s, skip: int, offsets: Int64s, data: Bytes, out_offsets: Int64s, out_data: Bytes) -> None:
    """The bytes to go with `gather_lengths`."""
    for i in range(strings.shape[0]):
        if strings[i] >= 0:
            start = offsets[strings[i]] + skip
            for j in range(out_offsets[i + 1] - out_offsets[i]):
                out_data[out_offsets[i] + j] = data[start + j]


@kernel
def with_prefix(
    prefixes: Bytes, offsets: Int64s, data: Bytes, valid: Bools, out_offsets: Int64s, out_data: Bytes
) -> int:
    """Strings behind a row of fixed bytes each; one that is not valid is its prefix alone."""
    width = prefixes.shape[1]
    end = 0
    for i in range(prefixes.shape[0]):
        out_offsets[i] = end
        out_data[end : end + width] = prefixes[i]
        end += width
        if valid.shape[0] == 0 or valid[i]:
            length = offsets[i + 1] - offsets[i]
            out_data[end : end + length] = data[offsets[i] : offsets[i + 1]]
            end += length
    out_offsets[prefixes.shape[0]] = end
    return end


@kernel
def _hash(data: Bytes, first: int, last: int) -> np.int64:
    h = np.uint64(0xCBF29CE484222325)
    for position in range(first, last):
        h = (h ^ np.uint64(data[position])) * np.uint64(0x100000001B3)
    return np.int64(mix64(h) >> np.uint64(1))


@kernel
def _equals(new_data: Bytes, first: int, last: int, data: Bytes, offsets: Int64s, string: int) -> bool:
    start = offsets[string]
    if offsets[string + 1] - start != last - first:
        return False
    i = 0
    while i < last - first and new_data[first + i] == data[start + i]:
        i += 1
    return i == last - first
