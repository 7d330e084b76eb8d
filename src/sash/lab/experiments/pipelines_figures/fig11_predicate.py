"""Pipelines, Figure 11: the delay of Q1 as its predicate lets more tuples pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick, values_of
from sash.lab.experiments.pipelines_figures.pipelines_delays import PAPER, PipelinesScale, measure_cases
from sash.lab.experiments.pipelines_figures.pipelines_picture import draw_lines
from sash.lab.experiments.scheduling import SalesWorkload
from sash.lab.workloads.retail import Retail

RATE = 10
SCHEDULES = ("input", "tpa", "nta")


def run(scale: PipelinesScale, note: Note) -> Outcome:
    """Q1 under the schedules that are applicable to it."""
    period = scale.period
    cases = [
        (
            {"selectivity": share},
            SalesWorkload("q1", Retail(RATE, period.duration_us, period.window_us, predicate=share)),
            schedule,
        )
        for share in scale.selectivities
        for schedule in SCHEDULES
    ]
    rows = measure_cases(cases, period, note)
    return Outcome(rows, [_falls(rows), _meet(rows)])


def _delays(rows: Sequence[Row], schedule: str) -> list[float]:
    shares = values_of(rows, "selectivity")
    return [pick(rows, "average_s", selectivity=share, schedule=schedule) for share in shares]


def _falls(rows: Sequence[Row]) -> Claim:
    delays = _delays(rows, "input")
    told = " → ".join(f"{seconds:.3f} s" for seconds in delays)
    holds = all(later < earlier for earlier, later in pairwise(delays))
    return Claim("The delay of Input Triggered falls as selectivity rises", told, holds)


def _meet(rows: Sequence[Row]) -> Claim:
    input, tpa, nta = (_delays(rows, schedule)[-1] for schedule in SCHEDULES)
    return Claim(
        "All approaches meet at selectivity 1 (within a tenth)",
        f"Input Triggered {input:.3f} s, Time Probing {tpa:.3f} s, Negative Tuple {nta:.3f} s",
        max(input, tpa, nta) <= 1.1 * min(input, tpa, nta),
        "what expires still waits for the next arrival, which is 100 ms away on average; what arrives waits no longer",
    )


EXPERIMENT = Experiment(
    11,
    "delay of Q1 by selectivity",
    PAPER,
    run,
    partial(draw_lines, label="selectivity", axis="selectivity"),
)
