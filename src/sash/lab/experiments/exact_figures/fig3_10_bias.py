"""Exact, Figures 3.9 and 3.10: how EWJ does as arrivals become more bursty."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import PAPER, ExactScale, nested_case
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import (
    LATENESS,
    LateShare,
    line,
    measure,
    rises,
    tell,
    tell_share,
)
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE = 200
EIGHTHS = 3
"""A window is 2^-3 of the duration."""


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure([(nested_case(RATE, bias=bias), {"bias": bias}) for bias in scale.ewj_biases], scale, note)
    claims = {
        "E3.12": [_swings(rows)],
        "E3.13": [_delay(rows)],
        "E3.14": [_late(rows, each) for each in LATENESS],
        "E3.15": [_window(rows)],
    }
    return Outcome(rows, numbered(claims))


def _swings(rows: Sequence[Row]) -> Claim:
    found = {bias: _n_swings(curve) for bias, curve in line(rows, "buffered", "bias").items()}
    return Claim(
        "The backlog comes and goes even if the rate is even, b = 0.5 (at least five times)",
        "above a tenth of its peak, and below again: " + tell(found, "{} times"),
        found[min(found)] >= 5,
    )


def _n_swings(curve: Sequence[float]) -> int:
    """How often a curve comes to more than a tenth of its peak."""
    level = 0.1 * max(curve)
    return sum(one <= level < other for one, other in pairwise(curve))


def _delay(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "bias")
    return Claim(
        "The average delay rises drastically with the bias (at least twice as much at the last)",
        tell(found, "{:.0f}", " s"),
        rises(found) and found[max(found)] > 2 * found[min(found)],
        "at this rate most of the delay is the wait for the next probe, which comes every nine minutes, sooner in a "
        "burst; a backlog adds to it only with the largest bias",
    )


def _late(rows: Sequence[Row], lateness: LateShare) -> Claim:
    found = line(rows, lateness.column, "bias")
    return Claim(
        f"Delayed tuples become more with the bias (shown, not said), {lateness.title}",
        tell_share(found),
        rises(found),
        "the trace of another bias has its bursts elsewhere",
    )


def _window(rows: Sequence[Row]) -> Claim:
    found = line(rows, "stream_mb", "bias")
    law = {bias: RATE * 14_400 * bias**EIGHTHS * 128 / 1e6 for bias in found}
    return Claim(
        "The fullest window of a stream grows as b³ (shown, not said; within 15 %)",
        "; ".join(f"{found[bias]:.1f} MB, by the law {law[bias]:.1f} MB ({bias})" for bias in found),
        all(abs(found[bias] / law[bias] - 1) < 0.15 for bias in found),
        "a window that is no eighth of the duration can have more than the fullest eighth",
    )


EXPERIMENT = Experiment(
    "3-10",
    "delay, delayed tuples and window of EWJ by bias",
    PAPER,
    run,
    partial(draw_lines, over="bias", axis="bias b", columns=("delay_s", "late_inputs", "late_outputs", "stream_mb")),
)
