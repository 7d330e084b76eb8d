"""Which pairs of a shared join go to which tap.

    pair (l, r) goes to a tap  iff  the later of the two came within the tap's window of the earlier,
                                    both are labelled with the tap, and neither is older than it looks back

Taps are in order of their larger window, the largest first: those whose windows may hold a pair are the first ones. So
a pair's taps are the bits that both labels have, up to there. Labels are gathered for many pairs before the first is
looked at: the processor waits for several lines of memory at a time instead of one after the other.
"""

from __future__ import annotations

import numpy as np

from sash.kernels.jit import inlined_kernel, kernel

GROUP = 64
WORD = 64


@kernel
def _bit_places():
    """By the hash of a single bit, its place in the word."""
    places = np.empty(WORD, np.int64)
    for place in range(WORD):
        places[((np.uint64(1) << np.uint64(place)) * np.uint64(0x03F79D71B4CB0A89)) >> np.uint64(58)] = place
    return places


@inlined_kernel
def _admits(tap, left_ts, right_ts, windows, since):
    """What the labels do not say: the window of each side, and how far back the tap looks."""
    if left_ts >= right_ts:
        in_window = left_ts - right_ts < windows[tap, 1]
    else:
        in_window = right_ts - left_ts < windows[tap, 0]
    return in_window and left_ts > since[tap, 0] and right_ts > since[tap, 1]


@kernel
def route(left, right, left_times, right_times, left_labels, right_labels, windows, since, first, last):
    """For the taps `first..last-1`: the numbers of the pairs that each gets, one tap after the other, and where each
    one's begin.

    `left` and `right` are places in the arrays of both sides.
    """
    n_pairs, n_words = len(left), left_labels.shape[1]
    places = _bit_places()
    counts = np.zeros(last - first + 1, np.int64)
    masks = np.empty((n_pairs, n_words), np.uint64)
    left_ts, right_ts = np.empty(GROUP, np.int64), np.empty(GROUP, np.int64)
    start = 0
    while start < n_pairs:
        stop = min(start + GROUP, n_pairs)
        for pair in range(start, stop):
            left_ts[pair - start] = left_times[left[pair]]
            right_ts[pair - start] = right_times[right[pair]]
        for pair in range(start, stop):
            for word in range(n_words):
                masks[pair, word] = left_labels[left[pair], word] & right_labels[right[pair], word]
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
def _gathered(masks, counts, places, first):
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
