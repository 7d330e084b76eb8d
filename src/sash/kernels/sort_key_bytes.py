"""Rows of several columns as byte strings in the order of the rows, and the last column of them back.

    (2, NULL, 'ab') by the first column, the second with NULL last      01 8000…0002   02   01 6162

A column is a marker, which tells NULL, and the bytes of its value. Strings end in two zeros, and a zero in one is
followed by FF, so that no column is the beginning of another; in a descending order all bytes are turned round. What
stands last is as it is: nothing comes behind it.
"""

from __future__ import annotations

from sash.kernels.arrays import Bytes, Int64s, Words
from sash.kernels.jit import kernel

THERE = 1
"""The marker of a value; NULL has a smaller or a greater one."""
LAST, FIXED, ENDED = 0, 1, 2
"""What a column is: the last one, one of so many bytes each, one of strings with an end."""


@kernel
def append_column(rows: Words, column: Words, markers: Bytes, form: int, flip: int, out: Words) -> int:
    """Writes every row with one column more, and returns how many bytes that are."""
    (row_offsets, row_data), (offsets, data), (out_offsets, out_data) = rows, column, out
    end = 0
    for i in range(markers.shape[0]):
        out_offsets[i] = end
        for at in range(row_offsets[i], row_offsets[i + 1]):
            out_data[end] = row_data[at]
            end += 1
        out_data[end] = markers[i]
        end += 1
        if markers[i] != THERE:
            continue
        for at in range(offsets[i], offsets[i + 1]):
            out_data[end] = data[at] ^ flip
            end += 1
            if form == ENDED and data[at] == 0:
                out_data[end] = 0xFF ^ flip
                end += 1
        if form == ENDED:
            out_data[end], out_data[end + 1] = flip, flip
            end += 2
    out_offsets[markers.shape[0]] = end
    return end


@kernel
def find_last(strings: Int64s, words: Words, widths: Int64s, flips: Bytes, starts: Int64s) -> None:
    """Where the last column of each string begins, behind columns of `widths` bytes each, 0 for strings with an end."""
    offsets, data = words
    for i in range(strings.shape[0]):
        at = offsets[strings[i]]
        for column in range(widths.shape[0]):
            at += 1
            if data[at - 1] != THERE:
                continue
            at += widths[column]
            is_open = widths[column] == 0
            while is_open:
                is_zero = data[at] == flips[column]
                is_open = not (is_zero and data[at + 1] == flips[column])
                at += 2 if is_zero else 1
        starts[i] = at


@kernel
def gather_tails(strings: Int64s, starts: Int64s, words: Words, out_offsets: Int64s, out_data: Bytes) -> None:
    """The bytes of each string from `starts` on; none where that is -1."""
    offsets, data = words
    end = 0
    for i in range(strings.shape[0]):
        out_offsets[i] = end
        if starts[i] >= 0:
            for at in range(starts[i], offsets[strings[i] + 1]):
                out_data[end] = data[at]
                end += 1
    out_offsets[strings.shape[0]] = end
