"""The order of rows that stand equal so far: runs of neighbours, sorted by one further column at a time.

    order     4 0 2 | 3 1 | 5          runs [0, 3) and [3, 5); what stands alone is in no run
    keys      7 5 7   6 6   9          by row: key 7 for row 4, ...
    order     0 4 2 | 3 1 | 5          runs left: 4 2 and 3 1

Runs get fewer and shorter from column to column. A column is looked at only where those before it have not decided.
"""

from __future__ import annotations

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.jit import inlined_kernel, kernel

LONGEST_INSERTED = 24
"""Insertion is quadratic, but quickest for so many."""


@kernel
def find_runs(values: Int64s) -> tuple[Int64s, Int64s]:
    """Where runs of at least two equal neighbours begin and end."""
    lows = np.empty(values.shape[0] // 2, np.int64)
    highs = np.empty(values.shape[0] // 2, np.int64)
    n_runs = _split(values, values.shape[0], 0, lows, highs, 0)
    return lows[:n_runs].copy(), highs[:n_runs].copy()


@kernel
def sort_runs(lows: Int64s, highs: Int64s, keys: Int64s, order: Int64s) -> tuple[Int64s, Int64s, bool]:
    """Sorts the rows in `order` by their key within each run `lows[i]..highs[i] - 1`; rows of equal keys stay in order.

    Returns where the runs of rows with equal keys begin and end, and whether anything moved.
    """
    # 1. Room for the longest run, and for as many new runs as rows can make, so that no run allocates.
    longest = 0
    n_tied = 0
    for run in range(lows.shape[0]):
        longest = max(longest, highs[run] - lows[run])
        n_tied += highs[run] - lows[run]
    own = np.empty(longest, np.int64)
    other = np.empty(longest, np.int64)
    other_rows = np.empty(longest, np.int64)
    new_lows = np.empty(n_tied // 2, np.int64)
    new_highs = np.empty(n_tied // 2, np.int64)
    n_runs = 0
    is_changed = False
    for run in range(lows.shape[0]):
        # 2. Most runs are in order already: what is not moved need not be copied.
        low = lows[run]
        n_rows = highs[run] - low
        n_found = _split_sorted(keys, order, low, highs[run], new_lows, new_highs, n_runs)
        if n_found >= 0:
            n_runs = n_found
            continue
        # 3. Keys are gathered once; sorting then moves them along with their rows.
        is_changed = True
        for k in range(n_rows):
            own[k] = keys[order[low + k]]
        _sort(own[:n_rows], order[low : low + n_rows], other, other_rows)
        n_runs = _split(own, n_rows, low, new_lows, new_highs, n_runs)
    return new_lows[:n_runs].copy(), new_highs[:n_runs].copy(), is_changed


@inlined_kernel
def _split_sorted(keys: Int64s, order: Int64s, low: int, high: int, lows: Int64s, highs: Int64s, n_runs: int) -> int:
    """`_split` of the rows `order[low..high - 1]` by their keys, without a copy of these; -1 if they do not rise."""
    start = low
    before = keys[order[low]]
    for k in range(low + 1, high):
        key = keys[order[k]]
        if key != before:
            if key < before:
                return -1
            if k - start > 1:
                lows[n_runs] = start
                highs[n_runs] = k
                n_runs += 1
            start = k
            before = key
    if high - start > 1:
        lows[n_runs] = start
        highs[n_runs] = high
        n_runs += 1
    return n_runs


@kernel
def _split(values: Int64s, n_values: int, offset: int, lows: Int64s, highs: Int64s, n_runs: int) -> int:
    """Writes down the runs of at least two equal neighbours, after `n_runs` others. Returns how many there are then."""
    start = 0
    for k in range(1, n_values + 1):
        if k == n_values or values[k] != values[start]:
            if k - start > 1:
                lows[n_runs] = offset + start
                highs[n_runs] = offset + k
                n_runs += 1
            start = k
    return n_runs


@kernel
def _sort(keys: Int64s, rows: Int64s, other_keys: Int64s, other_rows: Int64s) -> None:
    """Sorts keys and with them rows: pieces by insertion, which are then merged, two at a time, to and fro."""
    n_rows = keys.shape[0]
    # 1. Pieces that are sorted quickest by insertion.
    width = LONGEST_INSERTED
    for low in range(0, n_rows, width):
        _insert(keys, rows, low, min(low + width, n_rows))
    # 2. Merged to and fro; where the last merge has left them is known from how many there were.
    from_keys, from_rows = keys, rows
    to_keys, to_rows = other_keys[:n_rows], other_rows[:n_rows]
    is_home = True
    while width < n_rows:
        for low in range(0, n_rows, 2 * width):
            _merge(from_keys, from_rows, to_keys, to_rows, low, width)
        from_keys, to_keys = to_keys, from_keys
        from_rows, to_rows = to_rows, from_rows
        is_home = not is_home
        width *= 2
    if not is_home:
        keys[:] = from_keys
        rows[:] = from_rows


@kernel
def _insert(keys: Int64s, rows: Int64s, low: int, high: int) -> None:
    for k in range(low + 1, high):
        key = keys[k]
        row = rows[k]
        place = k
        while place > low and key < keys[place - 1]:
            keys[place] = keys[place - 1]
            rows[place] = rows[place - 1]
            place -= 1
        keys[place] = key
        rows[place] = row


@kernel
def _merge(from_keys: Int64s, from_rows: Int64s, to_keys: Int64s, to_rows: Int64s, low: int, width: int) -> None:
    """Merges the sorted pieces of `width` rows from `low` on; of equal keys the first piece's come first."""
    n_rows = from_keys.shape[0]
    middle = min(low + width, n_rows)
    high = min(low + 2 * width, n_rows)
    one = low
    two = middle
    for k in range(low, high):
        if one < middle and (two >= high or from_keys[one] <= from_keys[two]):
            to_keys[k] = from_keys[one]
            to_rows[k] = from_rows[one]
            one += 1
        else:
            to_keys[k] = from_keys[two]
            to_rows[k] = from_rows[two]
            two += 1
