"""Shared, Figure 3(b): SWF and isolated execution by window, for a burst of 50 tuples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.shared_figures.shared_analysis import Burst, swf_us
from sash.lab.experiments.shared_figures.shared_burst import analysis_claim, compare
from sash.lab.experiments.shared_figures.shared_picture import draw_analysis
from sash.lab.experiments.shared_figures.shared_response import DISTRIBUTIONS, PAPER, SharedScale


def run(scale: SharedScale, note: Note) -> Outcome:
    """At the rate of the scale; the paper has 100 tuples per second."""
    rows = compare(DISTRIBUTIONS["uniform"], Burst(rate=scale.rate), "swf", swf_us)
    note(1)
    return Outcome(rows, [analysis_claim(rows, "swf", _FIRST_TUPLE), _small(rows), _large(rows)])


_FIRST_TUPLE = (
    "the first tuple of a burst has nobody ahead: by Figure 3(a) its pairs go to larger windows when it has scanned a "
    "smaller one, which Equation (2) leaves out"
)


def _small(rows: Sequence[Row]) -> Claim:
    ratio = rows[0]["swf_measured_ms"] / rows[0]["isolated_measured_ms"]
    return Claim(
        "The smallest window waits by SWF about as long as alone (within 10 %)", f"{ratio:.3f} times", ratio < 1.1
    )


def _large(rows: Sequence[Row]) -> Claim:
    ratio = rows[-1]["swf_measured_ms"] / rows[-1]["isolated_measured_ms"]
    return Claim("The largest window pays for it", f"it waits {ratio:.2f} times as long as alone", ratio > 1)


EXPERIMENT = Experiment(
    "3b", "SWF and isolated execution of a burst", PAPER, run, partial(draw_analysis, schedule="swf")
)
