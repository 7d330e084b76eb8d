"""Which pairs of a shared join go to which tap.

    pair (l, r) goes to a tap  iff  the later of the two came within the tap's window of the earlier,
                                    both are labelled with the tap, and neither is older than it looks back

Taps are in order of their larger window, the largest first: those whose windows may hold a pair are the first ones. So
a pair's taps are the bits that both labels have, up to there. Labels are gathered for many pairs before the first is
looked at: the processor waits for several lines of memory at a time instead of one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s, UInt64s
from sash.kernels.jit import inlined_kernel, kernel

GROUP = 64
WORD = 64


class LabelledSide(NamedTuple):
    """One side of pairs: the place of each pair's tuple in the arrays of all tuples, their times and their labels."""

    places: Int64s
    times: Int64s
    labels: UInt64s


@kernel
def _bit_places() -> Int64s:
    """By the hash of a single bit, its place in the word."""
    places = np.empty(WORD, np.int64)
    for place in range(WORD):
        places[((np.uint64(1) << np.uint64(place)) * np.uint64(0x03F79D71B4CB0A89)) >> np.uint64(58)] = place
    return places


@inlined_kernel
def _admits(tap: int, left_ts: int, right_ts: int, windows: Int64s, since: Int64s) -> bool:
    """What the labels do not say: the window of each side, and how far back the tap looks."""
    if left_ts >= right_ts:
        in_window = left_ts - right_ts < windows[tap, 1]
    else:
        in_window = right_ts - left_ts < windows[tap, 0]
    return in_window and left_ts > since[tap, 0] and right_ts > since[tap, 1]


@kernel
def route(
    left_side: LabelledSide, right_side: LabelledSide, windows: Int64s, since: Int64s, first: int, last: int
) -> tuple[Int64s, Int64s]:
    """For the taps `first..last-1`: where the pairs of each begin, and the numbers of the pairs that each gets, one tap
    after the other.
    """
    (left, left_times, left_labels), (right, right_times, right_labels) = left_side, right_side
    n_pairs, n_words = len(left), left_labels.shape[1]
    places = _bit_places()
    counts = np.zeros(last - first + 1, np.int64)
    masks = np.empty((n_pairs, n_words), np.uint64)
    left_ts, right_ts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    start = 0
    while start < n_pairs:
        stop = min(start + GROUP, n_pairs)
        # 1. Times and labels of many pairs, so that their lines of memory are waited for together.
        for pair in range(start, stop):
            left_ts[pair - start] = left_times[left[pair]]
            right_ts[pair - start] = right_times[right[pair]]
        for pair in range(start, stop):
            for word in range(n_words):
                masks[pair, word] = left_labels[left[pair], word] & right_labels[right[pair], word]
        # 2. Bit by bit, the largest window first: with the first that is too small all that follow are, too.
        for pair in range(start, stop):
            one, other = left_ts[pair - start], right_ts[pair - start]
            for word in range(n_words):
                left_over = masks[pair, word]
                while left_over:
                    bit = left_over & (~left_over + np.uint64(1))
                    left_over ^= bit
                    tap = word * WORD + places[(bit * np.uint64(0x03F79D71B4CB0A89)) >> np.uint64(58)]
                    if tap < first or tap >= last or not _admits(tap, one, other, windows, since):
                        masks[pair, word] ^= bit
                        if abs(one - other) >= max(windows[tap, 0], windows[tap, 1]):
                            masks[pair, word] &= ~left_over  # all that follow are smaller
                            left_over = np.uint64(0)
                    else:
                        counts[tap - first + 1] += 1
        start = stop
    return _gathered(masks, counts, places, first)


@kernel
def _gathered(masks: UInt64s, counts: Int64s, places: Int64s, first: int) -> tuple[Int64s, Int64s]:
    """The pairs of each tap one after the other, and where each one's begin."""
    starts = np.cumsum(counts)
    hits = np.empty(starts[-1], np.int64)
    filled = starts[:-1].copy()
    for pair in range(masks.shape[0]):
        for word in range(masks.shape[1]):
            left_over = masks[pair, word]
            while left_over:
                bit = left_over & (~left_over + np.uint64(1))
                left_over ^= bit
                tap = word * WORD + places[(bit * np.uint64(0x03F79D71B4CB0A89)) >> np.uint64(58)] - first
                hits[filled[tap]] = pair
                filled[tap] += 1
    return starts, hits
