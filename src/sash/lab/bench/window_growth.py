"""`sash bench window`: what a tuple costs as the window grows, when it finds the same number of matches.

Keys grow with the window, so that the state grows and the answer does not. If a tuple's cost follows its matches and
not the window, all steps cost the same.

    batches    0 … until the window is full, and at least WARM_UP … | the last n_measured: measured
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sash.errors import PlanError
from sash.lab.bench.compare_engines import describe_environment, describe_workload
from sash.lab.bench.measure import Measured, mean_checkpoint_bytes
from sash.lab.bench.sash_engine import run_sash, run_sash_embedded
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, whole_batch, write_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP = 10
"""At least so many batches go before those that are measured: compilers are at work in the first ones."""
COMPARED = ("seconds_per_million_tuples", "checkpoint_bytes_per_batch", "state_bytes", "matches_per_tuple")


@dataclass(frozen=True, slots=True)
class WindowBench:
    """What is measured: the smallest window, and how many times longer the others are."""

    base_us: int = 1_000_000
    factors: Sequence[int] = (1, 10, 100)
    rate: int = 50_000
    batch_rows: int = 200_000
    n_measured: int = 8
    warm_up: int = WARM_UP
    payload: str = "none"
    seed: int = 1

    def __post_init__(self):
        if not self.factors or min(self.factors) < 1:
            raise PlanError(f"the factors are {list(self.factors)}, but there must be some, each at least 1")
        if self.n_measured < 1:
            raise PlanError(f"`measured` is {self.n_measured}, but must be at least 1")

    def workload(self, factor: int) -> JoinWorkload:
        """Long enough to fill the window, and then for the batches that are measured."""
        window_us = self.base_us * factor
        n_filling = max(self.warm_up, math.ceil(2 * self.rate * window_us / 1e6 / self.batch_rows))
        n_tuples = (n_filling + self.n_measured) * whole_batch(self.batch_rows)
        return JoinWorkload(n_tuples, window_us, self.rate, None, self.payload, 0.0, self.batch_rows, self.seed)


@dataclass(frozen=True, slots=True)
class WindowStep:
    """One window length, measured."""

    factor: int
    workload: JoinWorkload
    measured: Measured
    n_measured: int

    def facts(self) -> dict[str, Any]:
        """What it cost when the window was full."""
        last = self.measured.batches[-self.n_measured :]
        n_rows, seconds = sum(batch.n_rows for batch in last), sum(batch.seconds for batch in last)
        return {
            "factor": self.factor,
            "workload": describe_workload(self.workload),
            "seconds_per_million_tuples": seconds / n_rows * 1e6,
            "matches_per_tuple": sum(batch.n_changes or 0 for batch in last) / n_rows,
            "checkpoint_bytes_per_batch": mean_checkpoint_bytes(last),
            "state_bytes": last[-1].n_state_bytes,
            "state_rows": last[-1].n_state_rows,
            "run": self.measured.facts(),
        }


def bench_window(bench: WindowBench, directory: Path, spark: SparkSession | None, stages: Stages) -> list[WindowStep]:
    """Measures every step; in this process if `spark` is None. The files of a step are removed before the next."""
    steps = []
    for factor in bench.factors:
        place, workload = directory / f"{factor}x", bench.workload(factor)
        with stages.stage(f"{factor}×: writing the streams", workload.total_rows) as note:
            write_workload(workload, place / "streams", note)
        with stages.stage(f"{factor}×: Sash", workload.total_rows) as note:
            if spark is None:
                measured = run_sash_embedded(workload, place / "streams", note)
            else:
                measured = run_sash(workload, place / "streams", place / "sash", spark, note)
        steps.append(WindowStep(factor, workload, measured, bench.n_measured))
        shutil.rmtree(place)
    return steps


def window_facts(steps: Sequence[WindowStep], engine: str) -> dict[str, Any]:
    """All steps, each with its figures as multiples of the first one's, for JSON."""
    told = [step.facts() for step in steps]
    ratios = [{figure: each[figure] / told[0][figure] for figure in COMPARED if told[0][figure]} for each in told]
    return {
        "benchmark": "window",
        "engine": engine,
        "environment": describe_environment(),
        "steps": [each | {"ratios": ratio} for each, ratio in zip(told, ratios)],
    }
