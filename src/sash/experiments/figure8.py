"""Pipelines, Figure 8: average and maximum delay of the output, for each query of Table 1 and each schedule.

Also what §2.3 says of the Clock Triggered approach: where tuples wait in queues, its answers are wrong.
"""

from __future__ import annotations

from typing import Any

from sash.bench.measure import Note
from sash.experiments.delays import count_wrong
from sash.experiments.experiment import Claim, Experiment, Outcome, Row, Scale, measure_cases, pick, values_of
from sash.experiments.picture import draw_by_query
from sash.experiments.scheduling import Workload
from sash.workloads.retail import QUERIES, Retail

RATE = 10
SCHEDULES = ("input", "tpa", "hybrid", "nta")
CORRECT = ("tpa", "nta", "hybrid")


def schedules_of(query: str) -> tuple[str, ...]:
    """Hybrid is not applicable to Q1, which has no joins."""
    return tuple(schedule for schedule in SCHEDULES if query != "q1" or schedule != "hybrid")


def run(scale: Scale, note: Note) -> Outcome:
    """All queries under all schedules at ten tuples per second."""
    period = scale.period
    retail = Retail(RATE, period.duration_us, period.window_us)
    workloads = {query: Workload(query, retail) for query in QUERIES}
    cases = [({}, workload, each) for query, workload in workloads.items() for each in schedules_of(query)]
    rows = measure_cases(cases, period, note)
    wrong = {
        (query, schedule): count_wrong(workload, schedule, period, scale.max_instants)
        for query, workload in workloads.items()
        for schedule in ("clock", *CORRECT)
    }
    told: list[dict[str, Any]] = [
        {"query": query, "schedule": schedule, "n_wrong": n_wrong, "n_instants": n_instants}
        for (query, schedule), (n_wrong, n_instants) in wrong.items()
    ]
    return Outcome([*rows, *told], [_late(rows), _smallest(rows), _doubled(rows), _wrong(told), _right(told)])


def _delay(rows: list[Row] | list[dict[str, Any]], query: str, schedule: str) -> float:
    return pick(rows, "average_s", query=query, schedule=schedule)


def _late(rows: list[dict[str, Any]]) -> Claim:
    pairs = {
        query: (_delay(rows, query, "input"), max(_delay(rows, query, each) for each in schedules_of(query)[1:]))
        for query in QUERIES
    }
    told = ", ".join(f"{query} {late:.3f} s to {other:.3f} s" for query, (late, other) in pairs.items())
    holds = all(late > other for late, other in pairs.values())
    return Claim("Input Triggered delays the output of all five queries", f"to the slowest other: {told}", holds)


def _smallest(rows: list[dict[str, Any]]) -> Claim:
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


def _doubled(rows: list[dict[str, Any]]) -> Claim:
    ratios = {
        query: pick(rows, "n_tuples", query=query, schedule="nta") / pick(rows, "n_tuples", query=query, schedule="tpa")
        for query in QUERIES
    }
    told = ", ".join(f"{query} {ratio:.2f}×" for query, ratio in ratios.items())
    holds = all(1.7 <= ratio <= 2.3 for ratio in ratios.values())
    return Claim("Negative Tuple about doubles the tuples in the pipeline (1.7 to 2.3 times)", told, holds)


def _wrong(told: list[dict[str, Any]]) -> Claim:
    clock = [row for row in told if row["schedule"] == "clock"]
    seen = ", ".join(f"{row['query']} at {row['n_wrong']} of {row['n_instants']} instants" for row in clock)
    return Claim(
        "Clock Triggered gives wrong answers where tuples wait in queues",
        f"wrong: {seen}",
        any(row["n_wrong"] for row in clock),
    )


def _right(told: list[dict[str, Any]]) -> Claim:
    rows = [row for row in told if row["schedule"] in CORRECT]
    n_wrong, n_instants = sum(row["n_wrong"] for row in rows), sum(row["n_instants"] for row in rows)
    n_queries = len(values_of(rows, "query"))
    return Claim(
        "Time Probing, Negative Tuple and Hybrid give the answer of the snapshot query",
        f"wrong at {n_wrong} of {n_instants} instants of {n_queries} queries",
        n_wrong == 0,
    )


EXPERIMENT = Experiment("pipelines-8", "delay of five queries", "Pipelines, Figure 8", run, draw_by_query)
