"""Aggregates that are read off the ordered values of a group, before and after each run of events."""

from __future__ import annotations

from sash.kernels.arrays import Bools, Int64s, Words
from sash.kernels.jit import inlined_kernel, kernel
from sash.kernels.running_sums import BeforeAfter, GroupRuns
from sash.kernels.treaps import Treaps, compare, greatest, insert, kth, least, n_distinct, remove, size

LEAST, GREATEST, MIDDLE, DISTINCT = 0, 1, 2, 3


@kernel
def follow(runs: GroupRuns, values: Int64s, what: int, treaps: Treaps, results: Int64s, out: BeforeAfter) -> None:
    """Writes two values for each side of each run; the second one counts for the middle alone.

    `results` keeps what was last written of each group. A group without values is not valid, but has 0 different
    values. The tree is searched for a new least or greatest only when the old one leaves.
    """
    (starts, groups, signs, valid), (roots, nodes, pool, words), (out_values, out_valid) = runs, treaps, out
    for run in range(groups.shape[0]):
        group = groups[run]
        # 1. What was written last is what holds before the run.
        out_valid[0, run] = size(group, roots, nodes) > 0
        out_values[0, run, 0], out_values[0, run, 1] = results[group, 0], results[group, 1]
        # 2. While the extreme has not left, it is enough to compare it with what comes.
        is_stale = what in (MIDDLE, DISTINCT)
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            value = values[event]
            if signs[event] > 0:
                if not is_stale and _is_further(value, group, what, roots, nodes, words, results):
                    results[group, 0] = value
                insert(group, value, roots, nodes, pool, words)
            else:
                is_stale |= value == results[group, 0]
                remove(group, value, roots, nodes, pool, words)
        # 3. The tree is asked once, whatever has left.
        out_valid[1, run] = size(group, roots, nodes) > 0
        if is_stale:
            results[group, 0], results[group, 1] = _read(group, what, roots, nodes)
        out_values[1, run, 0], out_values[1, run, 1] = results[group, 0], results[group, 1]


@kernel
def follow_extreme(
    runs: GroupRuns, values: Int64s, is_least: bool, words: Words, extremes: Int64s, is_there: Bools, out: BeforeAfter
) -> None:
    """Writes the least or greatest value of a group for each side of each run, where values enter and none leaves."""
    (starts, groups, _, valid), (out_values, out_valid) = runs, out
    for run in range(groups.shape[0]):
        group = groups[run]
        out_values[0, run], out_valid[0, run] = extremes[group], is_there[group]
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            if is_there[group]:
                order = compare(values[event], extremes[group], words)
                if order >= 0 if is_least else order <= 0:
                    continue
            extremes[group], is_there[group] = values[event], True
        out_values[1, run], out_valid[1, run] = extremes[group], is_there[group]


@inlined_kernel
def _is_further(value: int, group: int, what: int, roots: Int64s, nodes: Int64s, words: Words, results: Int64s) -> bool:
    """Whether a value that comes is the new least or greatest."""
    if size(group, roots, nodes) == 0:
        return True
    order = compare(value, results[group, 0], words)
    return order < 0 if what == LEAST else order > 0


@inlined_kernel
def _read(group: int, what: int, roots: Int64s, nodes: Int64s) -> tuple[int, int]:
    n = size(group, roots, nodes)
    first = 0
    if what == DISTINCT:
        first = n_distinct(group, roots)
    elif n == 0:
        first = 0
    elif what == LEAST:
        first = least(group, roots, nodes)
    elif what == GREATEST:
        first = greatest(group, roots, nodes)
    else:
        first = kth(group, (n - 1) // 2, roots, nodes)
        if n % 2 == 0:
            return first, kth(group, n // 2, roots, nodes)
    return first, first
