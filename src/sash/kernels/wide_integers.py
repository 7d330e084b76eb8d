"""Integers of 192 bits: rows of three 64-bit words, least first, in two's complement.

A sum of 2^63 values of 38 digits, or of 2^63 squares of 64-bit integers, fits.
"""

from __future__ import annotations

import math

import numpy as np

from sash.kernels.arrays import Floats, UInt64s
from sash.kernels.jit import inlined_kernel, kernel

N_WORDS = 3
ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
LIMIT_LOW = np.uint64(10**38 & 0xFFFFFFFFFFFFFFFF)
LIMIT_HIGH = np.uint64(10**38 >> 64)
TOP_BIT = np.uint64(1 << 63)
HALF_WORD = np.uint64(0xFFFFFFFF)


@inlined_kernel
def add_words(row: UInt64s, low: np.uint64, middle: np.uint64, high: np.uint64, sign: int) -> None:
    """Adds (sign +1) or takes away (-1) the number of the three words."""
    flip = np.uint64(0)
    carry = np.uint64(0)
    if sign < 0:
        flip = ONES
        carry = np.uint64(1)
    word = low ^ flip
    total = row[0] + word
    over = np.uint64(total < word)
    row[0] = total + carry
    carry = over | np.uint64(row[0] < carry)
    word = middle ^ flip
    total = row[1] + word
    over = np.uint64(total < word)
    row[1] = total + carry
    carry = over | np.uint64(row[1] < carry)
    row[2] = row[2] + (high ^ flip) + carry


@inlined_kernel
def magnitude(row: UInt64s) -> tuple[np.uint64, np.uint64, np.uint64, bool]:
    """The absolute value as three words, and whether the number is negative."""
    low, middle, high = row[0], row[1], row[2]
    is_negative = (high & TOP_BIT) != np.uint64(0)
    if is_negative:
        low, middle, high = ~low, ~middle, ~high
        low += np.uint64(1)
        if low == np.uint64(0):
            middle += np.uint64(1)
            if middle == np.uint64(0):
                high += np.uint64(1)
    return low, middle, high, is_negative


@kernel
def has_38_digits(row: UInt64s) -> bool:
    """Whether the number can be written with at most 38 digits."""
    low, middle, high, _ = magnitude(row)
    if high != np.uint64(0):
        return False
    return middle < LIMIT_HIGH or (middle == LIMIT_HIGH and low < LIMIT_LOW)


@kernel
def to_parts(row: UInt64s, parts: Floats) -> None:
    """The number as doubles whose exact sum it is, in the first six places of `parts`."""
    low, middle, high, is_negative = magnitude(row)
    sign = -1.0 if is_negative else 1.0
    shift = np.uint64(32)
    parts[0] = sign * np.float64(low & HALF_WORD)
    parts[1] = sign * math.ldexp(np.float64(low >> shift), 32)
    parts[2] = sign * math.ldexp(np.float64(middle & HALF_WORD), 64)
    parts[3] = sign * math.ldexp(np.float64(middle >> shift), 96)
    parts[4] = sign * math.ldexp(np.float64(high & HALF_WORD), 128)
    parts[5] = sign * math.ldexp(np.float64(high >> shift), 160)


@inlined_kernel
def square(low: np.uint64, high: int) -> tuple[np.uint64, np.uint64]:
    """The square of a 64-bit number given as sign-extended words: the low and high word of 128 bits."""
    x = low
    if high < 0:
        x = ~low + np.uint64(1)
    shift = np.uint64(32)
    a, b = x & HALF_WORD, x >> shift
    cross = a * b
    bottom = a * a
    middle = (bottom >> shift) + (cross & HALF_WORD) + (cross & HALF_WORD)
    result = (bottom & HALF_WORD) | (middle << shift)
    return result, b * b + np.uint64(2) * (cross >> shift) + (middle >> shift)
