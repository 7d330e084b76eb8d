"""Exact, Figures 5.6, 5.7 and 5.12: how many tuples wait, and how many have been processed, over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, TITLES, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, nearest, rises, tell, tell_both
from sash.lab.experiments.exact_figures.exact_picture import draw_curves
from sash.lab.experiments.exact_figures.exact_rates import METHODS, SATURATED, measure_rates
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row


def run(scale: ExactScale, note: Note) -> Outcome:
    """A curve for each method and rate."""
    rows = measure_rates(scale, note)
    claims = {
        "E5.3": [_grows(rows, method) for method in METHODS],
        "E5.4": [_overload(rows)],
        "E5.16": [_equal(rows), _course(rows)],
    }
    return Outcome(rows, numbered(claims))


def _grows(rows: Sequence[Row], method: str) -> Claim:
    found = line(rows, "buffered_peak", "rate", method=method)
    return Claim(f"The backlog of {TITLES[method]} grows with the rate", f"at most {tell(found)}", rises(found))


def _overload(rows: Sequence[Row]) -> Claim:
    behind = {
        method: {rate: peak / (2 * rate) for rate, peak in line(rows, "buffered_peak", "rate", method=method).items()}
        for method in METHODS
    }
    limit_s = ExactCase(RPWJ, SATURATED).window_s / 2
    rate = nearest(behind[RPWJ], SATURATED)
    return Claim(
        f"RPWJ is overloaded at {SATURATED} tuples per second and stream, AH-EWJ is not (behind by half a window)",
        f"behind by up to {tell_both(behind, '{:.0f}', ' s')}",
        behind[RPWJ][rate] > limit_s > behind[AHEWJ][rate],
        "the price of a comparison was computed so that it should be",
    )


def _equal(rows: Sequence[Row]) -> Claim:
    found = {m: {rate: curve[-1] for rate, curve in line(rows, "processed", "rate", method=m).items()} for m in METHODS}
    share = {rate: found[RPWJ][rate] / found[AHEWJ][rate] for rate in found[RPWJ]}
    return Claim(
        "Both have processed as many tuples in the end (within 1 %)",
        f"RPWJ to AH-EWJ {tell(share, '{:.4f}')}",
        all(abs(each - 1) < 0.01 for each in share.values()),
        "what RPWJ has not worked off when the trace ends is missing",
    )


def _course(rows: Sequence[Row]) -> Claim:
    curves = {method: line(rows, "processed", "rate", method=method) for method in METHODS}
    away = {rate: _distance(curves[RPWJ][rate], curve) for rate, curve in curves[AHEWJ].items()}
    return Claim(
        "They have about the same course over time (within 5 % of all tuples)",
        tell({rate: 100 * each for rate, each in away.items()}, "{:.1f}", " %"),
        max(away.values()) < 0.05,
        "here both have the same trace, so that a burst is at the same place; RPWJ takes longer to work it off",
    )


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.abs(np.array(one) - other).max() / max(one[-1], other[-1]))


EXPERIMENT = Experiment(
    "5-7",
    "tuples that wait for AH-EWJ and RPWJ over time, by rate",
    PAPER,
    run,
    partial(
        draw_curves,
        over="rate",
        axis="tuples/s",
        columns={"buffered": "buffered tuples", "processed": "tuples processed"},
    ),
)
