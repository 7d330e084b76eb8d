"""The order of rows that a first sort has left equal: short runs of neighbours, sorted by further columns."""

from __future__ import annotations

from numba import njit

LONGEST_SORTED = 64
"""Insertion is quadratic: longer runs are left to whoever calls."""


@njit(cache=True)
def sort_short_runs(starts, ranks, order):
    """Sorts `order` by the columns of `ranks` within each run that is not too long. Returns whether anything moved.

    Run i is `starts[i]..starts[i + 1] - 1`. Runs are short as a rule: insertion needs no memory and few comparisons.
    """
    is_changed = False
    for run in range(starts.shape[0] - 1):
        low = starts[run]
        high = starts[run + 1]
        if high - low > LONGEST_SORTED:
            continue
        for k in range(low + 1, high):
            moved = order[k]
            place = k
            while place > low and _is_before(ranks, moved, order[place - 1]):
                order[place] = order[place - 1]
                place -= 1
            order[place] = moved
            is_changed |= place != k
    return is_changed


@njit(cache=True)
def _is_before(ranks, one, other):
    for column in range(ranks.shape[1]):
        if ranks[one, column] != ranks[other, column]:
            return ranks[one, column] < ranks[other, column]
    return False
