"""AH-EWJ and RPWJ at all rates of a scale, which Figures 5.6 to 5.12 look at in several ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_measures import Labelled, measure

METHODS = (AHEWJ, RPWJ)
SATURATED = 1400
"""Tuples per second and stream, at which RPWJ saturates."""
SUSTAINED = 1600
HIGH = 1800


def measure_rates(scale: ExactScale, note: Note) -> list[dict[str, Any]]:
    """A row for each method and rate."""
    return measure(_cases(scale), scale, note)


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for rate in scale.rates:
        yield from ((ExactCase(method, rate), {}) for method in METHODS)
