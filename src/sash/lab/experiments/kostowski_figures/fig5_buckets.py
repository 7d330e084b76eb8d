"""Kostowski, Figure 5: the hash join by the number of buckets, with 100 distinct values of the join attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sash.cost.join_cost import JoinMethod
from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.kostowski_figures.kostowski_joins import (
    N_DISTINCT,
    PAPER,
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

INVERSE = (-1.2, -0.8)
FLAT = (-0.3, 0.3)
SPEEDUP = 5
"""Both streams have so many times the rate of the slower one elsewhere: what buckets can save is then most of it."""


def run(scale: KostowskiScale, note: Note) -> Outcome:
    """One load, more and more buckets."""
    load = relative_load(SPEEDUP * scale.rate, 1)
    cases: list[JoinCase] = [
        ({"join": "WHJ", "n_buckets": n_buckets}, JoinMethod("whj", n_buckets), load) for n_buckets in scale.buckets
    ]
    rows = measure(cases, scale.n_repeats, note)
    return Outcome(
        rows,
        [
            _inverse(rows, scans, "tuples scanned"),
            _inverse(rows, cpu, "time"),
            _flat(rows, scans, "tuples scanned"),
            _flat(rows, cpu, "time"),
            _not_in_equation_2(rows),
            model_claim(rows, ("n_buckets",)),
        ],
    )


def _power(rows: Sequence[Row], figure: Callable[[Row], float]) -> float:
    return exponent([row["n_buckets"] for row in rows], [figure(row) for row in rows])


def _inverse(rows: Sequence[Row], figure: Callable[[Row], float], name: str) -> Claim:
    low, high = INVERSE
    power = _power([row for row in rows if row["n_buckets"] <= N_DISTINCT], figure)
    return Claim(
        f"Up to {N_DISTINCT} buckets the cost is inversely proportional to their number: by {name}, with their power "
        f"{low} to {high}",
        f"{power:.2f}",
        low <= power <= high,
        "buckets save scans, but not the pairs that are put out, which are most of the time well before 100 buckets",
    )


def _flat(rows: Sequence[Row], figure: Callable[[Row], float], name: str) -> Claim:
    low, high = FLAT
    power = _power([row for row in rows if row["n_buckets"] >= N_DISTINCT], figure)
    return Claim(
        f"Beyond {N_DISTINCT} buckets, as many as distinct values, more gain nothing: by {name}, power {low} to {high}",
        f"{power:.2f}",
        low <= power <= high,
    )


def _not_in_equation_2(rows: Sequence[Row]) -> Claim:
    """Of the share of the window that a probe scans; with one bucket it is all of it."""
    one, last = rows[0], rows[-1]
    excess = scans(last) / scans(one) * last["n_buckets"]
    return Claim(
        "Equation 2 does not tell of the flattening",
        f"with {last['n_buckets']} buckets {excess:.1f} times the tuples are scanned that it says",
        excess > 2,
    )


EXPERIMENT = Experiment(
    5,
    "hash join by the number of buckets",
    PAPER,
    run,
    partial(draw_over, over="n_buckets", by="join", axis="buckets"),
)
