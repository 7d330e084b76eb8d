"""Exact, Figure 5.5: RPWJ by how much it flushes at once; and how much memory that leaves empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, measure, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

CASE = ExactCase(RPWJ, 1200)
HALF = (0.35, 0.65)
FLAT = 1.25


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure([(replace(CASE, flush=flush), {"flush": flush}) for flush in scale.flushes], scale, note)
    return Outcome(rows, numbered({"E5.2": [_least(rows)], "E4.4": [_flat(rows)]}))


def _least(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "flush")
    least = min(found, key=found.__getitem__)
    return Claim(
        f"The average delay of RPWJ is the least if about half of memory is flushed ({HALF[0]} to {HALF[1]})",
        f"{tell(found, '{:.1f}', ' s')}: least at {least}",
        HALF[0] <= least <= HALF[1],
        "all tasks are run every slide anyway, and few large runs cost them fewer accesses than many small ones; the "
        "delay hardly depends on it",
    )


def _flat(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "flush")
    near = [each for flush, each in found.items() if flush >= 0.3]
    return Claim(
        f"The optimum is flat, so that whole partitions can be flushed (within {FLAT - 1:.0%} from 0.4 on)",
        f"{max(near) / min(near):.2f} times",
        max(near) <= FLAT * min(near),
    )


EXPERIMENT = Experiment(
    "5-5",
    "RPWJ by how much it flushes",
    PAPER,
    run,
    partial(
        draw_lines, over="flush", axis="flushed at once, part of memory", columns=("delay_s", "late_inputs", "disk_s")
    ),
)
