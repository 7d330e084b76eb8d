"""Shared, Figure 2(b): LWO and isolated execution by window, for a burst of 50 tuples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.shared_figures.shared_analysis import Burst, lwo_us
from sash.lab.experiments.shared_figures.shared_burst import analysis_claim, compare
from sash.lab.experiments.shared_figures.shared_picture import draw_analysis
from sash.lab.experiments.shared_figures.shared_response import DISTRIBUTIONS, PAPER, SharedScale


def run(scale: SharedScale, note: Note) -> Outcome:
    """At the rate of the scale; the paper has 100 tuples per second."""
    rows = compare(DISTRIBUTIONS["uniform"], Burst(rate=scale.rate), "lwo", lwo_us)
    note(1)
    return Outcome(rows, [analysis_claim(rows, "lwo"), analysis_claim(rows, "isolated"), _penalty(rows)])


def _penalty(rows: Sequence[Row]) -> Claim:
    shared, alone = rows[0]["lwo_measured_ms"], rows[0]["isolated_measured_ms"]
    return Claim(
        "The smallest window is severely penalized by LWO: from milliseconds to seconds (at least 100 times)",
        f"{alone:.2f} ms alone, {shared:.0f} ms by LWO, {shared / alone:.0f} times",
        shared >= 100 * alone,
    )


EXPERIMENT = Experiment(
    "2b", "LWO and isolated execution of a burst", PAPER, run, partial(draw_analysis, schedule="lwo")
)
