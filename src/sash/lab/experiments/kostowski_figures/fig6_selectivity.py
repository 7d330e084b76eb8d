"""Kostowski, Figure 6: the hash join by selectivity and the number of buckets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sash.cost.join_cost import JoinMethod
from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick, values_of
from sash.lab.experiments.kostowski_figures.fig5_buckets import SPEEDUP
from sash.lab.experiments.kostowski_figures.kostowski_joins import (
    PAPER,
    JoinCase,
    KostowskiScale,
    cpu,
    measure,
    model_claim,
    relative_load,
    scans,
)
from sash.lab.experiments.kostowski_figures.kostowski_picture import draw_over

WITHIN = 3


def run(scale: KostowskiScale, note: Note) -> Outcome:
    """With each selectivity, buckets up to ten times the number of distinct values at least."""
    n_most = max(scale.buckets[-1], 10 * round(1 / min(scale.selectivities)))
    buckets = [*scale.buckets, *(n for n in (10_000, 100_000) if scale.buckets[-1] < n <= n_most)]
    cases: list[JoinCase] = [
        (
            {"selectivity": selectivity, "n_buckets": n_buckets},
            JoinMethod("whj", n_buckets),
            relative_load(SPEEDUP * scale.rate, 1, round(1 / selectivity)),
        )
        for selectivity in scale.selectivities
        for n_buckets in buckets
    ]
    rows = measure(cases, scale.n_repeats, note)
    return Outcome(
        rows,
        [
            _knees(rows, scans, "tuples scanned"),
            _knees(rows, cpu, "time"),
            _fewer(rows),
            model_claim(rows, ("selectivity", "n_buckets")),
        ],
    )


def knee(rows: Sequence[Row], figure: Callable[[Row], float]) -> int:
    """The least number of buckets from which ten times as many save less than half."""
    costs = {row["n_buckets"]: figure(row) for row in rows}
    return next(n for n, cost in costs.items() if 10 * n in costs and costs[10 * n] > cost / 2)


def _knees(rows: Sequence[Row], figure: Callable[[Row], float], name: str) -> Claim:
    knees = {
        selectivity: knee([row for row in rows if row["selectivity"] == selectivity], figure)
        for selectivity in values_of(rows, "selectivity")
    }
    return Claim(
        "The cost flattens about where there are as many buckets as distinct values: ten times as many save less than "
        f"half by {name}, from {WITHIN} times fewer to {WITHIN} times more",
        ", ".join(f"{round(1 / share)} values: from {at} buckets on" for share, at in knees.items()),
        all(1 / WITHIN <= at * share <= WITHIN for share, at in knees.items()),
        "no bucket saves a pair that is put out; the fewer pairs there are, the nearer time comes to the scans",
    )


def _fewer(rows: Sequence[Row]) -> Claim:
    """With the most buckets, what is scanned is little more than what joins."""
    n_most = max(values_of(rows, "n_buckets"))
    shares = {
        share: pick(rows, "work", selectivity=share, n_buckets=n_most)["scans"]
        / pick(rows, "work", selectivity=share, n_buckets=n_most)["outputs"]
        for share in values_of(rows, "selectivity")
    }
    return Claim(
        f"With {n_most} buckets little is scanned but what joins (at most 1.5 times the pairs)",
        ", ".join(f"{share}: {ratio:.2f} times" for share, ratio in shares.items()),
        max(shares.values()) <= 1.5,
    )


EXPERIMENT = Experiment(
    6,
    "hash join by selectivity and the number of buckets",
    PAPER,
    run,
    partial(draw_over, over="n_buckets", by="selectivity", axis="buckets"),
)
