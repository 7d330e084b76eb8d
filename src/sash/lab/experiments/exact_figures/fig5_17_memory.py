"""Exact, Figure 5.17: what AH-EWJ gains from more memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import falls, line, measure, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE = 1200
COLUMNS = {
    "delay_s": (
        "The average delay",
        "more fresh blocks make a probe, and so pairs with what is on disk wait for longer",
    ),
    "cpu_s": (
        "CPU time",
        "every pair of tuples in a bucket is compared once, in memory or by a probe; that a scan of the disk's blocks "
        "loads the cache has no price",
    ),
    "disk_s": ("Disk time", ""),
}


def run(scale: ExactScale, note: Note) -> Outcome:
    cases = [(ExactCase(AHEWJ, RATE, memory_mb=each), {"memory_mb": each}) for each in scale.memories]
    rows = measure(cases, scale, note)
    delay, cpu, disk = (_falls(rows, column) for column in COLUMNS)
    return Outcome(rows, numbered({"E5.23": [delay], "E5.24": [cpu, disk]}))


def _falls(rows: Sequence[Row], column: str) -> Claim:
    title, reason = COLUMNS[column]
    found = line(rows, column, "memory_mb")
    return Claim(
        f"{title} of AH-EWJ falls as memory grows", f"{tell(found, '{:,.1f}', ' s')}, by MB", falls(found), reason
    )


EXPERIMENT = Experiment(
    "5-17",
    "AH-EWJ by its memory",
    PAPER,
    run,
    partial(draw_lines, over="memory_mb", axis="memory, MB", columns=("delay_s", "cpu_s", "disk_s")),
)
