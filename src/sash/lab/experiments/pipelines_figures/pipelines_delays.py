"""What the figures of Pipelines have in common: how much is measured, and rows of delays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sash.lab.bench.measure import Note
from sash.lab.experiments.delays import Period, measure_delays
from sash.lab.experiments.experiment import Paper
from sash.lab.experiments.scheduling import SalesWorkload


@dataclass(frozen=True, slots=True)
class PipelinesScale:
    """How much is measured of schedules."""

    name: str
    period: Period
    rates: Sequence[float]
    depths: Sequence[int]
    selectivities: Sequence[float]
    n_outputs: int
    """So many rows of the answer are timed."""
    max_instants: int
    """At so many instants at most an answer is compared with DuckDB's."""


_SECOND = 1_000_000
QUICK = PipelinesScale(
    "quick", Period(10 * _SECOND, 30 * _SECOND), (5, 40), (2, 4), (0.1, 1.0), n_outputs=8_000, max_instants=150
)
DEFAULT = PipelinesScale(
    "default",
    Period(60 * _SECOND, 120 * _SECOND),
    (5, 10, 20, 40),
    (2, 3, 4, 5),
    (0.1, 0.25, 0.5, 0.75, 1.0),
    n_outputs=40_000,
    max_instants=400,
)
FULL = PipelinesScale(
    "full",
    Period(60 * _SECOND, 600 * _SECOND),
    (5, 10, 15, 20, 25, 30, 35, 40),
    (2, 3, 4, 5),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    n_outputs=100_000,
    max_instants=1_000,
)
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
PAPER = Paper("Pipelines", "Efficient Execution of Sliding-Window Queries Over Data Streams", SCALES)

Case: TypeAlias = tuple[Mapping[str, Any], SalesWorkload, str]
"""What tells a run from others, the query that runs, and the schedule."""


def measure_cases(cases: Iterable[Case], period: Period, note: Note) -> list[dict[str, Any]]:
    """The delays of every case, in rows with what tells them apart."""
    rows = []
    for labels, workload, schedule in cases:
        delays = measure_delays(workload, schedule, period)
        rows.append({**labels, "query": workload.query, "schedule": schedule, **delays.facts()})
        note(len(rows))
    return rows
