"""AH-EWJ and RPWJ at all rates of a scale, which Figures 5.6 to 5.12 look at in several ways."""

from __future__ import annotations

from collections.abc import Iterator

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_measures import Labelled, measure
from sash.lab.experiments.experiment import Row

METHODS = (AHEWJ, RPWJ)
SATURATED = 1400
"""Tuples per second and stream, at which RPWJ saturates."""
SUSTAINED = 1600
HIGH = 1800


def measure_rates(scale: ExactScale, note: Note) -> list[dict]:
    """A row for each method and rate."""
    return measure(_cases(scale), scale, note)


def at(rows: list[dict], rate: float) -> list[Row]:
    """The rows of the rate that is nearest."""
    chosen = min({row["rate"] for row in rows}, key=lambda each: abs(each - rate))
    return [row for row in rows if row["rate"] == chosen]


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for rate in scale.rates:
        yield from ((ExactCase(method, rate), {}) for method in METHODS)
