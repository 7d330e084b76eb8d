"""Checksums of pages: what was read is what was written, or it is noticed.

Words go in turn to four lanes, so that the processor works on four at a time:  lane = (lane ^ word) * an odd number.
Each step is one to one, both in the lane and in the word, so that a page of which one word is damaged always has
another checksum; of two pages that differ otherwise, one pair in 2^64 has the same.
"""

from __future__ import annotations

import numpy as np

from sash.kernels.arrays import UInt64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import inlined_kernel, released_borrowing

LANES = 4
FACTOR = np.uint64(0x9E3779B97F4A7C15)


@inlined_kernel
def _sum_page(words: UInt64s, first: int, last: int) -> np.uint64:
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(last - first)
    at = first
    while at + LANES <= last:
        one = (one ^ words[at]) * FACTOR
        two = (two ^ words[at + 1]) * FACTOR
        three = (three ^ words[at + 2]) * FACTOR
        four = (four ^ words[at + 3]) * FACTOR
        # What differs in the highest bits alone would stay there: they are brought down.
        one ^= one >> np.uint64(29)
        two ^= two >> np.uint64(29)
        three ^= three >> np.uint64(29)
        four ^= four >> np.uint64(29)
        at += LANES
    while at < last:
        one = (one ^ words[at]) * FACTOR
        one ^= one >> np.uint64(29)
        at += 1
    return mix64(mix64(mix64(mix64(one) ^ two) ^ three) ^ four)


@released_borrowing
def sum_pages(words: UInt64s, words_per_page: int, sums: UInt64s) -> None:
    """The checksum of each page; the last may be shorter."""
    for page in range(sums.shape[0]):
        first = page * words_per_page
        sums[page] = _sum_page(words, first, min(first + words_per_page, words.shape[0]))


@released_borrowing
def find_damage(words: UInt64s, words_per_page: int, sums: UInt64s, first_page: int) -> int:
    """The first page whose checksum is not the one that belongs to it, or -1; here they begin with `first_page`."""
    n_pages = (words.shape[0] + words_per_page - 1) // words_per_page
    for page in range(n_pages):
        first = page * words_per_page
        found = _sum_page(words, first, min(first + words_per_page, words.shape[0]))
        if found != sums[first_page + page]:
            return first_page + page
    return -1
