"""Exact, Figure 5.8: delayed tuples of AH-EWJ and RPWJ, by rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, TITLES, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import (
    INPUTS,
    LATENESS,
    LateShare,
    line,
    nearest,
    rises,
    tell_share,
)
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import HIGH, METHODS, SATURATED, SUSTAINED, measure_rates
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

KNEE = 1000
SAID = {SATURATED: 0.0005, SUSTAINED: 0.001}
"""At which rates AH-EWJ has which shares."""


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure_rates(scale, note)
    return Outcome(rows, [claim for each in LATENESS for claim in numbered(_claims(rows, each))])


def _claims(rows: Sequence[Row], lateness: LateShare) -> dict[str, list[Claim]]:
    found = {method: line(rows, lateness.column, "rate", method=method) for method in METHODS}
    return {
        "E5.5": [_more(found[method], lateness, method) for method in METHODS],
        "E5.6": [_sharp(found[RPWJ], lateness)],
        "E5.7": [_low(found[AHEWJ], lateness)],
        "E5.8": [_said(found[AHEWJ], lateness, SATURATED)],
        "E5.9": [_said(found[AHEWJ], lateness, SUSTAINED)],
    }


def _more(found: dict[int, float], lateness: LateShare, method: str) -> Claim:
    title = f"Delayed tuples of {TITLES[method]} become more with the rate, {lateness.title}"
    return Claim(title, tell_share(found), rises(found), _reason(lateness, method))


def _sharp(found: dict[int, float], lateness: LateShare) -> Claim:
    below = max((each for rate, each in found.items() if rate <= KNEE), default=0.0)
    return Claim(
        f"Those of RPWJ rise sharply beyond {KNEE} tuples per second and stream (twice as many), {lateness.title}",
        tell_share(found),
        found[nearest(found, SATURATED)] > 2 * below,
        _reason(lateness, RPWJ),
    )


def _low(found: dict[int, float], lateness: LateShare) -> Claim:
    return Claim(
        f"Those of AH-EWJ are few even at {HIGH} (less than 1 %), {lateness.title}",
        tell_share(found),
        found[nearest(found, HIGH)] < 0.01,
        _reason(lateness, AHEWJ),
    )


def _said(found: dict[int, float], lateness: LateShare, rate: int) -> Claim:
    share = found[nearest(found, rate)]
    return Claim(
        f"Those of AH-EWJ are about {SAID[rate]:.2%} at {rate} (up to twice that), {lateness.title}",
        f"{share:.2%}",
        share <= 2 * SAID[rate],
        _reason(lateness, AHEWJ),
    )


def _reason(lateness: LateShare, method: str) -> str:
    if lateness is not INPUTS:
        return "in the burst of this trace tuples wait for minutes, and what they join with has left by then"
    if method == RPWJ:
        return (
            "a tuple leaves in the periodic stage, after all tasks: if they take long, hardly one leaves within a "
            "slide of its end"
        )
    return (
        "blocks lie on disk in the order of trains, of 3 MB each, and come in that order to an invalidation segment of "
        "1.5 MB: those of a train's last buckets come late. With trains of 8 blocks they were a third as many at 600, "
        "with nearly twice the segment a sixth"
    )


EXPERIMENT = Experiment(
    "5-8",
    "delayed tuples of AH-EWJ and RPWJ by rate",
    PAPER,
    run,
    partial(draw_lines, over="rate", axis="tuples/s of a stream", columns=("late_inputs", "late_outputs")),
)
