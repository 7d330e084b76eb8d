"""Kostowski, Figure 7: what the four invalidation strategies cost, as one stream gets faster than the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sash.cost.join_cost import INVALIDATIONS, JoinMethod
from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, values_of
from sash.lab.experiments.kostowski_figures.kostowski_joins import (
    N_BUCKETS,
    PAPER,
    JoinCase,
    KostowskiScale,
    cpu,
    measure,
    model_claim,
    relative_load,
)
from sash.lab.experiments.kostowski_figures.kostowski_picture import draw_over

LAZY, GREEDY = ("probe", "probe_insert"), ("probe_all", "optimal")
ALIKE = 1.2
FAR_TIME, FAR_CHECKS = 1.5, 10


def run(scale: KostowskiScale, note: Note) -> Outcome:
    """All strategies over the same streams."""
    cases: list[JoinCase] = [
        (
            {"invalidation": invalidation, "ratio": ratio},
            JoinMethod("whj", N_BUCKETS, invalidation),
            relative_load(scale.rate, ratio),
        )
        for ratio in scale.ratios
        for invalidation in INVALIDATIONS
    ]
    rows = measure(cases, scale.n_repeats, note)
    return Outcome(
        rows,
        [
            _alike(rows),
            _far(rows, cpu, "time", FAR_TIME),
            _far(rows, lambda row: row["work"]["checks"], "comparisons of the invalidation", FAR_CHECKS),
            model_claim(rows, ("invalidation", "ratio")),
        ],
    )


def _by_strategy(rows: Sequence[Row], ratio: int, figure: Callable[[Row], float]) -> dict[str, float]:
    return {row["invalidation"]: figure(row) for row in rows if row["ratio"] == ratio}


def _alike(rows: Sequence[Row]) -> Claim:
    ratios = []
    for ratio in values_of(rows, "ratio"):
        seconds = _by_strategy(rows, ratio, cpu)
        ratios.append(seconds["probe_insert"] / seconds["probe"])
    return Claim(
        f"Probe and insert time invalidation is as fast as probe time invalidation (at most {ALIKE} times the time, at "
        "every relative rate)",
        f"{min(ratios):.2f} to {max(ratios):.2f} times",
        max(ratios) <= ALIKE,
    )


def _far(rows: Sequence[Row], figure: Callable[[Row], float], name: str, bar: float) -> Claim:
    """The cheaper greedy strategy to the dearer lazy one."""
    gaps = []
    for ratio in values_of(rows, "ratio"):
        costs = _by_strategy(rows, ratio, figure)
        gaps.append(min(costs[each] for each in GREEDY) / max(costs[each] for each in LAZY))
    return Claim(
        f"Both substantially outperform the greedy ones by {name} (at least {bar:g} times at every relative rate)",
        f"{min(gaps):.2f} to {max(gaps):.2f} times",
        min(gaps) >= bar,
        "a look at a bucket takes a nanosecond or two, and the pairs to put out are the same for all",
    )


EXPERIMENT = Experiment(
    7,
    "processing cost of four invalidation strategies",
    PAPER,
    run,
    partial(draw_over, over="ratio", by="invalidation", axis="rate of the faster stream to the other"),
)
