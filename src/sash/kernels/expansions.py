"""Exact sums of doubles: a number as a row of doubles that do not overlap (Shewchuk 1997).

    row   [2^-60, 1.0, 2^80, 0.0, 0.0]      parts by growing magnitude, then zeros; their exact sum is the number

Adding and taking away are exact, so a row depends on what is in the sum alone, never on what was there in between, up
to how the number is cut into parts; `round_row` rounds it once, to the nearest double, ties to even.

Two-sum and two-product are exact unless they overflow or underflow; callers scale what is too large or too small.
"""

from __future__ import annotations

import numpy as np

from sash.kernels.arrays import Floats
from sash.kernels.jit import inlined_kernel, kernel

SPLITTER = 134217729.0


@inlined_kernel
def two_product(a: float, b: float) -> tuple[float, float]:
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


@kernel
def add_to_row(row: Floats, x: float) -> bool:
    """Adds a finite double. Returns False, with the same number in the row, if there is no room for one part more."""
    if not has_room(row, 1):
        return False
    n_kept = 0
    n_parts = 0
    # No branch depends on the values but the end of the loop: they are hard to predict.
    while row[n_parts] != 0.0:
        part = row[n_parts]
        high = x + part
        part_seen = high - x
        row[n_kept] = (x - (high - part_seen)) + (part - part_seen)
        n_kept += row[n_kept] != 0.0
        n_parts += 1
        x = high
    row[n_kept] = x
    for i in range(n_kept + 1, n_parts):
        row[i] = 0.0
    return True


@inlined_kernel
def has_room(row: Floats, n_more: int) -> bool:
    """Whether `n_more` doubles can be added, after pushing the parts together if they are too many."""
    first_free = row.shape[0] - n_more
    if row[first_free] != 0.0:
        _compress(row)
    return row[first_free] == 0.0


@kernel
def _compress(row: Floats) -> None:
    """The same number in as few parts as 53 bits each allow (Shewchuk, figure 15)."""
    last = row.shape[0] - 1
    while row[last] == 0.0:
        last -= 1
    # 1. Downward from the greatest: sums go up, what they have lost by rounding is carried on.
    rest = row[last]
    bottom = last
    for i in range(last - 1, -1, -1):
        high = rest + row[i]
        low = row[i] - (high - rest)
        rest = high
        if low != 0.0:
            row[bottom] = high
            bottom -= 1
            rest = low
    row[bottom] = rest
    # 2. Upward: what is left over of two neighbours stays, so that parts do not overlap.
    n_parts = 0
    for i in range(bottom + 1, last + 1):
        high = row[i] + rest
        low = rest - (high - row[i])
        if low != 0.0:
            row[n_parts] = low
            n_parts += 1
        rest = high
    row[n_parts] = rest
    row[n_parts + 1 : last + 1] = 0.0


@inlined_kernel
def clear_row(row: Floats) -> None:
    """Makes the number 0."""
    i = 0
    while i < row.shape[0] and row[i] != 0.0:
        row[i] = 0.0
        i += 1


@kernel
def round_row(row: Floats) -> float:
    """The nearest double, ties to even; 0.0 for an empty row."""
    last = row.shape[0] - 1
    while last >= 0 and row[last] == 0.0:
        last -= 1
    if last < 0:
        return 0.0
    # 1. From the greatest on, until something is lost: what is further below cannot change the sum, but for ties.
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
    # 2. `low` is half a unit of `high` exactly when a tie was rounded; the next part below then decides.
    if last > 0 and ((low < 0.0 and row[last - 1] < 0.0) or (low > 0.0 and row[last - 1] > 0.0)):
        twice = 2.0 * low
        other = high + twice
        if twice == other - high:
            high = other
    return high


@kernel
def divide_row(row: Floats, divisor: Floats, rest: Floats) -> float:
    """The nearest double, ties to even, to the number of a row over that of another, a positive integer.

    `rest` is room for what is left. A double times an integer is exact in two doubles, however small it is.
    """
    # 1. A first guess, which is right if neither number had to be rounded.
    whole = round_row(divisor)
    quotient = round_row(row) / whole
    if row[1] == 0.0 and divisor[1] == 0.0:
        return quotient
    # 2. The rest is exact, so each step brings the guess nearer until it is a neighbour of the quotient.
    for _ in range(4):
        _set_rest(row, divisor, quotient, rest)
        better = quotient + round_row(rest) / whole
        if better == quotient:
            break
        quotient = better
    return _nearest(divisor, quotient, rest)


@kernel
def _set_rest(row: Floats, divisor: Floats, quotient: float, rest: Floats) -> None:
    """`row - quotient * divisor`, which is exact."""
    clear_row(rest)
    i = 0
    while i < row.shape[0] and row[i] != 0.0:
        add_to_row(rest, row[i])
        i += 1
    _subtract_product(divisor, quotient, rest)


@kernel
def _subtract_product(divisor: Floats, factor: float, rest: Floats) -> None:
    i = 0
    while i < divisor.shape[0] and divisor[i] != 0.0:
        product, error = two_product(factor, divisor[i])
        add_to_row(rest, -product)
        add_to_row(rest, -error)
        i += 1


@kernel
def _nearest(divisor: Floats, quotient: float, rest: Floats) -> float:
    """The quotient or its neighbour on the side where the rest lies, whichever is nearer: twice the rest tells."""
    side = round_row(rest)
    if side == 0.0:
        return quotient
    neighbour = np.nextafter(quotient, np.inf if side > 0.0 else -np.inf)
    gap = neighbour - quotient
    for i in range(rest.shape[0]):
        rest[i] *= 2.0
    _subtract_product(divisor, gap, rest)
    beyond = round_row(rest)
    if beyond == 0.0:
        return quotient if np.fmod(quotient / gap, 2.0) == 0.0 else neighbour
    return neighbour if (beyond > 0.0) == (side > 0.0) else quotient
