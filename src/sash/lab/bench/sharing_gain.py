"""`sash bench shared`: many queries over one join, which they share, against the same queries each for itself.

Three things are measured over the same files: the query with the largest window alone; all queries in one session,
sharing the join; and all queries separately, one after the other, whose figures are added up. Every query must give the
same rows in company and alone. What share of the cost of many queries is that of one join is the ratio of the first
two; what sharing saves is that of the last two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sash.embedded.running_job import Answer, RunningJob
from sash.errors import MismatchError
from sash.lab.bench.agreement import Checksum, checksum_of
from sash.lab.bench.compare_engines import describe_workload, is_window_full
from sash.lab.bench.embedded_join import SYSTEM_COLUMNS, one_thread
from sash.lab.bench.measure import BatchMeasure, Measured, Note
from sash.lab.bench.sash_engine import WaitTimer, push_batch
from sash.lab.bench.shared_queries import SharedQueries
from sash.lab.bench.stages import Stages
from sash.lab.workloads.join_streams import JoinWorkload, write_workload
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan

N_RUNS = 2
"""In this process; the faster one counts: compilers are at work in the first."""
Checksums = dict[str, Checksum]
"""By query, of its changes."""


@dataclass(frozen=True, slots=True)
class SharingOutcome:
    """What came out of one way to run some queries."""

    measured: Measured
    answers: Checksums


def bench_shared_embedded(
    queries: SharedQueries, directory: Path, stages: Stages, n_runs: int = N_RUNS
) -> dict[str, Any]:
    """Writes the streams below `directory` and runs all queries in this process; for JSON.

    Raises `MismatchError` if a query gives other rows in company than alone.
    """
    files, workload = directory / "streams", queries.workload
    with stages.stage("writing the streams", workload.total_rows) as note:
        write_workload(workload, files, note)
    plans = {name: run.plan for name, run in queries.runs(files).items()}
    with one_thread():
        with stages.stage(f"{len(plans)} queries sharing", n_runs * workload.total_rows) as note:
            shared = _fastest(partial(_run_sharing, plans, queries, files), n_runs, note, workload)
        separate = {}
        for name, plan in plans.items():
            with stages.stage(f"{name} alone", n_runs * workload.total_rows) as note:
                separate[name] = _fastest(partial(_run_alone, name, plan, queries, files), n_runs, note, workload)
    return shared_facts(queries, shared, separate)


def shared_facts(
    queries: SharedQueries, shared: SharingOutcome, separate: Mapping[str, SharingOutcome]
) -> dict[str, Any]:
    """What was measured, for JSON, after a look at whether the answers are the same."""
    check_answers(shared, separate)
    alone = {name: totals(each.measured) for name, each in separate.items()}
    figures = {"largest": alone[queries.largest], "shared": totals(shared.measured), "separate": _sum(alone.values())}
    return {
        "workload": describe_workload(queries.workload) | {"n_queries": queries.n_queries},
        "window_is_full": is_window_full(queries.workload),
        "figures": figures,
        "ratios": {
            "shared/largest": _ratios(figures["shared"], figures["largest"]),
            "separate/shared": _ratios(figures["separate"], figures["shared"]),
        },
        "queries": {
            name: {
                "window_us": queries.window_us(name),
                "share": queries.share(name),
                "rows": shared.answers[name].n_rows,
                "alone": alone[name],
            }
            for name in queries.names
        },
    }


def check_answers(shared: SharingOutcome, separate: Mapping[str, SharingOutcome]) -> None:
    """Whether every query gave the same rows in company as alone."""
    for name, outcome in separate.items():
        ours, theirs = shared.answers[name], outcome.answers[name]
        if ours != theirs:
            raise MismatchError(f"the answers of `{name}` differ: sharing it gives {ours}, alone it gives {theirs}")


def totals(measured: Measured) -> dict[str, float | None]:
    """What adds up over queries that run separately."""
    last, steady = measured.batches[-1], measured.steady
    by_cpu = [batch.cpu_seconds for batch in steady]
    return {
        "seconds": measured.seconds,
        "steady_seconds": sum(batch.seconds for batch in steady),
        "wall_seconds": measured.wall_seconds,
        "cpu_seconds": measured.cpu_seconds,
        "steady_cpu_seconds": None if None in by_cpu else sum(filter(None, by_cpu)),
        "state_rows": last.n_state_rows,
        "state_bytes": last.n_state_bytes,
        "store_bytes": last.n_store_bytes,
        "checkpoint_bytes": _sum_known([batch.checkpoint_bytes for batch in measured.batches]),
        "rows": _sum_known([batch.n_changes for batch in measured.batches]),
    }


def _run_sharing(plans: Mapping[str, QueryPlan], queries: SharedQueries, files: Path) -> SharingOutcome:
    return _run(Plan.sharing(plans), queries, files)


def _run_alone(name: str, plan: QueryPlan, queries: SharedQueries, files: Path) -> SharingOutcome:
    return _run(Plan.alone(plan, name), queries, files)


def _run(plan: Plan, queries: SharedQueries, files: Path) -> SharingOutcome:
    """Reading the files and forming the answers counts, writing and comparing them does not."""
    job = RunningJob(plan, {})
    watch, workload, columns = WaitTimer(), queries.workload, {**queries.columns(), **SYSTEM_COLUMNS}
    answers: Checksums = {}
    batches: list[BatchMeasure] = []
    started = time.monotonic()

    def take(found: Iterator[Answer]) -> int:
        n_rows = 0
        for name, changes in watch.each(found):
            told = checksum_of("FROM changes", columns, changes=changes)
            answers[name] = answers.get(name, Checksum(0, 0, 0)) + told
            n_rows += changes.num_rows
        return n_rows

    for number, n_rows in enumerate(workload.batches):
        before = watch.seconds, watch.cpu_seconds
        n_changes = take(each for found in push_batch(job.push, workload, files, number) for each in found)
        seconds, cpu_seconds = watch.seconds - before[0], watch.cpu_seconds - before[1]
        held = job.pipeline.n_rows, job.pipeline.n_bytes
        batches.append(BatchMeasure(n_rows, seconds, None, *held, None, n_changes, cpu_seconds))
    take(job.finish())
    return SharingOutcome(
        Measured(batches, watch.seconds, time.monotonic() - started, None, watch.cpu_seconds), answers
    )


def _fastest(run: Callable[[], SharingOutcome], n_runs: int, note: Note, workload: JoinWorkload) -> SharingOutcome:
    outcomes = []
    for number in range(n_runs):
        outcomes.append(run())
        note((number + 1) * workload.total_rows)
    return min(outcomes, key=lambda outcome: outcome.measured.cpu_seconds or 0.0)


def _sum(each: Sequence[Mapping[str, float | None]] | Any) -> dict[str, float | None]:
    told = list(each)
    return {figure: _sum_known([one[figure] for one in told]) for figure in told[0]}


def _sum_known(values: Sequence[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)


def _ratios(ours: Mapping[str, float | None], theirs: Mapping[str, float | None]) -> dict[str, float]:
    pairs = {figure: (ours[figure], theirs[figure]) for figure in ours}
    return {figure: one / other for figure, (one, other) in pairs.items() if one is not None and other}
