"""What a batch cost, by operator and by kind of work: told by every group, added up by Spark and by the driver.

kernel        in operators: joins, windows, expressions
conversion    between messages and tuples
state         fetching a group and saving it
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from sash.operators.node import operator_nodes
from sash.operators.operator_names import OperatorName
from sash.operators.trunk import JOIN
from sash.plan.physical import Plan
from sash.spark.group import Group
from sash.spark.group_cache import Moves
from sash.store.spill_files import SpillCounts

COUNTED = ("changes", "late", "rejects")
"""Kinds of messages whose rows are counted."""
TOTALS = (
    *("n_rows", "n_bytes", "disk_bytes", "disk_read_bytes", "disk_written_bytes"),
    *("hits", "rebuilds", "evictions", "kernel_ms", "conversion_ms", "state_ms"),
)
PER_OPERATOR = ("rows_in", "rows_out", "rows", "blocks", "bytes", "ms")


class Stopwatch:
    """Adds up time, in two accounts."""

    def __init__(self) -> None:
        self.state = _Account()
        self.step = _Account()


class _Account:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._started = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter() - self._started


def state_facts(group: Group, moves: Moves, watch: Stopwatch, disk: SpillCounts) -> dict[str, Any]:
    """What a group tells of itself after a batch; `disk` is what it has read and written of its segments."""
    operators = {_name(group.plan, group.fragment.number, name): work for name, work in _operator_facts(group)}
    kernel_ms = sum(each["ms"] for each in operators.values())
    return {
        "n_rows": sum(each["rows"] for each in operators.values()),
        "n_bytes": sum(each["bytes"] for each in operators.values()),
        "disk_bytes": sum(log.n_disk_bytes for logs in group.pipeline.logs().values() for log in logs),
        "disk_read_bytes": disk.n_bytes_read,
        "disk_written_bytes": disk.n_bytes_written,
        "clock": group.clock,
        "partial_until": _partial_until(group),
        "streams": group.progress if group.fragment.number == group.number == 0 else {},
        "hits": moves.n_hits,
        "rebuilds": moves.n_rebuilds,
        "evictions": moves.n_evictions,
        "kernel_ms": kernel_ms,
        "conversion_ms": 1000 * watch.step.seconds - kernel_ms,
        "state_ms": 1000 * watch.state.seconds,
        "operators": operators,
    }


def observed_metrics(plan: Plan) -> list[Column]:
    """Expressions over messages that add up what all groups tell: totals, and a struct for each operator."""
    per_operator = ", ".join(f"{name}: double" for name in PER_OPERATOR)
    schema = ", ".join(f"{name} double" for name in TOTALS) + f", operators map<string, struct<{per_operator}>>"
    facts = F.from_json(F.when(F.col("kind") == "state", F.col("payload").cast("string")), schema)
    counts = [_sum(F.when(F.col("kind") == kind, F.col("n_rows"))).alias(kind) for kind in COUNTED]
    totals = [_sum(facts[name]).alias(name) for name in TOTALS]
    operators = [
        F.struct(*[_sum(facts["operators"][name][field]).alias(field) for field in PER_OPERATOR]).alias(name)
        for name in operator_names(plan)
    ]
    return [*counts, *totals, *operators]


def operator_names(plan: Plan) -> list[str]:
    """The operators as metrics name them: fragment, number, kind. Where queries share a join, the join alone."""
    if plan.trunk is not None:
        return [_name(plan, 0, JOIN)]
    return [
        _name(plan, fragment.number, name._replace(branch=branch.name))
        for fragment in plan.fragments
        for branch in fragment.branches
        for name, _ in operator_nodes(branch.root)
    ]


def _name(plan: Plan, fragment: int, name: OperatorName) -> str:
    """For people. A fragment may have several branches of a query, and a plan several queries."""
    n_branches = (
        sum(branch.name.query == name.branch.query for branch in plan.fragments[fragment].branches)
        if name.branch
        else 0
    )
    branch = f"{name.branch.number}-" if name.branch and n_branches > 1 else ""
    query = f"{name.branch.query}-" if name.branch and plan.trunk is not None else ""
    return f"{query}{fragment}-{branch}{name.operator}"


def _sum(column: Column) -> Column:
    return F.coalesce(F.sum(column), F.lit(0)).cast("long")


def _partial_until(group: Group) -> dict[str, int]:
    """By query that was added late, until when its answers may lack something."""
    found = {name: group.pipeline.partial_until_us(name) for name in group.plan.queries}
    return {name: until for name, until in found.items() if until is not None}


def _operator_facts(group: Group) -> Iterator[tuple[OperatorName, dict[str, float]]]:
    logs = group.pipeline.logs()
    for name, work in group.pipeline.work().items():
        values = (
            work.rows_in,
            work.rows_out,
            sum(log.n_rows for log in logs[name]),
            sum(len(log.blocks) for log in logs[name]),
            sum(log.n_bytes for log in logs[name]),
            1000 * work.seconds,
        )
        yield name, dict(zip(PER_OPERATOR, values, strict=True))
