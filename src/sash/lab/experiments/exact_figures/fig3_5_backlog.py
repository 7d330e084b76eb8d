"""Exact, Figures 3.4, 3.5 and 3.7: how many tuples wait for EWJ, and how many pairs it has found, over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import NESTED_NS, PAPER, ExactScale, nested_case
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, measure, nearest, rises, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_curves
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

SUSTAINED = 250
MILLIONS = (1e6, 4e6)


def run(scale: ExactScale, note: Note) -> Outcome:
    """A curve for each rate."""
    rows = measure([(nested_case(rate), {}) for rate in scale.ewj_rates], scale, note)
    claims = {"E3.1": [_bounded(rows)], "E3.2": [_overload(rows)], "E3.8": [_outputs(rows)]}
    return Outcome(rows, numbered(claims))


def _bounded(rows: Sequence[Row]) -> Claim:
    peaks, ends = (line(rows, column, "rate") for column in ("buffered_peak", "buffered_end"))
    sustained = {rate: (peaks[rate], ends[rate]) for rate in peaks if rate <= SUSTAINED}
    return Claim(
        f"Up to {SUSTAINED} tuples per second and stream the backlog stays bounded: it grows in bursts and is worked "
        "off (to less than a tenth of its peak when the trace ends)",
        "peak and end: " + ", ".join(f"{peak:,.0f} and {end:,.0f} ({rate})" for rate, (peak, end) in sustained.items()),
        all(end <= 0.1 * peak for peak, end in sustained.values()),
        "the trace ends in a burst",
    )


def _overload(rows: Sequence[Row]) -> Claim:
    peaks = line(rows, "buffered_peak", "rate")
    overloaded = nearest(peaks, 300)
    return Claim(
        "Above 250 it is very large: about 2 million tuples at 300 (1 to 4 million, and twice as many as at 250)",
        f"at most {tell(peaks)}",
        MILLIONS[0] <= peaks[overloaded] <= MILLIONS[1] and peaks[overloaded] > 2 * peaks[nearest(peaks, SUSTAINED)],
        f"how many is a matter of the price of a comparison, {NESTED_NS} ns, and of when the burst comes",
    )


def _outputs(rows: Sequence[Row]) -> Claim:
    found = {rate: curve[-1] for rate, curve in line(rows, "outputs", "rate").items()}
    return Claim("More pairs are found at higher rates", f"in all {tell(found)}", rises(found))


EXPERIMENT = Experiment(
    "3-5",
    "tuples that wait for EWJ over time, by rate",
    PAPER,
    run,
    partial(
        draw_curves, over="rate", axis="tuples/s", columns={"buffered": "buffered tuples", "outputs": "pairs so far"}
    ),
)
