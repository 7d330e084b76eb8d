"""Exact, Figure 6.13: the average delay of a pair by how bursty the stream is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import falls, line, rises, tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import (
    COMPARED_METHODS,
    MESH,
    RANGED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import LAWS, measure_relation
from sash.lab.experiments.relation_figures.relation_picture import draw_by


def run(scale: RelationScale, note: Note) -> Outcome:
    cases = [
        (RelationCase(method, bias=each, is_even_relation=is_even), {"bias": each})
        for is_even in LAWS
        for method in COMPARED_METHODS
        for each in scale.biases
    ]
    rows = measure_relation(cases, scale, note)
    return Outcome(rows, numbered({"E6.15": [_rises(rows)], "E6.16": [_falls(rows, is_even) for is_even in LAWS]}))


def _rises(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "bias", method=MESH, is_even_relation=False)
    return Claim(
        "The delay of MESHJOIN rises with the bias", f"{tell(found, '{:.0f}', ' s')}, by b", rises(found),
        "where nothing is saturated, a burst fills the queue sooner",
    )  # fmt: skip


def _falls(rows: Sequence[Row], is_even: bool) -> Claim:
    found = line(rows, "delay_s", "bias", method=RANGED, is_even_relation=is_even)
    return Claim(
        f"The delay of the range-partitioned join falls as the bias grows, {LAWS[is_even]}",
        f"{tell(found, '{:.0f}', ' s')}, by b",
        falls(found),
        "a burst fills the wait buffer sooner, until it is more than the join can take: then tuples wait before it",
    )


EXPERIMENT = Experiment(
    "6-13",
    "delay of joins with a relation, by bias",
    RELATION_PAPER,
    run,
    partial(draw_by, over="bias", axis="bias b", columns=("delay_s",), is_log=True),
)
