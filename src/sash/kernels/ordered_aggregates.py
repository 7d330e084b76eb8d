"""Aggregates that are read off the ordered values of a group, before and after each run of events."""

from __future__ import annotations

from numba import njit

from sash.kernels.ordered_multiset import insert, kth, n_distinct, remove, size

LEAST, GREATEST, MIDDLE, DISTINCT = 0, 1, 2, 3


@njit(cache=True)
def follow(starts, groups, signs, valid, values, what, roots, nodes, pool, words, out, out_valid):
    """Writes two values for each side of each run: the middle ones are two, all others twice the same.

    `starts, groups, signs, valid, out` are as in `running_sums`. A group without values is not valid, but has 0
    different values.
    """
    for run in range(groups.shape[0]):
        group = groups[run]
        for side in range(2):
            if side == 1:
                for event in range(starts[run], starts[run + 1]):
                    if valid.shape[0] and not valid[event]:
                        continue
                    if signs[event] > 0:
                        insert(group, values[event], roots, nodes, pool, words)
                    else:
                        remove(group, values[event], roots, nodes, pool, words)
            n = size(group, roots, nodes)
            out_valid[side, run] = n > 0
            out[side, run, 0], out[side, run, 1] = _read(group, n, what, roots, nodes)


@njit(cache=True, inline="always")
def _read(group, n, what, roots, nodes):
    if what == DISTINCT:
        first = n_distinct(group, roots)
    elif n == 0:
        first = 0
    elif what == LEAST:
        first = kth(group, 0, roots, nodes)
    elif what == GREATEST:
        first = kth(group, n - 1, roots, nodes)
    else:
        first = kth(group, (n - 1) // 2, roots, nodes)
    if what == MIDDLE and n > 0 and n % 2 == 0:
        return first, kth(group, n // 2, roots, nodes)
    return first, first
