"""Which pairs of a shared join go to which tap.

    pair (l, r) goes to a tap  iff  the later of the two came within the tap's window of the earlier,
                                    both are labelled with the tap's conditions, and neither is older than it looks back

Taps are in order of their larger window, the largest first: at the first that is too small for a pair, all others are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ALWAYS = -1
"""Stands for the label of a tap that puts no condition on a side."""


@njit(cache=True, inline="always")
def _has(labels, at, label):
    if label == ALWAYS:
        return True
    return (labels[at, label >> 6] >> np.uint64(label & 63)) & np.uint64(1) != 0


@njit(cache=True, inline="always")
def _admits(tap, left_ts, right_ts, left_labels, right_labels, left_at, right_at, windows, needs, since):
    if left_ts >= right_ts:
        in_window = left_ts - right_ts < windows[tap, 1]
    else:
        in_window = right_ts - left_ts < windows[tap, 0]
    return (
        in_window
        and left_ts > since[tap, 0]
        and right_ts > since[tap, 1]
        and _has(left_labels, left_at, needs[tap, 0])
        and _has(right_labels, right_at, needs[tap, 1])
    )


@njit(cache=True)
def route(left, right, left_times, right_times, left_labels, right_labels, windows, needs, since, first, last):
    """For the taps `first..last-1`: the numbers of the pairs that each gets, one tap after the other, and where each
    one's begin.

    `left` and `right` are places in the arrays of both sides.
    """
    n_taps = last - first
    counts = np.zeros(n_taps + 1, np.int64)
    for pair in range(len(left)):
        left_ts, right_ts = left_times[left[pair]], right_times[right[pair]]
        for tap in range(first, last):
            if abs(left_ts - right_ts) >= max(windows[tap, 0], windows[tap, 1]):
                break
            if _admits(
                tap, left_ts, right_ts, left_labels, right_labels, left[pair], right[pair], windows, needs, since
            ):
                counts[tap - first + 1] += 1
    starts = np.cumsum(counts)
    hits = np.empty(starts[-1], np.int64)
    filled = starts[:-1].copy()
    for pair in range(len(left)):
        left_ts, right_ts = left_times[left[pair]], right_times[right[pair]]
        for tap in range(first, last):
            if abs(left_ts - right_ts) >= max(windows[tap, 0], windows[tap, 1]):
                break
            if _admits(
                tap, left_ts, right_ts, left_labels, right_labels, left[pair], right[pair], windows, needs, since
            ):
                hits[filled[tap - first]] = pair
                filled[tap - first] += 1
    return starts, hits
