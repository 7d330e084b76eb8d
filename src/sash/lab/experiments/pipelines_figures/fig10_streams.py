"""Pipelines, Figure 10: the delay of Q2 as it joins more streams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick, values_of
from sash.lab.experiments.pipelines_figures.pipelines_delays import PAPER, PipelinesScale, measure_cases
from sash.lab.experiments.pipelines_figures.pipelines_picture import draw_lines
from sash.lab.experiments.scheduling import SalesWorkload
from sash.lab.workloads.retail import Retail

RATE = 10
SCHEDULES = ("input", "tpa", "hybrid", "nta")


def run(scale: PipelinesScale, note: Note) -> Outcome:
    """Q2 over two streams and more under all schedules."""
    period = scale.period
    retail = Retail(RATE, period.duration_us, period.window_us)
    cases = [
        ({"depth": depth}, SalesWorkload("q2", retail, depth), schedule)
        for depth in scale.depths
        for schedule in SCHEDULES
    ]
    rows = measure_cases(cases, period, note)
    return Outcome(rows, [_worst(rows), _doubled(rows), _close(rows)])


def _worst(rows: Sequence[Row]) -> Claim:
    delays = {
        depth: [pick(rows, "average_s", depth=depth, schedule=each) for each in SCHEDULES]
        for depth in values_of(rows, "depth")
    }
    told = ", ".join(f"{depth} streams {late:.3f} s to {max(rest):.3f} s" for depth, (late, *rest) in delays.items())
    holds = all(late > max(rest) for late, *rest in delays.values())
    return Claim("Input Triggered is the worst at every depth", f"to the slowest other: {told}", holds)


def _ratios(rows: Sequence[Row], schedule: str) -> dict[int, float]:
    """Tuples in the pipeline, as multiples of those under Time Probing, by depth."""
    return {
        depth: pick(rows, "n_tuples", depth=depth, schedule=schedule)
        / pick(rows, "n_tuples", depth=depth, schedule="tpa")
        for depth in values_of(rows, "depth")
    }


def _told(ratios: dict[int, float]) -> str:
    return ", ".join(f"{depth} streams {ratio:.2f}×" for depth, ratio in ratios.items())


def _doubled(rows: Sequence[Row]) -> Claim:
    ratios = _ratios(rows, "nta")
    holds = all(1.7 <= ratio <= 2.3 for ratio in ratios.values())
    return Claim("Negative Tuple about doubles the tuples at every depth (1.7 to 2.3 times)", _told(ratios), holds)


def _close(rows: Sequence[Row]) -> Claim:
    """Close is: nearer to Time Probing than to Negative Tuple, in tuples and in work."""
    told, holds = [], True
    for depth in (depth for depth in values_of(rows, "depth") if depth <= 4):
        for figure in ("n_tuples", "processing_us"):
            low, middle, high = (pick(rows, figure, depth=depth, schedule=each) for each in ("tpa", "hybrid", "nta"))
            holds &= middle - low < high - middle
            if figure == "n_tuples":
                told.append(f"{depth} streams {middle / low:.2f}× (Negative Tuple {high / low:.2f}×)")
    return Claim(
        "Hybrid stays closer to Time Probing than to Negative Tuple up to depth four",
        f"tuples of Time Probing: {', '.join(told)}",
        holds,
    )


EXPERIMENT = Experiment(
    10,
    "delay of Q2 by depth",
    PAPER,
    run,
    partial(draw_lines, label="depth", axis="streams joined"),
)
