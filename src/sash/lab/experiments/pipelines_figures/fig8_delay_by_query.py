"""Pipelines, Figure 8: average and maximum delay of the output, for each query of Table 1 and each schedule.

Also what §2.3 says of the Clock Triggered approach: where tuples wait in queues, its answers are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.delays import count_wrong, run_ticks
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.pipelines_figures.pipelines_delays import PAPER, PipelinesScale
from sash.lab.experiments.pipelines_figures.pipelines_picture import draw_by_query
from sash.lab.experiments.scheduling import SalesWorkload, VirtualRun
from sash.lab.workloads.retail import QUERIES, Retail

RATE = 10
SCHEDULES = ("input", "tpa", "hybrid", "nta")
CORRECT = ("tpa", "hybrid", "nta")


def schedules_of(query: str) -> tuple[str, ...]:
    """Hybrid is not applicable to Q1, which has no joins."""
    return tuple(schedule for schedule in SCHEDULES if query != "q1" or schedule != "hybrid")


def run(scale: PipelinesScale, note: Note) -> Outcome:
    """All queries under all schedules at ten tuples per second."""
    rows: list[dict[str, Any]] = []
    retail = Retail(RATE, scale.period.duration_us, scale.period.window_us)
    for query in QUERIES:
        for schedule in ("clock", *schedules_of(query)):
            rows.append(_measure(SalesWorkload(query, retail), schedule, scale))
            note(len(rows))
    return Outcome(rows, [_late(rows), _smallest(rows), _doubled(rows), _between(rows), _wrong(rows), _right(rows)])


def _measure(workload: SalesWorkload, schedule: str, scale: PipelinesScale) -> dict[str, Any]:
    """Delays; and how often the answer is wrong, unless it is known to be late."""
    delays, changes = run_ticks(VirtualRun(workload, schedule), scale.period)
    row = {"query": workload.query, "schedule": schedule, **delays.facts()}
    if schedule == "input":
        return row
    n_wrong, n_instants = count_wrong(workload, changes, scale.period, scale.max_instants)
    return row | {"n_wrong": n_wrong, "n_instants": n_instants}


def _delay(rows: Sequence[Row], query: str, schedule: str) -> float:
    return pick(rows, "average_s", query=query, schedule=schedule)


def _late(rows: Sequence[Row]) -> Claim:
    pairs = {
        query: (_delay(rows, query, "input"), max(_delay(rows, query, each) for each in schedules_of(query)[1:]))
        for query in QUERIES
    }
    told = ", ".join(f"{query} {late:.3f} s to {other:.3f} s" for query, (late, other) in pairs.items())
    holds = all(late > other for late, other in pairs.values())
    return Claim("Input Triggered delays the output of all five queries", f"to the slowest other: {told}", holds)


def _smallest(rows: Sequence[Row]) -> Claim:
    excess = {
        query: min(
            _delay(rows, query, each) - _delay(rows, query, "tpa") for each in schedules_of(query) if each != "tpa"
        )
        for query in QUERIES
    }
    told = ", ".join(f"{query} {1e6 * seconds:.2f} µs" for query, seconds in excess.items())
    return Claim(
        "Time Probing has the smallest average delay on all five queries",
        f"the next best comes later by: {told}",
        all(seconds >= 0 for seconds in excess.values()),
        "what the schedules differ in is work, and that is microseconds here, where a tick is 100 ms",
    )


def _doubled(rows: Sequence[Row]) -> Claim:
    ratios = {
        query: pick(rows, "n_tuples", query=query, schedule="nta") / pick(rows, "n_tuples", query=query, schedule="tpa")
        for query in QUERIES
    }
    told = ", ".join(f"{query} {ratio:.2f}×" for query, ratio in ratios.items())
    holds = all(1.7 <= ratio <= 2.3 for ratio in ratios.values())
    return Claim("Negative Tuple about doubles the tuples in the pipeline (1.7 to 2.3 times)", told, holds)


def _between(rows: Sequence[Row]) -> Claim:
    found = {
        query: [pick(rows, "n_tuples", query=query, schedule=each) for each in CORRECT]
        for query in QUERIES
        if "hybrid" in schedules_of(query)
    }
    told = ", ".join(f"{query} {low:,} < {middle:,} < {high:,}" for query, (low, middle, high) in found.items())
    return Claim(
        "Hybrid lies between Time Probing and Negative Tuple on all queries with joins, by tuples in the pipeline",
        told,
        all(low < middle < high for low, middle, high in found.values()),
    )


def _wrong(rows: Sequence[Row]) -> Claim:
    clock = [row for row in rows if row["schedule"] == "clock"]
    seen = ", ".join(f"{row['query']} at {row['n_wrong']} of {row['n_instants']} instants" for row in clock)
    return Claim(
        "Clock Triggered gives wrong answers where tuples wait in queues",
        f"wrong: {seen}",
        any(row["n_wrong"] for row in clock),
    )


def _right(rows: Sequence[Row]) -> Claim:
    told = [row for row in rows if row["schedule"] in CORRECT]
    n_wrong, n_instants = sum(row["n_wrong"] for row in told), sum(row["n_instants"] for row in told)
    return Claim(
        "Time Probing, Negative Tuple and Hybrid give the answer of the snapshot query",
        f"wrong at {n_wrong} of {n_instants} instants of five queries",
        n_wrong == 0,
    )


EXPERIMENT = Experiment(8, "delay of five queries", PAPER, run, draw_by_query)
