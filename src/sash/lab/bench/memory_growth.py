"""`sash bench memory`: what a tuple costs as the window outgrows the memory that there is for it.

Two streams are joined by key. Keys grow with the window, so that a tuple has one match throughout. A window's bytes are
what Sash reckons that its rows take in memory, with keys and indexes; half of the limit is for that. Engines get the
same rows in the same steps and must give the same pairs. Each runs in a process of its own, whose memory is its own.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sash.errors import PlanError
from sash.lab.bench.agreement import Checksum, check_agreement
from sash.lab.bench.cell_process import run_cell
from sash.lab.bench.compare_engines import describe_environment, describe_workload
from sash.lab.bench.measure import Note
from sash.lab.bench.memory_cell import MemoryCell
from sash.lab.bench.process_facts import require_proc
from sash.lab.bench.stages import Stages
from sash.lab.bench.step_engines import BUILTIN, ENGINES, PAIR_COLUMNS
from sash.lab.workloads.join_streams import JoinWorkload, whole_batch
from sash.store.byte_sizes import format_bytes
from sash.store.memory_budget import GROWTH, ROW_BYTES

RunCell: TypeAlias = Callable[[MemoryCell, Path, float, Note], dict[str, Any]]
RATE = 50_000
"""Rows per second of event time, of each stream."""
TUPLE_BYTES = 33
"""The columns of a tuple: `k`, `v`, `_ts`, `_expires` and `_op`."""
MEMORY_BYTES = int(GROWTH * (TUPLE_BYTES + ROW_BYTES))
"""What Sash reckons that a tuple takes in memory."""
WARM_UP = 2
"""So many steps with a full window go before those that are measured."""
LEAST_LIMIT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class MemoryBench:
    """What is measured: a limit, and how many times as large the windows are."""

    limit_bytes: int = 16 << 20
    ratios: Sequence[float] = (0.5, 1, 2, 5, 10, 20)
    engines: Sequence[str] = tuple(ENGINES)
    step_rows: int = 5_000
    """Of both streams."""
    n_measured: int = 20
    patience_s: float = 120
    """An engine that takes longer in one cell is left out there, and with larger windows."""
    seed: int = 1

    def __post_init__(self):
        if self.limit_bytes < LEAST_LIMIT_BYTES:
            least = format_bytes(LEAST_LIMIT_BYTES)
            raise PlanError(f"the memory is {self.limit_bytes} bytes, but must be {least} or more for all engines")
        if not self.ratios or min(self.ratios) <= 0:
            raise PlanError(f"the ratios are {list(self.ratios)}, but there must be some, each more than 0")
        if self.n_measured < 1:
            raise PlanError(f"`measured` is {self.n_measured}, but must be at least 1")

    def cell(self, engine: str, ratio: float) -> MemoryCell:
        """One engine, with one window."""
        return MemoryCell(engine, self.limit_bytes, self.workload(ratio), self.n_measured)

    def workload(self, ratio: float) -> JoinWorkload:
        """Long enough to fill the window, and then for the steps that are measured."""
        n_alive = max(2, round(ratio * self.limit_bytes / MEMORY_BYTES))
        step_rows = whole_batch(self.step_rows)
        n_steps = math.ceil(n_alive / step_rows) + WARM_UP + self.n_measured
        window_us = max(1, n_alive * 1_000_000 // (2 * RATE))
        return JoinWorkload(n_steps * step_rows, window_us, RATE, None, "none", 0.0, step_rows, self.seed)


QUICK = MemoryBench(ratios=(0.5, 2, 10), engines=tuple(engine for engine in ENGINES if engine != BUILTIN), n_measured=5)


def bench_memory(bench: MemoryBench, directory: Path, stages: Stages, run: RunCell = run_cell) -> dict[str, Any]:
    """Measures every engine with every window, `run` a cell, and compares the answers; all of it, for JSON.

    Raises `MismatchError` if the answers of a window differ.
    """
    require_proc()
    cells, windows = [], []
    given_up: dict[str, str] = {}
    for ratio in sorted(bench.ratios):
        answers = {}
        for engine in bench.engines:
            if engine in given_up:
                told = {"left_out": f"{given_up[engine]} with a smaller window"}
            else:
                place, cell = directory / f"{ratio:g}" / engine, bench.cell(engine, ratio)
                place.mkdir(parents=True)
                with stages.stage(f"{ratio:g}×: {ENGINES[engine]}", cell.workload.total_rows) as note:
                    told = run(cell, place, bench.patience_s, note)
                answers[engine] = sorted((place / "answer").glob("*.parquet"))
            if "left_out" in told:
                answers.pop(engine, None)
                given_up.setdefault(engine, told["left_out"])
            cells.append({"engine": engine, "ratio": ratio} | told)
        windows.append(_window_facts(bench, ratio, check_agreement(answers, PAIR_COLUMNS) if answers else None))
        shutil.rmtree(directory / f"{ratio:g}", ignore_errors=True)
    return {
        "benchmark": "memory",
        "environment": describe_environment(),
        "bench": asdict(bench),
        "windows": windows,
        "cells": cells,
    }


def _window_facts(bench: MemoryBench, ratio: float, answer: Checksum | None) -> dict[str, Any]:
    told = None if answer is None else {"rows": answer.n_rows, "checksum": f"{answer.sum:x}-{answer.xor:x}"}
    return {"ratio": ratio, "workload": describe_workload(bench.workload(ratio)), "answer": told}
