"""Exact, Figure 6.12: the average delay of a pair by memory."""

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
    NAMES,
    PARTITIONED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import LAWS, measure_relation
from sash.lab.experiments.relation_figures.relation_picture import draw_by


def run(scale: RelationScale, note: Note) -> Outcome:
    cases = [
        (RelationCase(method, memory_mb=each, is_even_relation=is_even), {"memory_mb": each})
        for is_even in LAWS
        for method in COMPARED_METHODS
        for each in scale.memories
    ]
    rows = measure_relation(cases, scale, note)
    partitioned = [_falls(rows, method, is_even) for is_even in LAWS for method in PARTITIONED]
    return Outcome(rows, numbered({"E6.13": partitioned, "E6.14": [_rises(rows)]}))


def _falls(rows: Sequence[Row], method: str, is_even: bool) -> Claim:
    found = line(rows, "delay_s", "memory_mb", method=method, is_even_relation=is_even)
    return Claim(
        f"The delay of the {NAMES[method]} join falls as memory grows, {LAWS[is_even]}",
        f"{tell(found, '{:.1f}', ' s')}, by MB",
        falls(found),
        "who waits, waits for a full wait buffer, which fills the more slowly the more segments are in memory",
    )


def _rises(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "memory_mb", method=MESH, is_even_relation=False)
    return Claim(
        "The delay of MESHJOIN rises with memory", f"{tell(found, '{:.0f}', ' s')}, by MB", rises(found),
        "with little memory a read serves few tuples, so that it is busy with its disk",
    )  # fmt: skip


EXPERIMENT = Experiment(
    "6-12",
    "delay of joins with a relation, by memory",
    RELATION_PAPER,
    run,
    partial(draw_by, over="memory_mb", axis="memory, MB", columns=("delay_s",), is_log=True),
)
