"""Variances and standard deviations of groups, before and after each run of events.

Kept are the exact sums S of x and Q of x². For any c, the squares of x - c add up to Q - 2cS + nc². With c the double
next to the mean no more than one bit is lost to cancellation, and nothing at all when all values are equal: every
value is a double, so none is nearer to the mean than c. All this is exact; rounded are c and the last few steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Floats, Int64s, UInt64s
from sash.kernels.expansions import add_to_row, clear_row, has_room, round_row, two_product
from sash.kernels.jit import inlined_kernel, kernel
from sash.kernels.running_sums import (
    COUNT,
    NANS,
    NEGATIVE_INFINITIES,
    POSITIVE_INFINITIES,
    ROOM,
    BeforeAfter,
    GroupRuns,
    IntegerWords,
    count_special,
)
from sash.kernels.wide_integers import add_words, square, to_parts

# Doubles are kept in three bands, each scaled so that squares and the errors of rounding them are exact.
SMALL, NORMAL, LARGE = 0, 1, 2
N_BANDS = 3
N_PARTS = 6
N_BELOW = 4
SMALL_BELOW, LARGE_FROM = 2.0**-400, 2.0**480
SCALE_UP, SCALE_DOWN = 2.0**600, 2.0**-600
SUMS, SQUARES = 0, 1


class Spread(NamedTuple):
    """What is asked of values that are `unit` times too large: a variance, or its root, of a sample or of all."""

    is_sample: bool
    is_root: bool
    unit: float = 1.0


@kernel
def deviate_integers(
    runs: GroupRuns,
    words: IntegerWords,
    counts: Int64s,
    sums: UInt64s,
    squares: UInt64s,
    results: Floats,
    measure: Spread,
    out: BeforeAfter,
) -> None:
    """Deviations of 64-bit integers (sign-extended words)."""
    (starts, groups, signs, valid), (low, high), (out_values, out_valid) = runs, words, out
    least = 2 if measure.is_sample else 1
    parts = np.zeros((2, N_PARTS))
    scratch = np.zeros(ROOM)
    for run in range(groups.shape[0]):
        group = groups[run]
        out_values[0, run], out_valid[0, run] = results[group], counts[group] >= least
        # 1. Sums and squares are integers: what leaves takes away just what it brought.
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            counts[group] += signs[event]
            top, ext = np.uint64(high[event]), np.uint64(high[event] >> 63)
            add_words(sums[group], low[event], top, ext, signs[event])
            square_low, square_high = square(low[event], high[event])
            add_words(squares[group], square_low, square_high, np.uint64(0), signs[event])
        # 2. Only here something is rounded, once for all events of the run.
        if counts[group] >= least:
            to_parts(sums[group], parts[SUMS])
            to_parts(squares[group], parts[SQUARES])
            variance = _variance(counts[group], parts[SUMS], parts[SQUARES], measure.is_sample, scratch)
            results[group] = _in_units(variance, measure.is_root, measure.unit)
        out_values[1, run], out_valid[1, run] = results[group], counts[group] >= least


@kernel
def deviate_doubles(
    at: tuple[int, int],
    runs: GroupRuns,
    values: Floats,
    tallies: Int64s,
    parts: Floats,
    results: Floats,
    measure: Spread,
    out: BeforeAfter,
) -> tuple[int, int]:
    """Deviations of doubles, from `at` on, as `running_sums.sum_doubles`; NaN if a value is not finite."""
    (starts, groups, signs, valid), (out_values, out_valid) = runs, out
    joined = np.zeros((2, parts.shape[3] + N_BELOW))
    scratch = np.zeros(ROOM)
    least = 2 if measure.is_sample else 1
    first_run, first_event = at
    for run in range(first_run, groups.shape[0]):
        tally, bands = tallies[groups[run]], parts[groups[run]]
        first = max(first_event, starts[run])
        if first == starts[run]:
            out_values[0, run], out_valid[0, run] = results[groups[run]], tally[COUNT] >= least
        for event in range(first, starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            if not _add_double(tally, bands, values[event], signs[event]):
                return run, event
        results[groups[run]] = _read_doubles(tally, bands, measure, joined, scratch)
        out_values[1, run], out_valid[1, run] = results[groups[run]], tally[COUNT] >= least
    return groups.shape[0], starts[groups.shape[0]]


@kernel
def _add_double(tally: Int64s, bands: Floats, value: float, sign: int) -> bool:
    if value != 0.0 and np.isfinite(value):
        band, x = _scaled(value)
        rows = bands[band]
        if not (has_room(rows[SUMS], 1) and has_room(rows[SQUARES], 2)):
            return False
        product, error = two_product(x, x)
        add_to_row(rows[SUMS], x * sign)
        add_to_row(rows[SQUARES], product * sign)
        add_to_row(rows[SQUARES], error * sign)
    count_special(tally, value, sign)
    tally[COUNT] += sign
    return True


@inlined_kernel
def _scaled(value: float) -> tuple[int, float]:
    if abs(value) < SMALL_BELOW:
        return SMALL, value * SCALE_UP
    if abs(value) >= LARGE_FROM:
        return LARGE, value * SCALE_DOWN
    return NORMAL, value


@kernel
def _read_doubles(tally: Int64s, bands: Floats, measure: Spread, joined: Floats, scratch: Floats) -> float:
    """With the sums of the highest band in use and of the one below it; what is further below makes no difference."""
    if tally[NANS] > 0 or tally[POSITIVE_INFINITIES] > 0 or tally[NEGATIVE_INFINITIES] > 0:
        return np.nan
    if tally[COUNT] < 2:
        return 0.0
    # 1. What is in use is the highest band with a square in it: zeros are in none.
    band = LARGE
    while band > SMALL and bands[band, SQUARES, 0] == 0.0:
        band -= 1
    # 2. The band below is brought to the same scale, in its greatest parts.
    width = bands.shape[2]
    joined[:, :width] = bands[band]
    joined[:, width:] = 0.0
    if band > SMALL and bands[band - 1, SQUARES, 0] != 0.0:
        _scale_down(bands[band - 1, SUMS], 1, joined[SUMS, width:], scratch)
        _scale_down(bands[band - 1, SQUARES], 2, joined[SQUARES, width:], scratch)
    # 3. A deviation scales as its values do.
    variance = _variance(tally[COUNT], joined[SUMS], joined[SQUARES], measure.is_sample, scratch)
    unit = 1.0
    if band != NORMAL:
        unit = SCALE_UP if band == SMALL else SCALE_DOWN
    return _in_units(variance, measure.is_root, unit)


@kernel
def _scale_down(row: Floats, n_times: int, out: Floats, scratch: Floats) -> None:
    """The greatest parts of a number, scaled.

    What they lose by underflow must not tell how the row is cut into parts. So they are cut anew, each one the nearest
    double to what is left.
    """
    clear_row(scratch)
    for part in row:
        if part != 0.0:
            add_to_row(scratch, part)
    for i in range(out.shape[0]):
        nearest = round_row(scratch)
        out[i] = nearest
        for _ in range(n_times):
            out[i] *= SCALE_DOWN
        if nearest != 0.0:
            add_to_row(scratch, -nearest)


@kernel
def _variance(n: int, sums: Floats, squares: Floats, is_sample: bool, scratch: Floats) -> float:
    """Of `n` values, from parts whose exact sums are S and Q."""
    count = np.float64(n)
    # 1. The double next to the mean: a second step adds what rounding has taken from the first.
    center = _distance(count, 0.0, sums, scratch) / count
    center += _distance(count, center, sums, scratch) / count
    distance = _distance(count, center, sums, scratch)
    # 2. Q - 2cS + nc², exactly.
    clear_row(scratch)
    for part in squares:
        if part != 0.0:
            add_to_row(scratch, part)
    for part in sums:
        if part != 0.0:
            _add_product(scratch, -2.0 * center, part)
    product, error = two_product(count, center)
    _add_product(scratch, product, center)
    _add_product(scratch, error, center)
    # 3. Around the mean instead of c it is less by (S - nc)² / n, which is small: its own rounding does not matter.
    spread = round_row(scratch) - distance * distance / count
    return max(0.0, spread) / (count - 1.0 if is_sample else count)


@inlined_kernel
def _in_units(variance: float, is_root: bool, unit: float) -> float:
    """A variance of values that are `unit` times too large, or its root."""
    return math.sqrt(variance) / unit if is_root else variance / unit / unit


@kernel
def _distance(count: float, center: float, sums: Floats, scratch: Floats) -> float:
    """S - n * center, rounded once."""
    clear_row(scratch)
    for part in sums:
        if part != 0.0:
            add_to_row(scratch, part)
    _add_product(scratch, -count, center)
    return round_row(scratch)


@inlined_kernel
def _add_product(row: Floats, a: float, b: float) -> None:
    product, error = two_product(a, b)
    if product != 0.0:
        add_to_row(row, product)
    if error != 0.0:
        add_to_row(row, error)
