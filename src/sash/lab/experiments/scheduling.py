"""Runs a plan operator by operator in virtual time, under a schedule that says when operators run and by which clock.

    Time Probing      every tick; all operators are handed the clock of the scans (Pipelines §3.1)
    Negative Tuple    likewise; W-EXPIRE after each scan makes negative tuples (§3.2)
    Hybrid            likewise; W-EXPIRE stands above the topmost join (§3.3)
    Input Triggered   an operator runs when tuples reach it, and knows no time but that of the newest of them (§2.3)
    Clock Triggered   every tick, by the system's clock, though tuples wait in queues between operators (§2.3)

The operators are those that answer queries; only who runs them is different. A tuple that is created at `_ts` and
leaves the top at a tick has been delayed by the rest of that tick, by what its schedule made it wait for, and by the
time that operators needed for the tuples of the tick:

    T_release = max(tick, end of the tick before) + Σ (tuples into an operator + tuples it expires) × their cost there
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.api import query as make_query
from sash.cost.join_cost import HASH
from sash.frames import relation
from sash.lab.experiments.operator_costs import COSTS_US
from sash.lab.workloads.retail import SCHEMA, Retail, query_text, relations_of, sales, streams_of
from sash.operators.changes import read_times
from sash.operators.distinct import DistinctSpec
from sash.operators.expire import ExpireSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.membership import MembershipSpec
from sash.operators.node import Node, operator_nodes
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec, Spec
from sash.operators.project import ProjectSpec
from sash.plan.query_plan import QueryPlan
from sash.store.batch import BEGINNING, EXPIRES, TS, int64_column, signs


@dataclass(frozen=True, slots=True)
class Schedule:
    """When operators run, and what they take for the time."""

    title: str
    hint: str
    is_input_triggered: bool = False
    queue_ticks: int = 0
    """How many ticks a tuple waits between two operators."""


SCHEDULES = {
    "input": Schedule("Input Triggered", "tpa", is_input_triggered=True),
    "clock": Schedule("Clock Triggered", "tpa", queue_ticks=3),
    "tpa": Schedule("Time Probing", "tpa"),
    "nta": Schedule("Negative Tuple", "nta"),
    "hybrid": Schedule("Hybrid", "hybrid"),
}


@dataclass(frozen=True, slots=True)
class SalesWorkload:
    """A query over sales."""

    query: str
    retail: Retail
    n_streams: int = 2

    def text(self, schedule: str) -> str:
        hints = f"{SCHEDULES[schedule].hint}, {HASH}"  # joins of two, however many streams there are
        return query_text(self.query, self.retail, hints, self.n_streams)

    def streams(self) -> dict[str, pa.Table]:
        return {name: sales(self.retail, letter) for name, letter in streams_of(self.query, self.n_streams).items()}

    def relations(self) -> dict[str, pa.Table]:
        return relations_of(self.query, self.retail)

    def plan(self, schedule: str) -> QueryPlan:
        streams = dict.fromkeys(streams_of(self.query, self.n_streams), SCHEMA)
        relations = {name: relation(table) for name, table in self.relations().items()}
        return make_query(self.text(schedule), **streams, **relations).plan


class VirtualRun:
    """A plan under a schedule, run tick by tick."""

    def __init__(self, workload: SalesWorkload, schedule: str):
        self.schedule = SCHEDULES[schedule]
        self.plan = workload.plan(schedule)
        relations = {name.lower(): table for name, table in workload.relations().items()}
        self._tree = self.plan.tree(relations)
        self._names = {id(node): name.operator for name, node in operator_nodes(self._tree.root)}
        self._empty = {name.operator: operator.schema.empty_table() for name, operator in self._tree.operators()}
        self.rows_in = dict.fromkeys(self._names.values(), 0)
        """Tuples into each operator."""
        self.expired = dict.fromkeys(self._names.values(), 0)
        """Tuples that each operator has found to expire by itself."""
        self.cpu_seconds = dict.fromkeys(self._names.values(), 0.0)
        self.busy_us = 0.0
        """What all of them cost, by the table of costs."""
        self._alive = {id(node): np.empty(0, np.int64) for _, node in operator_nodes(self._tree.root)}
        self._newest = dict.fromkeys(self._names, BEGINNING)
        self._since_us = BEGINNING
        self._queues: dict[int, deque[pa.Table]] = {}
        self._arrivals = dict(self._ingest(workload.streams()))

    def tick(self, since_us: int, now_us: int) -> pa.Table:
        """What leaves the top when it is `now_us` and the tuples since the tick before are taken from the scans."""
        taken, self._since_us = {}, since_us
        for slot, tuples in self._arrivals.items():
            low, high = np.searchsorted(int64_column(tuples, TS), [since_us, now_us], side="right")
            taken[slot] = tuples.slice(low, high - low)
        return self._run(self._tree.root, taken, now_us)

    @property
    def n_flowing(self) -> int:
        """Tuples into the operators between the scans and the answer.

        What puts tuples in order, or tells that they expire, belongs to the scans; a projection on top to the answer.
        """
        root = self._tree.root
        dressing = self._names[id(root)] if isinstance(root.spec, ProjectSpec) else None
        counted = [name for name in self.rows_in if kind_of(name) not in ("Reorder", "Expire") and name != dressing]
        return sum(self.rows_in[name] for name in counted)

    def start_counting(self) -> None:
        """Counts anew."""
        self.rows_in = dict.fromkeys(self.rows_in, 0)
        self.expired = dict.fromkeys(self.expired, 0)
        self.cpu_seconds = dict.fromkeys(self.cpu_seconds, 0.0)
        self.busy_us = 0.0

    def _ingest(self, streams: Mapping[str, pa.Table]) -> Iterator[tuple[int, pa.Table]]:
        by_name = {name.lower(): rows for name, rows in streams.items()}
        for slot in self.plan.slots:
            rows = by_name[slot.source.name.lower()]
            yield slot.number, slot.ingest.apply(rows, read_times(rows.column(slot.info.time))).combine_chunks()

    def _run(self, node: Node, arrivals: Mapping[int, pa.Table], now_us: int) -> pa.Table:
        if isinstance(node.spec, InputSpec):
            return arrivals[node.spec.slot]
        below = [child for child in node.inputs if not isinstance(child.spec, RelationSpec)]
        inputs = [self._run(child, arrivals, now_us) for child in below]
        if isinstance(node.spec, ExchangeSpec):
            return inputs[0]
        inputs = [self._queued(child, tuples) for child, tuples in zip(below, inputs)]
        return self._process(node, inputs, now_us)

    def _queued(self, child: Node, tuples: pa.Table) -> pa.Table:
        """What comes out of the queue above an operator in this tick."""
        if isinstance(child.spec, InputSpec) or not self.schedule.queue_ticks:
            return tuples
        waiting = self._queues.setdefault(id(child), deque([tuples.slice(0, 0)] * self.schedule.queue_ticks))
        waiting.append(tuples)
        return self._still_meant(waiting.popleft())

    def _still_meant(self, tuples: pa.Table) -> pa.Table:
        """Without what would take back a tuple that the operator has let expire before it came."""
        is_meant = (signs(tuples) > 0) | (int64_column(tuples, EXPIRES) > self._since_us)
        return tuples if is_meant.all() else tuples.filter(pa.array(is_meant))

    def _process(self, node: Node, inputs: list[pa.Table], now_us: int) -> pa.Table:
        name, n_rows = self._names[id(node)], sum(tuples.num_rows for tuples in inputs)
        clock = now_us
        if self.schedule.is_input_triggered:
            if not n_rows:
                return self._empty[name]
            newest = max(int(int64_column(tuples, TS).max()) for tuples in inputs if tuples.num_rows)
            clock = self._newest[id(node)] = max(newest, self._newest[id(node)])
        began = time.process_time()
        output = self._tree.process(node, inputs, clock)
        self.cpu_seconds[name] += time.process_time() - began
        n_expired = self._expire(node, inputs, clock)
        self.rows_in[name] += n_rows
        self.expired[name] += n_expired
        self.busy_us += (n_rows + n_expired) * COSTS_US[kind_of(name)]
        return output

    def _expire(self, node: Node, inputs: list[pa.Table], clock: int) -> int:
        """How many of the tuples that an operator has been given expire up to this clock, if it sees to that itself."""
        if not _expires_by_itself(node.spec):
            return 0
        alive = np.concatenate([self._alive[id(node)], *(int64_column(tuples, EXPIRES) for tuples in inputs)])
        is_due = alive <= clock
        self._alive[id(node)] = alive[~is_due]
        return int(is_due.sum())


def _expires_by_itself(spec: Spec) -> bool:
    if isinstance(spec, GroupBySpec | DistinctSpec | MembershipSpec):
        return not spec.expires_by_negatives
    return isinstance(spec, ExpireSpec)


def kind_of(operator: str) -> str:
    """The kind of an operator, by its name in a pipeline."""
    return operator.split("-")[1]
