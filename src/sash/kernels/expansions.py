"""Exact sums of doubles: a number as a row of doubles that do not overlap (Shewchuk 1997).

    row   [2^-60, 1.0, 2^80, 0.0, 0.0]      parts by growing magnitude, then zeros; their exact sum is the number

Adding and taking away are exact, so a row depends on what is in the sum alone, never on what was there in between, up
to how the number is cut into parts; `round_row` rounds it once, to the nearest double, ties to even.

Two-sum and two-product are exact unless they overflow or underflow; callers scale what is too large or too small.
"""

from __future__ import annotations

from numba import njit

SPLITTER = 134217729.0


@njit(cache=True, inline="always")
def two_product(a, b):
    """`a * b` as its rounded value and the error of rounding (Dekker)."""
    product = a * b
    t = SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


@njit(cache=True)
def add_to_row(row, x):
    """Adds a finite double. Returns False, with the row as it was, if the row may be too short."""
    if x == 0.0:
        return True
    width = row.shape[0]
    if row[width - 1] != 0.0:
        return False
    n_kept = 0
    for i in range(width):
        part = row[i]
        if part == 0.0:
            break
        high = x + part
        if abs(x) < abs(part):
            low = x - (high - part)
        else:
            low = part - (high - x)
        if low != 0.0:
            row[n_kept] = low
            n_kept += 1
        x = high
    if x != 0.0:
        row[n_kept] = x
        n_kept += 1
    for i in range(n_kept, width):
        if row[i] == 0.0:
            break
        row[i] = 0.0
    return True


@njit(cache=True)
def round_row(row):
    """The nearest double, ties to even; 0.0 for an empty row."""
    last = row.shape[0] - 1
    while last >= 0 and row[last] == 0.0:
        last -= 1
    if last < 0:
        return 0.0
    high = row[last]
    low = 0.0
    while last > 0:
        last -= 1
        before = high
        part = row[last]
        high = before + part
        low = part - (high - before)
        if low != 0.0:
            break
    # `low` is half a unit of `high` exactly when a tie was rounded; the next part below then decides.
    if last > 0 and ((low < 0.0 and row[last - 1] < 0.0) or (low > 0.0 and row[last - 1] > 0.0)):
        twice = 2.0 * low
        other = high + twice
        if twice == other - high:
            high = other
    return high
