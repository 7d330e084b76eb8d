"""Exact, Figure 5.13: production delay of AH-EWJ and RPWJ, by the number of hash partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_measures import Labelled, falls, line, measure, nearest, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import METHODS
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE, BEST = 1200, 60


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure(_cases(scale), scale, note)
    return Outcome(rows, [_worse(rows), _better(rows)])


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for n_part in scale.parts:
        yield from ((ExactCase(method, RATE, n_part=n_part), {"n_part": n_part}) for method in METHODS)


def _worse(rows: Sequence[Row]) -> Claim:
    found, disk = (line(rows, column, "n_part", method=RPWJ) for column in ("delay_s", "disk_s"))
    return Claim(
        f"Beyond about {BEST} partitions RPWJ becomes worse (the most of them are worse than {BEST})",
        f"{tell(found, '{:.1f}', ' s')}; disk {tell(disk, '{:,.0f}', ' s')}",
        found[max(found)] > found[nearest(found, BEST)],
        "twice the partitions need twice the accesses, and half the comparisons: what is more depends on the price",
    )


def _better(rows: Sequence[Row]) -> Claim:
    found, cpu = (line(rows, column, "n_part", method=AHEWJ) for column in ("delay_s", "cpu_s"))
    return Claim(
        "More partitions make AH-EWJ better",
        f"{tell(found, '{:.1f}', ' s')}; CPU {tell(cpu, '{:,.0f}', ' s')}",
        falls(found),
        "a tuple waits in the open head of its bucket, and heads fill more slowly the more there are, which counts for "
        "more the smaller memory is: at a quarter of full scale it was 18.9 s with 60 and 18.5 s with 120",
    )


EXPERIMENT = Experiment(
    "5-13",
    "delay of AH-EWJ and RPWJ by the number of partitions",
    PAPER,
    run,
    partial(draw_lines, over="n_part", axis="hash partitions", columns=("delay_s", "cpu_s", "disk_s")),
)
