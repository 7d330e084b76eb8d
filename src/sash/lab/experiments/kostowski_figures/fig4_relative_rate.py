"""Kostowski, Figure 4: nested loops and the hash join with 100 buckets, as one stream gets faster than the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, values_of
from sash.lab.experiments.kostowski_figures.kostowski_joins import (
    PAPER,
    WHJ,
    WNL,
    JoinCase,
    KostowskiScale,
    cpu,
    exponent,
    measure,
    model_claim,
    relative_load,
    scans,
)
from sash.lab.experiments.kostowski_figures.kostowski_picture import draw_over

METHODS = {"WNL": WNL, "WHJ": WHJ}
TWO_ORDERS = (10**1.5, 10**2.5)
LINEAR = (0.8, 1.2)


def run(scale: KostowskiScale, note: Note) -> Outcome:
    """Both joins over the same streams."""
    cases: list[JoinCase] = [
        ({"join": name, "ratio": ratio}, method, relative_load(scale.rate, ratio))
        for ratio in scale.ratios
        for name, method in METHODS.items()
    ]
    rows = measure(cases, scale.n_repeats, note)
    return Outcome(
        rows,
        [
            _two_orders(rows, scans, "tuples scanned"),
            _two_orders(rows, cpu, "time"),
            _linear(rows, scans, "tuples scanned"),
            _linear(rows, cpu, "time"),
            model_claim(rows, ("join", "ratio")),
        ],
    )


def _line(rows: Sequence[Row], join: str, figure: Callable[[Row], float]) -> list[float]:
    return [figure(row) for row in rows if row["join"] == join]


def _two_orders(rows: Sequence[Row], figure: Callable[[Row], float], name: str) -> Claim:
    low, high = TWO_ORDERS
    gains = [slow / fast for slow, fast in zip(_line(rows, "WNL", figure), _line(rows, "WHJ", figure), strict=True)]
    return Claim(
        f"WHJ is two orders of magnitude below WNL by {name}, at every relative rate ({low:.0f} to {high:.0f} times)",
        f"{min(gains):.1f} to {max(gains):.1f} times",
        all(low <= gain <= high for gain in gains),
        "both put out the same pairs, one for every hundred tuples that WNL scans; putting out a pair takes as long as "
        "scanning about five tuples, so that no join could be much more than twenty times as fast",
    )


def _linear(rows: Sequence[Row], figure: Callable[[Row], float], name: str) -> Claim:
    ratios, (low, high) = values_of(rows, "ratio"), LINEAR
    powers = {join: exponent(ratios, _line(rows, join, figure)) for join in METHODS}
    return Claim(
        f"The cost grows linearly, not quadratically, with one stream's rate: by {name}, as its power {low} to {high}",
        ", ".join(f"{join} {power:.2f}" for join, power in powers.items()),
        all(low <= power <= high for power in powers.values()),
    )


EXPERIMENT = Experiment(
    4,
    "nested loops and hash join by relative rate",
    PAPER,
    run,
    partial(draw_over, over="ratio", by="join", axis="rate of the faster stream to the other"),
)
