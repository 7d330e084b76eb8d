"""Pipelines, Figure 9: the delay of Q3 and Q4 as tuples arrive faster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick, values_of
from sash.lab.experiments.pipelines_figures.pipelines_delays import PAPER, PipelinesScale, measure_cases
from sash.lab.experiments.pipelines_figures.pipelines_picture import draw_lines
from sash.lab.experiments.scheduling import SalesWorkload
from sash.lab.workloads.retail import Retail

QUERIES = ("q3", "q4")
SCHEDULES = ("input", "tpa", "hybrid", "nta")


def run(scale: PipelinesScale, note: Note) -> Outcome:
    """Both queries under all schedules; items and stores stay the same at all rates."""
    period = scale.period
    n_items = Retail(10, period.duration_us, period.window_us).items
    cases = [
        ({"rate": rate}, SalesWorkload(query, Retail(rate, period.duration_us, period.window_us, n_items)), schedule)
        for query in QUERIES
        for rate in scale.rates
        for schedule in SCHEDULES
    ]
    rows = measure_cases(cases, period, note)
    return Outcome(rows, [_converge(rows), _still_late(rows), _little(rows)])


def _gaps(rows: Sequence[Row], query: str) -> tuple[float, float]:
    """By how much Input Triggered is later than Time Probing, at the lowest and at the highest rate."""
    rates = values_of(rows, "rate")
    low, high = (
        pick(rows, "average_s", query=query, rate=rate, schedule="input")
        - pick(rows, "average_s", query=query, rate=rate, schedule="tpa")
        for rate in (min(rates), max(rates))
    )
    return low, high


def _converge(rows: Sequence[Row]) -> Claim:
    gaps = {query: _gaps(rows, query) for query in QUERIES}
    told = ", ".join(f"{query} {low:.3f} s → {high:.3f} s" for query, (low, high) in gaps.items())
    rates = values_of(rows, "rate")
    return Claim(
        "All approaches converge as the rate rises",
        f"Input Triggered behind Time Probing at {min(rates):g} → {max(rates):g} tuples/s: {told}",
        all(high < low for low, high in gaps.values()),
    )


def _still_late(rows: Sequence[Row]) -> Claim:
    gaps = {query: _gaps(rows, query)[1] for query in QUERIES}
    told = ", ".join(f"{query} {gap:.3f} s" for query, gap in gaps.items())
    return Claim("Input Triggered is still later at the highest rate", f"by {told}", min(gaps.values()) > 0)


def _little(rows: Sequence[Row]) -> Claim:
    (low_3, high_3), (low_4, high_4) = (_gaps(rows, query) for query in QUERIES)
    return Claim(
        "Under Input Triggered Q3 gains less than Q4, since its DISTINCT lets few tuples through to COUNT",
        f"the gap shrinks {low_3 / high_3:.1f}× in Q3 and {low_4 / high_4:.1f}× in Q4",
        low_3 / high_3 < low_4 / high_4,
        "Sash counts distinct values in one operator: no DISTINCT stands below COUNT, and every tuple wakes it",
    )


EXPERIMENT = Experiment(
    9,
    "delay of Q3 and Q4 by rate",
    PAPER,
    run,
    partial(draw_lines, label="rate", axis="tuples per second"),
)
