"""Counts and sums of groups, before and after each run of events.

What is costly to read is kept for each group in `results`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Floats, Int8s, Int64s, UInt64s
from sash.kernels.expansions import add_to_row, clear_row, divide_row, round_row, two_product
from sash.kernels.jit import inlined_kernel, kernel
from sash.kernels.wide_integers import N_WORDS, add_words, has_38_digits, to_parts

COUNT, NANS, POSITIVE_INFINITIES, NEGATIVE_INFINITIES = 0, 1, 2, 3
N_TALLIES = 4

# Doubles of at least 2^970 are summed apart, scaled down, so that no sum on the way to a finite one overflows.
NORMAL, LARGE = 0, 1
N_SUM_BANDS = 2
LARGE_FROM = 2.0**970
SCALE_DOWN, SCALE_UP = 2.0**-100, 2.0**100
SCALES_FROM, FITS_BELOW = 2.0**-800, 2.0**900
SMALLEST_NORMAL = 2.0**-1022
ROOM = 64


class GroupRuns(NamedTuple):
    """Run r holds the events `starts[r]..starts[r + 1]` of one group. An event enters (+1) or leaves (-1), and is
    skipped where `valid` is False; an empty `valid` means that all count.
    """

    starts: Int64s
    groups: Int64s
    signs: Int8s
    valid: Bools


class IntegerWords(NamedTuple):
    """The integer of each event in 128 bits."""

    low: UInt64s
    high: Int64s


class BeforeAfter(NamedTuple):
    """Results in two rows: before the runs and after them."""

    values: Int64s | UInt64s | Floats
    valid: Bools


@kernel
def count(runs: GroupRuns, counts: Int64s, out: Int64s) -> None:
    """How many values each group has; `out` has two rows, before the runs and after them."""
    starts, groups, signs, valid = runs
    for run in range(groups.shape[0]):
        total = counts[groups[run]]
        out[0, run] = total
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] == 0 or valid[event]:
                total += signs[event]
        counts[groups[run]] = total
        out[1, run] = total


@kernel
def sum_integers(runs: GroupRuns, words: IntegerWords, counts: Int64s, sums: UInt64s, results: BeforeAfter) -> int:
    """Sums as 128-bit words. Returns the first run whose sum is beyond 38 digits, or -1."""
    (starts, groups, signs, valid), (low, high), (out, out_valid) = runs, words, results
    for run in range(groups.shape[0]):
        group = groups[run]
        out[0, run, 0], out[0, run, 1] = sums[group, 0], sums[group, 1]
        out_valid[0, run] = counts[group] > 0
        counts[group] += add_integers(starts[run], starts[run + 1], signs, valid, low, high, sums[group])
        if not has_38_digits(sums[group]):
            return run
        out[1, run, 0], out[1, run, 1] = sums[group, 0], sums[group, 1]
        out_valid[1, run] = counts[group] > 0
    return -1


@kernel
def average_integers(
    runs: GroupRuns, words: IntegerWords, counts: Int64s, sums: UInt64s, unit: Floats, results: BeforeAfter
) -> None:
    """Means as doubles: the nearest to the sum over the count times the sum of `unit`, which is an integer."""
    (starts, groups, signs, valid), (low, high), (out, out_valid) = runs, words, results
    scratch = np.zeros((3, ROOM))
    parts = np.empty(2 * N_WORDS)
    for run in range(groups.shape[0]):
        group = groups[run]
        for side in range(2):
            if side == 1:
                counts[group] += add_integers(starts[run], starts[run + 1], signs, valid, low, high, sums[group])
            n = counts[group]
            out_valid[side, run] = n > 0
            out[side, run] = _divide_integers(sums[group], n, unit, parts, scratch) if n > 0 else 0.0


@kernel
def _divide_integers(total: UInt64s, n: int, unit: Floats, parts: Floats, scratch: Floats) -> float:
    row, divisor, rest = scratch[0], scratch[1], scratch[2]
    clear_row(row)
    clear_row(divisor)
    to_parts(total, parts)
    for part in parts:
        if part != 0.0:
            add_to_row(row, part)
    for part in unit:
        product, error = two_product(part, np.float64(n))
        add_to_row(divisor, product)
        if error != 0.0:
            add_to_row(divisor, error)
    return divide_row(row, divisor, rest)


@inlined_kernel
def add_integers(first: int, last: int, signs: Int8s, valid: Bools, low: UInt64s, high: Int64s, total: UInt64s) -> int:
    """Adds the events of one run to a group's sum. Returns how many values it has more."""
    n_more = 0
    for event in range(first, last):
        if valid.shape[0] == 0 or valid[event]:
            n_more += signs[event]
            add_words(total, low[event], np.uint64(high[event]), np.uint64(high[event] >> 63), signs[event])
    return n_more


@kernel
def sum_doubles(
    at: tuple[int, int],
    runs: GroupRuns,
    values: Floats,
    tallies: Int64s,
    parts: Floats,
    results: Floats,
    is_mean: bool,
    out: BeforeAfter,
) -> tuple[int, int]:
    """Sums or means of doubles, from `at` on: a run, and one of its events.

    Returns the place where it stopped, as a row of `parts` is too short; the number of runs when all are done.
    """
    (starts, groups, signs, valid), (out_values, out_valid) = runs, out
    scratch = np.zeros((3, ROOM))
    first_run, first_event = at
    for run in range(first_run, groups.shape[0]):
        tally, rows = tallies[groups[run]], parts[groups[run]]
        # 1. A run that was interrupted has been written down before its first event, and must not be again.
        first = max(first_event, starts[run])
        if first == starts[run]:
            out_values[0, run], out_valid[0, run] = results[groups[run]], tally[COUNT] > 0
        # 2. An event is added whole or not at all: it is where to go on.
        for event in range(first, starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            if not _add_double(tally, rows, values[event], signs[event]):
                return run, event
        # 3. Rounding takes longer than adding, so it is done once for all events of the run.
        results[groups[run]] = _read_sum(tally, rows, is_mean, scratch)
        out_values[1, run], out_valid[1, run] = results[groups[run]], tally[COUNT] > 0
    return groups.shape[0], starts[groups.shape[0]]


@inlined_kernel
def count_special(tally: Int64s, value: float, sign: int) -> bool:
    """Counts NaN and the infinities apart. Returns whether the value is finite."""
    if np.isfinite(value):
        return True
    if np.isnan(value):
        tally[NANS] += sign
    elif value > 0.0:
        tally[POSITIVE_INFINITIES] += sign
    else:
        tally[NEGATIVE_INFINITIES] += sign
    return False


@inlined_kernel
def _add_double(tally: Int64s, rows: Floats, value: float, sign: int) -> bool:
    if count_special(tally, value, sign):
        signed = value if sign > 0 else -value
        if abs(value) < LARGE_FROM:
            is_done = add_to_row(rows[NORMAL], signed)
        else:
            is_done = add_to_row(rows[LARGE], signed * SCALE_DOWN)
        if not is_done:
            return False
    tally[COUNT] += sign
    return True


@inlined_kernel
def _read_sum(tally: Int64s, rows: Floats, is_mean: bool, scratch: Floats) -> float:
    if tally[NANS] > 0 or (tally[POSITIVE_INFINITIES] > 0 and tally[NEGATIVE_INFINITIES] > 0):
        return np.nan
    if tally[POSITIVE_INFINITIES] > 0:
        return np.inf
    if tally[NEGATIVE_INFINITIES] > 0:
        return -np.inf
    row, scale = rows[NORMAL], 1.0
    if rows[LARGE, 0] != 0.0:
        row, scale = scratch[0], _put_together(rows, scratch[0])
    if not is_mean or tally[COUNT] == 0:
        return round_row(row) * scale
    # What a mean of finite numbers is scaled up to is no larger than they are.
    scratch[1, 0] = tally[COUNT]
    return divide_row(row, scratch[1], scratch[2]) * scale


@kernel
def _put_together(rows: Floats, scratch: Floats) -> float:
    """The sum of both bands as one row, over the number that is returned."""
    clear_row(scratch)
    # 1. Scaled down nothing overflows; what is so small that it would lose bits is left for later.
    for part in rows[LARGE]:
        add_to_row(scratch, part)
    last = rows.shape[1] - 1
    while last >= 0 and (rows[NORMAL, last] == 0.0 or abs(rows[NORMAL, last]) >= SCALES_FROM):
        add_to_row(scratch, rows[NORMAL, last] * SCALE_DOWN)
        last -= 1
    # 2. If the bands cancel out, the sum is in range as it is, and every part counts.
    if abs(round_row(scratch)) < FITS_BELOW:
        for i in range(scratch.shape[0]):
            scratch[i] *= SCALE_UP
        for i in range(last, -1, -1):
            add_to_row(scratch, rows[NORMAL, i])
        return 1.0
    # 3. Beside so large a sum, the parts left only break a tie: any tiny number with the sign of the greatest does so.
    if last >= 0:
        add_to_row(scratch, SMALLEST_NORMAL if rows[NORMAL, last] > 0.0 else -SMALLEST_NORMAL)
    return SCALE_UP
