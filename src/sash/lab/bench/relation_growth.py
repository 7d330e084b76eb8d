"""`sash bench relation`: what a stream's tuple costs that looks up in a relation which outgrows memory.

    against size    relation ÷ memory grows, keys as unequal as in the thesis (b = 0.6)
    against skew    the largest relation, keys from all alike to a few that have nearly all tuples
    against steps   the largest relation, from a few tuples at a time, as they arrive, to many, as in a backlog

Engines get the same tuples in the same steps, and must give the same pairs. A tuple's delay is how long its step takes
until all pairs of it are there. The first steps are not measured: what stays in memory is found out then.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.errors import PlanError
from sash.lab.bench.agreement import check_agreement
from sash.lab.bench.compare_engines import describe_environment
from sash.lab.bench.measure import Note
from sash.lab.bench.postgres_lookup import PostgresLookup, find_programs, started_server
from sash.lab.bench.process_facts import require_proc
from sash.lab.bench.relation_engines import (
    ANSWER,
    BUILTIN,
    DUCKDB,
    ENGINES,
    POSTGRES,
    ROW_BYTES,
    DuckDbLookup,
    LookupEngine,
    RelationWorkload,
    SashLookup,
)
from sash.lab.bench.stages import Stages
from sash.lab.bench.static_builtin import run_static_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_LIMIT_BYTES = 1 << 20


class RelationPlace(NamedTuple):
    """What all engines are measured with: relation ÷ limit, how unequal keys are, and the tuples in a step."""

    ratio: float
    bias: float
    step_rows: int

    def __str__(self) -> str:
        return f"{self.ratio:g}×, b = {self.bias:g}, steps of {self.step_rows:,}"


@dataclass(frozen=True, slots=True)
class RelationBench:
    """What is measured: a limit, how many times as large the relation is, how unequal keys are, how long steps are."""

    limit_bytes: int = 8 << 20
    ratios: Sequence[float] = (0.1, 1, 5, 20)
    biases: Sequence[float] = (0.5, 0.6, 0.8, 0.95)
    usual_bias: float = 0.6
    engines: Sequence[str] = tuple(ENGINES)
    steps: Sequence[int] = (1_000, 10_000, 100_000)
    usual_step: int = 1_000
    n_warm: int = 10
    n_measured: int = 20
    seed: int = 1

    def __post_init__(self):
        if self.limit_bytes < LEAST_LIMIT_BYTES:
            raise PlanError(f"the memory is {self.limit_bytes} bytes, but must be {LEAST_LIMIT_BYTES} or more")
        if not self.ratios or min(self.ratios) <= 0:
            raise PlanError(f"the ratios are {list(self.ratios)}, but there must be some, each more than 0")
        if not all(0.5 <= bias < 1 for bias in self.biases):
            raise PlanError(f"the biases are {list(self.biases)}, but each must be at least 0.5 and less than 1")
        if min(self.steps, default=1) < 1:
            raise PlanError(f"the steps are {list(self.steps)}, but each must have a tuple")
        if self.n_measured < 1:
            raise PlanError(f"`measured` is {self.n_measured}, but must be at least 1")

    @property
    def places(self) -> list[RelationPlace]:
        """One thing at a time differs from what is usual; each once."""
        largest = max(self.ratios)
        of_size = [RelationPlace(ratio, self.usual_bias, self.usual_step) for ratio in sorted(self.ratios)]
        of_skew = [RelationPlace(largest, bias, self.usual_step) for bias in sorted(self.biases)]
        of_steps = [RelationPlace(largest, self.usual_bias, step) for step in sorted(self.steps)]
        return list(dict.fromkeys([*of_size, *of_skew, *of_steps]))

    def workload(self, place: RelationPlace) -> RelationWorkload:
        n_rows = max(2, round(place.ratio * self.limit_bytes / ROW_BYTES))
        return RelationWorkload(n_rows, place.bias, place.step_rows, self.n_warm + self.n_measured, self.seed)


QUICK = RelationBench(
    limit_bytes=2 << 20,
    ratios=(0.1, 20),
    biases=(0.5, 0.6),
    steps=(1_000, 10_000),
    engines=tuple(engine for engine in ENGINES if engine != BUILTIN),
    n_warm=3,
    n_measured=5,
)


@dataclass(frozen=True, slots=True)
class Servers:
    """What engines run in beside this process; None if none of them needs it."""

    spark: SparkSession | None = None
    postgres: str | None = None


@contextmanager
def open_postgres(engines: Sequence[str], address: str | None, limit_bytes: int) -> Iterator[str | None]:
    """The address of a server, if an engine needs one: that which is given, or one that is started."""
    if POSTGRES not in engines or address is not None:
        yield address if POSTGRES in engines else None
        return
    programs = find_programs()
    if programs is None:
        raise PlanError("there is no PostgreSQL on this machine; name a server with --postgres, or other --engines")
    with started_server(programs, limit_bytes) as started:
        yield started


def bench_relation(bench: RelationBench, directory: Path, servers: Servers, stages: Stages) -> dict[str, Any]:
    """Measures every engine with every relation, and compares the answers; all of it, for JSON.

    Raises `MismatchError` if the answers differ.
    """
    require_proc()
    cells: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for number, place in enumerate(bench.places):
        workload, found, files = bench.workload(place), {}, directory / str(number)
        for engine in bench.engines:
            (files / engine).mkdir(parents=True)
            n_tuples = workload.n_steps * workload.step_rows
            with stages.stage(f"{place}: {ENGINES[engine]}", n_tuples) as note:
                told = _measure(engine, bench, workload, files / engine, servers, note)
            cells.append({"engine": engine} | place._asdict() | told)
            if "left_out" not in told:
                found[engine] = sorted((files / engine / "answer").glob("*.parquet"))
        answer = check_agreement(found, ANSWER) if found else None
        answers.append(place._asdict() | {"rows": None if answer is None else answer.n_rows})
        shutil.rmtree(files, ignore_errors=True)
    environment = describe_environment()
    return {
        "benchmark": "relation",
        "environment": environment,
        "bench": asdict(bench),
        "answers": answers,
        "cells": cells,
    }


def _measure(
    engine: str, bench: RelationBench, workload: RelationWorkload, place: Path, servers: Servers, note: Note
) -> dict[str, Any]:
    if engine == BUILTIN:
        assert servers.spark is not None
        seconds, n_read = run_static_join(workload, bench.limit_bytes, place, servers.spark)
        return _figures(bench, workload, seconds, n_read, len(seconds) * workload.step_rows)
    try:
        return _measure_steps(_open(engine, bench, workload, place, servers), bench, workload, place, note)
    except duckdb.OutOfMemoryException:
        return {"left_out": "ran out of memory"}


def _open(engine: str, bench: RelationBench, workload: RelationWorkload, place: Path, servers: Servers) -> LookupEngine:
    if engine == POSTGRES:
        assert servers.postgres is not None
        return PostgresLookup(workload, servers.postgres)
    if engine == DUCKDB:
        return DuckDbLookup(workload, bench.limit_bytes, place)
    return SashLookup(engine, workload, bench.limit_bytes, place / "disk")


def _measure_steps(
    engine: LookupEngine, bench: RelationBench, workload: RelationWorkload, place: Path, note: Note
) -> dict[str, Any]:
    (place / "answer").mkdir()
    pa.set_cpu_count(1)
    seconds: list[float] = []
    n_read, n_counted = 0, 0
    try:
        for number, step in enumerate(workload.steps()):
            before, began = engine.n_read(), time.monotonic()
            pairs = engine.push(step)
            seconds.append(time.monotonic() - began)
            after = engine.n_read()
            if number >= bench.n_warm and before is not None and after is not None:
                n_read, n_counted = n_read + after - before, n_counted + step.num_rows
            pq.write_table(pairs.select(list(ANSWER)), place / "answer" / f"{number}.parquet")
            note((number + 1) * workload.step_rows)
        rest = engine.finish()
        if rest is not None:
            pq.write_table(rest.select(list(ANSWER)), place / "answer" / "rest.parquet")
    finally:
        engine.close()
        pa.set_cpu_count(os.cpu_count() or 1)
    return _figures(bench, workload, seconds, n_read if n_counted else None, n_counted)


def _figures(
    bench: RelationBench, workload: RelationWorkload, seconds: Sequence[float], n_read: int | None, n_counted: int
) -> dict[str, Any]:
    measured = np.array(seconds[bench.n_warm :])
    return {
        "tuples_per_second": workload.step_rows * len(measured) / float(measured.sum()),
        "mean_delay_ms": 1e3 * float(measured.mean()),
        "p99_delay_ms": 1e3 * float(np.quantile(measured, 0.99, method="higher")),
        "read_per_tuple": None if n_read is None else n_read / n_counted,
    }
