"""Exact, Figure 6.9: tuples that are processed, by rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import nearest, tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import MESH, RELATION_PAPER, RelationScale
from sash.lab.experiments.relation_figures.relation_measures import by_rate, rates_of_all
from sash.lab.experiments.relation_figures.relation_picture import draw_by

LINEAR, FLAT = 0.1, 0.1


def run(scale: RelationScale, note: Note) -> Outcome:
    rows = rates_of_all(scale, note)
    return Outcome(rows, numbered({"E6.10": [_bends(rows), _is_flat(rows)]}))


def _bends(rows: Sequence[Row]) -> Claim:
    found = by_rate(rows, MESH, "taken")
    bend = nearest(found, 1200)
    per_rate = {rate: found[rate] / rate for rate in found}
    low = per_rate[min(found)]
    before = [per_rate[rate] for rate in found if rate < 0.9 * bend]
    return Claim(
        "Tuples that MESHJOIN processes are proportional to the rate below 1,200 tuples per second, and no more from "
        "there on (to a tenth)",
        f"{tell(found)}, by tuples/s",
        all(each > (1 - LINEAR) * low for each in before) and per_rate[bend] < (1 - LINEAR) * low,
        "bursts are several times the average rate, and MESHJOIN is behind in some of them before it is always",
    )


def _is_flat(rows: Sequence[Row]) -> Claim:
    found = by_rate(rows, MESH, "taken")
    flat, last = nearest(found, 1500), max(found)
    return Claim(
        "Beyond 1,500 they are almost as many at every rate (a tenth more at most)",
        f"{tell(found)}, by tuples/s",
        found[last] < (1 + FLAT) * found[flat],
    )


EXPERIMENT = Experiment(
    "6-9",
    "tuples that joins with a relation process, by rate",
    RELATION_PAPER,
    run,
    partial(draw_by, over="rate", axis="tuples/s", columns=("taken",)),
)
