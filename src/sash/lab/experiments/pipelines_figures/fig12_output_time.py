"""Pipelines, Figure 12: how long it takes to put out so many rows of Q1 and Q4 when tuples arrive as fast as can be.

Batches of the sales of a few seconds follow each other without a pause. The time is that of the operators, in CPU
seconds; each run is the fastest of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.pipelines_figures.pipelines_delays import PAPER, PipelinesScale
from sash.lab.experiments.pipelines_figures.pipelines_picture import draw_throughput
from sash.lab.experiments.scheduling import SalesWorkload, VirtualRun
from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.retail import Retail

RATE = 2056
BATCH_US = 2_000_000
N_REPEATS = 3
SCHEDULES = {"q1": ("input", "tpa", "nta"), "q4": ("input", "tpa", "hybrid", "nta")}


def run(scale: PipelinesScale, note: Note) -> Outcome:
    """Both queries under the schedules that are applicable to them."""
    rows: list[dict[str, Any]] = []
    for query, schedules in SCHEDULES.items():
        for schedule in schedules:
            runs = [_time(query, schedule, scale) for _ in range(N_REPEATS)]
            rows.append(min(runs, key=lambda row: row["seconds"]))
            note(len(rows))
    return Outcome(rows, [_slowest(rows), _doubled(rows)])


def _time(query: str, schedule: str, scale: PipelinesScale) -> dict[str, Any]:
    """From a full window until so many rows have come out."""
    window_us = scale.period.window_us
    per_second = RATE * (0.25 if query == "q1" else 0.1)
    n_batches = 2 + int(scale.n_outputs / per_second / (BATCH_US / 1e6))
    workload = SalesWorkload(query, Retail(RATE, window_us + n_batches * BATCH_US, window_us))
    run = VirtualRun(workload, schedule)
    run.tick(START_US - 1, START_US + window_us)
    run.start_counting()
    curve, n_outputs = [], 0
    for number in range(n_batches):
        since_us = START_US + window_us + number * BATCH_US
        n_outputs += run.tick(since_us, since_us + BATCH_US).num_rows
        curve.append((n_outputs, sum(run.cpu_seconds.values())))
        if n_outputs >= scale.n_outputs:
            break
    return {
        "query": query,
        "schedule": schedule,
        "n_outputs": n_outputs,
        "seconds": curve[-1][1],
        "n_tuples": run.n_flowing,
        "curve": curve,
    }


def _slowest(rows: Sequence[Row]) -> Claim:
    told, holds = [], True
    for query, schedules in SCHEDULES.items():
        seconds = {each: pick(rows, "seconds", query=query, schedule=each) for each in schedules}
        told.append(f"{query}: " + ", ".join(f"{each} {1e3 * time:.0f} ms" for each, time in seconds.items()))
        holds &= max(seconds, key=lambda each: seconds[each]) == "nta"
    return Claim(
        "Negative Tuple takes the longest for Q1 and Q4",
        "; ".join(told),
        holds,
        "an operator that expires tuples itself does about the same work as for a negative tuple; what is saved are "
        "the operators below it",
    )


def _doubled(rows: Sequence[Row]) -> Claim:
    ratios = {
        query: pick(rows, "n_tuples", query=query, schedule="nta") / pick(rows, "n_tuples", query=query, schedule="tpa")
        for query in SCHEDULES
    }
    told = ", ".join(f"{query} {ratio:.2f}×" for query, ratio in ratios.items())
    holds = all(1.7 <= ratio <= 2.3 for ratio in ratios.values())
    return Claim("Negative Tuple about doubles the tuples in the pipeline (1.7 to 2.3 times)", told, holds)


EXPERIMENT = Experiment(12, "time to put out the rows of Q1 and Q4", PAPER, run, draw_throughput)
