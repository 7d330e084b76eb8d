"""Rows that lie on disk in order of a hash of their key, and tuples that look for theirs among them.

    tuples      12 12 40         95          in order of hash
    page 0   3 12 12 12          |
    page 1  12 12 17 40 71       |           a page is looked at once, from its beginning to its end
    page 2             80 88 95 99
    marks    1     1   1         1           a bit for each range of hashes in which there is a tuple

Most rows are nobody's partner: their bit says so, and nothing else of them is looked at. The hash is `mix64`, which is
one to one: equal hashes are equal keys, and no key has to be compared. The rows of a key may fill any number of pages;
what the tuples have looked at is remembered from page to page and from call to call.

A page holds its rows column by column: hashes, `ts`, and `expires` unless all rows live equally long. Before pages are
read, a filter says which keys are not there: a Bloom filter in blocks of the length of a cache line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Int64s, UInt64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import inlined_kernel, kernel, released_borrowing

BLOCK_WORDS = 8
"""Words of 64 bits in a block of the filter."""
BITS_PER_KEY = 10
MOST_MARKS = 1 << 17
"""Words of bits that say which tuples there are: more of them would not be in the caches."""
BITS_SET = 7
"""For each key, among the 512 of its block: about one key in a hundred that is not there passes."""
STORED = -1
"""Stands for the length of lives when they differ."""
TUPLE, PAGE, ROW, PARTNER = 0, 1, 2, 3
PLACE_WIDTH = 4


class HashedTuples(NamedTuple):
    """Tuples that look for rows, in order of hash, and the number that each had before."""

    hashes: UInt64s
    ts: Int64s
    ends: Int64s
    numbers: Int64s
    marks: UInt64s
    """See `mark_hashes`."""


class KeyPages(NamedTuple):
    """Pages of keys and lives in memory, of which those in `wanted` are looked at; they count from the first here."""

    words: Int64s
    """A page each line."""
    wanted: Int64s
    rows_per_page: int
    first_row: int
    """The number of the first row here."""
    last_row: int
    """Rows of the segment are below this number."""
    life_us: int


class EarlyEnds(NamedTuple):
    """Rows that were taken back, ascending, and when."""

    rows: Int64s
    ends: Int64s


class SegmentPairs(NamedTuple):
    """The numbers of tuples, the rows that they join, and these rows' lives."""

    tuples: Int64s
    rows: Int64s
    ts: Int64s
    expires: Int64s
    ends: Int64s


@kernel
def count_distinct(hashes: UInt64s) -> int:
    """How many different hashes there are; they ascend."""
    n_distinct = 0
    for i in range(hashes.shape[0]):
        if i == 0 or hashes[i] != hashes[i - 1]:
            n_distinct += 1
    return n_distinct


@inlined_kernel
def _block_of(hash: np.uint64, n_blocks: int) -> np.int64:
    """Ascends with the hash: whoever comes in order goes through the filter once."""
    return np.int64(((hash >> np.uint64(32)) * np.uint64(n_blocks)) >> np.uint64(32))


@kernel
def fill_filter(hashes: UInt64s, filter: UInt64s) -> None:
    """Lets hashes pass. `filter` has some blocks, at least one."""
    n_blocks = filter.shape[0] // BLOCK_WORDS
    for i in range(hashes.shape[0]):
        start = _block_of(hashes[i], n_blocks) * BLOCK_WORDS
        bits = mix64(hashes[i])
        for _ in range(BITS_SET):
            filter[start + np.int64((bits >> np.uint64(6)) & np.uint64(7))] |= np.uint64(1) << (bits & np.uint64(63))
            bits >>= np.uint64(9)


@inlined_kernel
def _passes(hash: np.uint64, filter: UInt64s) -> bool:
    start = _block_of(hash, filter.shape[0] // BLOCK_WORDS) * BLOCK_WORDS
    bits = mix64(hash)
    for _ in range(BITS_SET):
        word = filter[start + np.int64((bits >> np.uint64(6)) & np.uint64(7))]
        if not (word >> (bits & np.uint64(63))) & np.uint64(1):
            return False
        bits >>= np.uint64(9)
    return True


@released_borrowing
def want_pages(hashes: UInt64s, filter: UInt64s, fences: UInt64s, wanted: Bools, passed: Int64s) -> int:
    """Marks the pages that may hold rows with these hashes, which ascend. Writes down which of them may be there, and
    returns how many these are.

    `fences` are the first hash of each page; `passed` has room for all hashes.
    """
    n_pages, n_passed, page, is_there = fences.shape[0], 0, 0, False
    for i in range(hashes.shape[0]):
        hash = hashes[i]
        is_new = i == 0 or hash != hashes[i - 1]
        if is_new:
            is_there = hash >= fences[0] and _passes(hash, filter)
        if is_there:
            passed[n_passed] = i
            n_passed += 1
        if not is_there or not is_new:
            continue
        # 1. The last page that begins before it may end with it.
        while page + 1 < n_pages and fences[page + 1] < hash:
            page += 1
        wanted[page] = True
        # 2. Its rows may fill the pages that follow.
        following = page + 1
        while following < n_pages and fences[following] == hash:
            wanted[following] = True
            following += 1
    return n_passed


@kernel
def mark_hashes(hashes: UInt64s) -> UInt64s:
    """A bit for each range of hashes, set if one of these is in it: one in 16 to 32, unless they are very many. Bits
    ascend with the hashes.
    """
    n_words = 1
    while 4 * n_words < hashes.shape[0] and n_words < MOST_MARKS:
        n_words *= 2
    marks, shift = np.zeros(n_words, np.uint64), _shift_of(n_words)
    for i in range(hashes.shape[0]):
        place = hashes[i] >> shift
        marks[np.int64(place >> np.uint64(6))] |= np.uint64(1) << (place & np.uint64(63))
    return marks


@inlined_kernel
def _shift_of(n_words: int) -> np.uint64:
    """By how much hashes are shifted to be bits of so many words, a power of two."""
    shift = 58
    while n_words > 1:
        n_words //= 2
        shift -= 1
    return np.uint64(shift)


@inlined_kernel
def _end_of(row: int, expires: int, early: EarlyEnds) -> int:
    """When a row leaves: at its end by the clock, or when it was taken back."""
    low, high = 0, early.rows.shape[0]
    while low < high:
        middle = (low + high) // 2
        if early.rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    if low < early.rows.shape[0] and early.rows[low] == row:
        return early.ends[low]
    return expires


@released_borrowing
def merge_pages(
    tuples: HashedTuples, pages: KeyPages, early: EarlyEnds, at: Int64s, n_out: int, out: SegmentPairs
) -> int:
    """Pairs tuples with the rows of the wanted pages that have their key and whose lives overlap theirs.

    `at` is where to go on, which is moved on; `n_out` pairs are there. Returns how many there are now. The output is
    full if `at[PAGE]` is not the number of wanted pages: then the same call, with room, goes on. With the next pages,
    `at[TUPLE]` alone stays.
    """
    hashes, ts, ends, numbers, marks = tuples
    words, wanted, rows_per_page, first_row, last_row, life_us = pages
    n_tuples, shift = hashes.shape[0], _shift_of(marks.shape[0])
    i, k, j, partner = at[TUPLE], at[PAGE], at[ROW], at[PARTNER]
    while k < wanted.shape[0]:
        page = wanted[k]
        page_row = first_row + page * rows_per_page
        n_rows = min(rows_per_page, last_row - page_row)
        while j < n_rows and i < n_tuples:
            # 1. A row that may have a partner, and the first tuple that may be one.
            hash = np.uint64(words[page, j])
            place = hash >> shift
            if not (marks[np.int64(place >> np.uint64(6))] >> (place & np.uint64(63))) & np.uint64(1):
                j += 1
                continue
            while i < n_tuples and hashes[i] < hash:
                i += 1
            if i == n_tuples or hashes[i] != hash:
                j += 1
                continue
            # 2. A row meets all tuples of its key: the first of them is `i`, also for the next row.
            row_ts = words[page, rows_per_page + j]
            row_expires = words[page, 2 * rows_per_page + j] if life_us == STORED else row_ts + life_us
            row_end = _end_of(page_row + j, row_expires, early)
            p = max(partner, i)
            while p < n_tuples and hashes[p] == hash:
                if max(row_ts, ts[p]) < min(row_end, ends[p]):
                    # 3. Without room, the row goes on with this tuple.
                    if n_out == out.rows.shape[0]:
                        at[TUPLE], at[PAGE], at[ROW], at[PARTNER] = i, k, j, p
                        return n_out
                    out.tuples[n_out] = numbers[p]
                    out.rows[n_out] = page_row + j
                    out.ts[n_out] = row_ts
                    out.expires[n_out] = row_expires
                    out.ends[n_out] = row_end
                    n_out += 1
                p += 1
            partner = 0
            j += 1
        k, j = k + 1, 0
    at[TUPLE], at[PAGE], at[ROW], at[PARTNER] = i, k, 0, 0
    return n_out


@released_borrowing
def gather_places(words: Int64s, places: Int64s, rows_per_page: int, n_columns: int, out: Int64s, at: Int64s) -> None:
    """Copies the columns of places of pages, of which the first is here, to lines `at` of `out`."""
    for k in range(places.shape[0]):
        page, place = places[k] // rows_per_page, places[k] % rows_per_page
        for column in range(n_columns):
            out[at[k], column] = words[page, column * rows_per_page + place]
