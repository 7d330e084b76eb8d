"""Quantiles of groups, before and after each run of events, and what lies between two values.

A quantile is given by a fraction p / q. Of n values in order, the discrete one is the first of which at least n p / q
are not beyond it; the continuous one lies at place (n - 1) p / q, between two values if that is no whole number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.expansions import add_to_row, clear_row, divide_row, two_product
from sash.kernels.jit import inlined_kernel, kernel
from sash.kernels.running_sums import BeforeAfter, GroupRuns
from sash.kernels.treaps import Treaps, insert, kth, remove, size

ROOM = 20
HUGE, SCALE_DOWN, SCALE_UP = 2.0**900, 2.0**-120, 2.0**120


class Quantile(NamedTuple):
    """`is_descending`: the values are looked at from the greatest on, which matters to a discrete one."""

    numerator: int
    denominator: int
    is_continuous: bool
    is_descending: bool


@kernel
def follow_quantile(
    runs: GroupRuns,
    values: Int64s,
    quantile: Quantile,
    treaps: Treaps,
    results: Int64s,
    rests: Int64s,
    out: BeforeAfter,
) -> None:
    """Writes for each side of each run the values around the place, and by how many parts of q it is beyond the first.

    `results` and `rests` keep what was last written of each group.
    """
    (starts, groups, signs, valid), (roots, nodes, pool, words), (out_values, out_valid) = runs, treaps, out
    for run in range(groups.shape[0]):
        group = groups[run]
        out_valid[0, run] = size(group, roots, nodes) > 0
        out_values[0, run, 0], out_values[0, run, 1] = results[group, 0], results[group, 1]
        out_values[0, run, 2] = rests[group]
        for event in range(starts[run], starts[run + 1]):
            if valid.shape[0] and not valid[event]:
                continue
            if signs[event] > 0:
                insert(group, values[event], roots, nodes, pool, words)
            else:
                remove(group, values[event], roots, nodes, pool, words)
        n = size(group, roots, nodes)
        out_valid[1, run] = n > 0
        if n > 0:
            place, rests[group] = _place(n, quantile)
            results[group, 0] = kth(group, place, roots, nodes)
            results[group, 1] = kth(group, place + 1, roots, nodes) if rests[group] else results[group, 0]
        out_values[1, run, 0], out_values[1, run, 1] = results[group, 0], results[group, 1]
        out_values[1, run, 2] = rests[group]


@inlined_kernel
def _place(n: int, quantile: Quantile) -> tuple[int, int]:
    """How many of `n` values are before the quantile, and the rest."""
    numerator, denominator, is_continuous, is_descending = quantile
    if is_continuous:
        scaled = (n - 1) * numerator
        return scaled // denominator, scaled % denominator
    place = max(1, (n * numerator + denominator - 1) // denominator) - 1
    return (n - 1 - place if is_descending else place), 0


@kernel
def interpolate(low: Floats, high: Floats, rests: Int64s, denominator: int, out: Floats) -> None:
    """The nearest doubles to what lies `rests` parts of `denominator` from low to high, each the sum of a row."""
    numbers, divisor, scratch = np.zeros(ROOM), np.zeros(2), np.zeros(ROOM)
    divisor[0] = denominator
    for i in range(out.shape[0]):
        first, last = low[i, 0] + low[i, 1], high[i, 0] + high[i, 1]
        if rests[i] == 0 or first == last:
            out[i] = first
            continue
        near, far = np.float64(denominator - rests[i]), np.float64(rests[i])
        if not (np.isfinite(first) and np.isfinite(last)):
            out[i] = first * near + last * far
            continue
        # What is huge must not overflow on the way: its products with a fraction's terms are scaled.
        is_huge = max(abs(first), abs(last)) > HUGE
        scale = SCALE_DOWN if is_huge else 1.0
        clear_row(numbers)
        for part in range(2):
            _add_product(numbers, low[i, part] * scale, near)
            _add_product(numbers, high[i, part] * scale, far)
        quotient = divide_row(numbers, divisor, scratch)
        out[i] = quotient * SCALE_UP if is_huge else quotient


@inlined_kernel
def _add_product(row: Floats, a: float, b: float) -> None:
    product, error = two_product(a, b)
    if product != 0.0:
        add_to_row(row, product)
    if error != 0.0:
        add_to_row(row, error)
