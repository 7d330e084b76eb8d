"""Byte strings as dense numbers: an open hash table over strings that lie end to end.

offsets, data   string s is `data[offsets[s]:offsets[s + 1]]`
uses            how often each string is in use
table           s + 1 at the hash of the string or after it; 0: free. Its length is a power of two.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from sash.kernels.hashing import mix64
from sash.kernels.jit import kernel


@kernel
def intern(new_offsets, new_data, valid, signs, n_strings, offsets, data, uses, table, out):
    """The number of each string, -1 where not valid; uses are counted by sign.

    Returns how many strings there are now, and how many more than before are in use. There must be room for all strings
    and their bytes, and free places in the table.
    """
    n_more_used = 0
    for event in range(signs.shape[0]):
        if valid.shape[0] and not valid[event]:
            out[event] = -1
            continue
        first, last = new_offsets[event], new_offsets[event + 1]
        slot = _hash(new_data, first, last) & (table.shape[0] - 1)
        while table[slot] and not _equals(new_data, first, last, data, offsets, table[slot] - 1):
            slot = (slot + 1) & (table.shape[0] - 1)
        if table[slot] == 0:
            start = offsets[n_strings]
            data[start : start + last - first] = new_data[first:last]
            offsets[n_strings + 1] = start + last - first
            uses[n_strings] = 0
            n_strings += 1
            table[slot] = n_strings
        string = table[slot] - 1
        out[event] = string
        was_used = uses[string] > 0
        uses[string] += signs[event]
        n_more_used += np.int64(uses[string] > 0) - np.int64(was_used)
    return n_strings, n_more_used


@kernel
def use(strings, sign, uses):
    """Counts one use more or less of each string, -1 is none. Returns how many more than before are in use."""
    n_more_used = 0
    for string in strings:
        if string >= 0:
            was_used = uses[string] > 0
            uses[string] += sign
            n_more_used += np.int64(uses[string] > 0) - np.int64(was_used)
    return n_more_used


@kernel
def fill_table(n_strings, offsets, data, table):
    """Puts all strings into an empty table."""
    for string in range(n_strings):
        slot = _hash(data, offsets[string], offsets[string + 1]) & (table.shape[0] - 1)
        while table[slot]:
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = string + 1


@kernel
def drop_unused(n_strings, offsets, data, uses, mapping):
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
def gather_lengths(strings, skip, offsets, out_offsets):
    """Where the strings begin when they lie end to end without their first `skip` bytes; -1 has no bytes."""
    out_offsets[0] = 0
    for i in range(strings.shape[0]):
        string = strings[i]
        length = 0 if string < 0 else offsets[string + 1] - offsets[string] - skip
        out_offsets[i + 1] = out_offsets[i] + length


@kernel
def gather(strings, skip, offsets, data, out_offsets, out_data):
    """The bytes to go with `gather_lengths`."""
    for i in range(strings.shape[0]):
        if strings[i] >= 0:
            start = offsets[strings[i]] + skip
            for j in range(out_offsets[i + 1] - out_offsets[i]):
                out_data[out_offsets[i] + j] = data[start + j]


@kernel
def with_prefix(
    prefixes: ndarray, offsets: ndarray, data: ndarray, valid: ndarray, out_offsets: ndarray, out_data: ndarray,
) -> int:  # fmt: skip
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
def _hash(data, first, last):
    h = np.uint64(0xCBF29CE484222325)
    for position in range(first, last):
        h = (h ^ np.uint64(data[position])) * np.uint64(0x100000001B3)
    return np.int64(mix64(h) >> np.uint64(1))


@kernel
def _equals(new_data, first, last, data, offsets, string):
    start = offsets[string]
    if offsets[string + 1] - start != last - first:
        return False
    i = 0
    while i < last - first and new_data[first + i] == data[start + i]:
        i += 1
    return i == last - first
