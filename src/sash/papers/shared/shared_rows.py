"""Between the rows of a join's two windows and the line of a shared join: rows in one order, and pairs of rows.

A tuple's cargo is `2 * row + side`, and when it ends.
"""

from __future__ import annotations

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.jit import kernel
from sash.papers.shared.shared_line import FIRST_ROW, N_PUSHED, TS, SharedLine
from sash.papers.shared.shared_router import EARLIER, FIRST, LAST, LATER, N_LOGGED

PLACE, ENDS = range(2)


@kernel
def merge_rows(ts: Int64s, other_ts: Int64s) -> Int64s:
    """Positions in both arrays, one behind the other, in order of time: each ascends, and of equals the first wins."""
    n_rows, n_others = len(ts), len(other_ts)
    order = np.empty(n_rows + n_others, np.int64)
    at, other = 0, 0
    for place in range(n_rows + n_others):
        if other == n_others or (at < n_rows and ts[at] <= other_ts[other]):
            order[place] = at
            at += 1
        else:
            order[place] = n_rows + other
            other += 1
    return order


@kernel
def find_open(line: SharedLine, scanned: Int64s, counts: Int64s) -> Int64s:
    """The first tuple of the instant that each window still waits for; the number of all tuples if it waits for none.

    Descends from window to window.
    """
    links, first_row = line.links, counts[FIRST_ROW]
    first_open = scanned[1:].copy()
    for window in range(len(first_open)):
        number = first_open[window]
        if number < counts[N_PUSHED]:
            while number > first_row and links[number - 1 - first_row, TS] == links[number - first_row, TS]:
                number -= 1
        first_open[window] = number
    return first_open


@kernel
def settle(
    log: Int64s, ends: Int64s, first_open: Int64s, line: SharedLine, first_row: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Takes the releases out of the log whose later tuple is before the first one that a window is open for, and finds
    their rows, less the pairs whose lives do not overlap.

    `first_open` descends from window to window. Returns where each window's pairs begin and end, and all of them, left,
    right, begin and end, window by window in order of release.
    """
    links, cargo, n_windows, n_logged = line.links, line.cargo, len(first_open), ends[N_LOGGED]
    starts = _count_settled(log, n_logged, first_open)
    pairs, stops, n_left = np.empty((4, starts[-1]), np.int64), starts[:-1].copy(), 0
    for place in range(n_logged):
        first, last, later, earlier = log[place, FIRST], log[place, LAST], log[place, LATER], log[place, EARLIER]
        one, two = later - first_row, earlier - first_row
        begins, expires = links[one, TS], min(cargo[one, ENDS], cargo[two, ENDS])
        row, other = cargo[one, PLACE], cargo[two, PLACE]
        if row & 1:
            row, other = other, row
        # 1. `first_open` descends, so the windows that have settled are the first ones of the range.
        while first < last and later < first_open[first]:
            if begins < expires:
                at = stops[first]
                pairs[0, at], pairs[1, at], pairs[2, at], pairs[3, at] = row >> 1, other >> 1, begins, expires
                stops[first] += 1
            first += 1
        # 2. The others stay in the log, in their order, for the windows that are left.
        if first < last:
            log[n_left, FIRST], log[n_left, LAST] = first, last
            log[n_left, LATER], log[n_left, EARLIER] = later, earlier
            n_left += 1
    ends[N_LOGGED] = n_left
    return starts[:n_windows], stops, pairs


@kernel
def _count_settled(log: Int64s, n_logged: int, first_open: Int64s) -> Int64s:
    """Where the releases of each window begin if they stand one behind the other, and where the last ones end."""
    starts = np.zeros(len(first_open) + 1, np.int64)
    for place in range(n_logged):
        window, last, later = log[place, FIRST], log[place, LAST], log[place, LATER]
        while window < last and later < first_open[window]:
            starts[window + 1] += 1
            window += 1
    return np.cumsum(starts)
