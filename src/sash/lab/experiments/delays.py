"""How long after its time each row of an answer comes out, and whether the answer is right.

tick      | fill: one window … |   |   |   |   |   |          only what is created after the window is full counts
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sash.frames import relation
from sash.lab.experiments.scheduling import SalesWorkload, VirtualRun
from sash.lab.workloads.arrivals import START_US
from sash.operators.changes import to_changes
from sash.oracle.snapshot_law import Comparison, bind_frames, relational_query
from sash.store.batch import EXPIRES, TS, int64_column, signs


@dataclass(frozen=True, slots=True)
class Period:
    """What is measured, in virtual time."""

    window_us: int
    measured_us: int
    tick_us: int = 100_000

    @property
    def duration_us(self) -> int:
        return self.window_us + self.measured_us

    def ticks(self) -> Sequence[tuple[int, int]]:
        """From when to when, once the window is full."""
        first = START_US + self.window_us
        return [(at, at + self.tick_us) for at in range(first, first + self.measured_us, self.tick_us)]


@dataclass(frozen=True, slots=True)
class Delays:
    """Of the rows of an answer, and how many tuples operators had to take for them."""

    n_outputs: int
    average_s: float
    maximum_s: float
    processing_us: float
    """The part of the average delay that is work."""
    n_tuples: int
    """Tuples into all operators between the scans and the answer."""
    tuples_by_operator: dict[str, int]

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def measure_delays(workload: SalesWorkload, schedule: str, period: Period) -> Delays:
    """Runs a query for a while and looks at what comes out."""
    return run_ticks(VirtualRun(workload, schedule), period)[0]


def run_ticks(run: VirtualRun, period: Period) -> tuple[Delays, pa.Table]:
    """The delays, and all that came out, as changes."""
    outputs = [run.tick(START_US - 1, START_US + period.window_us)]
    run.start_counting()
    delays, processing, free_us = [], [], 0.0
    for since_us, now_us in period.ticks():
        before = run.busy_us
        output = run.tick(since_us, now_us)
        began_us = max(now_us, free_us)
        free_us = began_us + run.busy_us - before
        created = _created(output)
        created = created[created > START_US + period.window_us]
        delays.append(free_us - created)
        processing.append(np.full(len(created), free_us - now_us))
        outputs.append(output)
    changes = to_changes(pa.concat_tables(outputs), run.plan.schema, run.plan.emit_changes)
    return _sum_up(run, np.concatenate(delays), np.concatenate(processing)), changes


def count_wrong(workload: SalesWorkload, changes: pa.Table, period: Period, max_instants: int) -> tuple[int, int]:
    """At how many instants the changes do not amount to DuckDB's answer, and at how many it was looked at.

    What still waits in queues at the end counts for nothing: the last tenth of the time is not looked at.
    """
    frames = workload.streams() | {name: relation(table) for name, table in workload.relations().items()}
    bound, tables = bind_frames(workload.text("tpa"), frames)
    comparison = Comparison(bound, relational_query(bound, tables), changes)
    low, high = START_US + period.window_us, START_US + period.window_us + period.measured_us * 9 // 10
    instants = [instant for instant in comparison.instants if low < instant <= high]
    looked_at = instants[:: max(1, -(-len(instants) // max_instants))]
    return sum(step.is_different for step in comparison.walk(looked_at)), len(looked_at)


def _created(output: pa.Table) -> np.ndarray:
    """When the rows that users see were due; a negative tuple for what leaves by itself is none of them."""
    ts = int64_column(output, TS)
    return ts[(signs(output) > 0) | (ts < int64_column(output, EXPIRES))]


def _sum_up(run: VirtualRun, delays_us: np.ndarray, processing_us: np.ndarray) -> Delays:
    n_outputs = len(delays_us)
    return Delays(
        n_outputs,
        float(delays_us.mean() / 1e6) if n_outputs else 0.0,
        float(delays_us.max(initial=0) / 1e6),
        float(processing_us.mean()) if n_outputs else 0.0,
        run.n_flowing,
        dict(run.rows_in),
    )
