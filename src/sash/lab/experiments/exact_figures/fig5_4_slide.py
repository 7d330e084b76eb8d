"""Exact, Figure 5.4: RPWJ as windows slide less often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import falls, line, measure, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

CASE = ExactCase(RPWJ, 1200)
COLUMNS = {
    "delay_s": ("The average delay", "{:.1f} s", "what a busy join has no idle time for waits for the periodic stage"),
    "disk_s": ("Disk time", "{:.0f} s", ""),
    "late_inputs": (
        "The share of delayed tuples that leave",
        "{:.3f}",
        "who waits to be processed is late by any slide",
    ),
    "late_outputs": ("The share of delayed pairs", "{:.3f}", "what is found by the periodic stage is found later"),
}


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure([(replace(CASE, slide_s=slide), {"slide_s": slide}) for slide in scale.slides_s], scale, note)
    return Outcome(rows, numbered({"E5.1": [_falls(rows, column) for column in COLUMNS]}))


def _falls(rows: Sequence[Row], column: str) -> Claim:
    title, form, reason = COLUMNS[column]
    found = line(rows, column, "slide_s")
    return Claim(
        f"{title} of RPWJ falls as the slide grows", f"{tell(found, form)}, in s of slide", falls(found), reason
    )


EXPERIMENT = Experiment(
    "5-4",
    "RPWJ by the slide of its windows",
    PAPER,
    run,
    partial(draw_lines, over="slide_s", axis="slide, s", columns=("delay_s", "disk_s", "late_inputs", "late_outputs")),
)
