"""Between the rows of a join's two windows and the line of a shared join: rows in one order, and pairs of rows.

A tuple's cargo is `2 * row + side`, and when it ends.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PLACE, ENDS = range(2)


@njit(cache=True)
def merge_rows(ts: np.ndarray, other_ts: np.ndarray) -> np.ndarray:
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


@njit(cache=True)
def find_rows(later, earlier, first_row, line_ts, cargo, left, right, ts, expires):
    """The rows of pairs, with the time that they begin and end; returns how many overlap, the others are left out."""
    n_pairs = 0
    for place in range(len(later)):
        one, two = later[place] - first_row, earlier[place] - first_row
        begins, ends = line_ts[one], min(cargo[one, ENDS], cargo[two, ENDS])
        if begins >= ends:
            continue
        row, other = cargo[one, PLACE], cargo[two, PLACE]
        if row & 1:
            row, other = other, row
        left[n_pairs], right[n_pairs], ts[n_pairs], expires[n_pairs] = row >> 1, other >> 1, begins, ends
        n_pairs += 1
    return n_pairs
