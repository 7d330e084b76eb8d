"""Kostowski, Figure 8: how many tuples the probed side holds under the four invalidation strategies.

The probed side has a hundred times the rate of the other. Its buckets are looked at every 2 seconds for 60 seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sash.cost.join_cost import INVALIDATIONS, JoinLoad, JoinMethod, buffered_tuples
from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.kostowski_figures.kostowski_joins import (
    BATCH_S,
    MODEL_BAND,
    N_BUCKETS,
    PAPER,
    SAMPLE_S,
    WINDOW_S,
    JoinCase,
    KostowskiScale,
    measure,
    model_claim,
    relative_load,
)
from sash.lab.experiments.kostowski_figures.kostowski_picture import draw_occupancy

RATIO = 100
PROBED = 1
ALIKE = 1.05
MORE = 1.1
STEADY = 1.1


def run(scale: KostowskiScale, note: Note) -> Outcome:
    """All strategies over the same streams."""
    load = relative_load(scale.memory_rate, RATIO)
    cases: list[JoinCase] = [
        ({"invalidation": each}, JoinMethod("whj", N_BUCKETS, each), load) for each in INVALIDATIONS
    ]
    rows = [_with_occupancy(row, load) for row in measure(cases, scale.n_repeats, note)]
    return Outcome(
        rows,
        [_steady(rows), _alike(rows), _more(rows), _occupancy_model(rows), model_claim(rows, ("invalidation",))],
    )


def _with_occupancy(row: Row, load: JoinLoad) -> dict:
    """With the model's occupancy at every instant: windows that fill, then stale tuples that gather."""
    method = JoinMethod(**row["method"])
    seconds = range(SAMPLE_S, BATCH_S + 1, SAMPLE_S)
    held = [
        load.rates[PROBED] * min(second, WINDOW_S)
        + buffered_tuples(method, load, PROBED, max(0, second - WINDOW_S))
        - load.window_tuples(PROBED)
        for second in seconds
    ]
    return {**row, "seconds": list(seconds), "probed": [both[PROBED] for both in row["held"]], "model_probed": held}


def _late(row: Row, name: str = "probed") -> np.ndarray:
    """The occupancy from when the windows are full."""
    return np.array(row[name])[np.array(row["seconds"]) > WINDOW_S]


def _steady(rows: Sequence[Row]) -> Claim:
    swings = {row["invalidation"]: _swing(_late(row)) for row in rows if row["invalidation"] != "probe"}
    grows = all(one < two for row in rows for one, two in pairwise(row["probed"][: WINDOW_S // SAMPLE_S]))
    return Claim(
        f"Occupancy grows for {WINDOW_S} s and is steady then (all but probe within {STEADY - 1:.0%} of the mean)",
        ", ".join(f"{name} within {swing - 1:.1%}" for name, swing in swings.items()),
        grows and max(swings.values()) <= STEADY,
    )


def _swing(counts: np.ndarray) -> float:
    """By which factor a count comes away from the mean at most."""
    return float(max(counts.max() / counts.mean(), counts.mean() / counts.min()))


def _to_optimal(rows: Sequence[Row]) -> dict[str, float]:
    means = {row["invalidation"]: float(_late(row).mean()) for row in rows}
    return {name: mean / means["optimal"] for name, mean in means.items()}


def _alike(rows: Sequence[Row]) -> Claim:
    ratios = {name: ratio for name, ratio in _to_optimal(rows).items() if name in ("probe_insert", "probe_all")}
    return Claim(
        f"Probe and insert, and probe all, hold as few tuples as optimal (at most {ALIKE} times)",
        ", ".join(f"{name} {ratio:.3f} times" for name, ratio in ratios.items()),
        max(ratios.values()) <= ALIKE,
    )


def _more(rows: Sequence[Row]) -> Claim:
    ratio = _to_optimal(rows)["probe"]
    return Claim(
        f"Probe time invalidation alone holds more than the others (at least {MORE} times optimal)",
        f"{ratio:.2f} times",
        ratio >= MORE,
    )


def _occupancy_model(rows: Sequence[Row]) -> Claim:
    ratios = [float(_late(row).mean() / _late(row, "model_probed").mean()) for row in rows]
    farthest = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
    return Claim(
        f"The model of stale tuples (§3.2) gives the occupancy to within {MODEL_BAND - 1:.0%}",
        f"farthest: {farthest:.3f} times the model",
        max(farthest, 1 / farthest) <= MODEL_BAND,
    )


EXPERIMENT = Experiment(8, "occupancy under four invalidation strategies", PAPER, run, draw_occupancy)
