"""Exact, Figure 5.13: production delay of AH-EWJ and RPWJ, by the number of hash partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import Labelled, falls, line, measure, nearest, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import METHODS
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE, BEST = 1200, 60


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure(_cases(scale), scale, note)
    return Outcome(rows, numbered({"E5.17": [_worse(rows)], "E5.18": [_better(rows), _as_printed(rows, scale)]}))


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
        "more the smaller the scale is, as a block has as many tuples at any",
    )


def head_wait_s(n_part: int, block_rows: int, rate: float) -> float:
    """How long a tuple waits in the head of its bucket, on average, until the block is full."""
    return (block_rows - 1) / 2 * n_part / rate


def _as_printed(rows: Sequence[Row], scale: ExactScale) -> Claim:
    waits = {each: head_wait_s(each, ExactCase(AHEWJ, RATE).block_rows, RATE) for each in scale.parts}
    found = line(rows, "delay_s", "n_part", method=AHEWJ)
    net = {each: delay_s - waits[each] * (1 / scale.fraction - 1) for each, delay_s in found.items()}
    return Claim(
        "More partitions make AH-EWJ better, if heads filled as fast, compared with the window, as at full scale",
        f"{tell(net, '{:.1f}', ' s')}; wait in a head {tell(waits, '{:.2f}', ' s')} at full scale, times "
        f"{1 / scale.fraction:.0f} at this",
        falls(net),
        "so few blocks fit into memory at this scale that heads leave no room for others",
    )


EXPERIMENT = Experiment(
    "5-13",
    "delay of AH-EWJ and RPWJ by the number of partitions",
    PAPER,
    run,
    partial(draw_lines, over="n_part", axis="hash partitions", columns=("delay_s", "cpu_s", "disk_s")),
)
