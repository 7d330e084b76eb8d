"""Queries that share a join, in this process, fed batch by batch. The set of queries may change in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.cost.choose_schedule import BurstWatch, choose_schedule
from sash.embedded.intake import Intake
from sash.embedded.row_notes import Notes
from sash.errors import SourceError
from sash.operators.changes import to_changes
from sash.operators.operator import Operator
from sash.operators.pipeline import Work
from sash.operators.stream_clock import StreamClock
from sash.operators.tapped_join import LWO
from sash.plan.physical import Plan
from sash.plan.sharing.shared_plan import SharedPlan

WORTH_PAIRS = 1 << 20
"""A step that gives queries fewer pairs is over before it pays to serve small windows first."""
Answer = tuple[str, pa.Table]
"""A query, and some of its changes."""


class SharedQuery:
    """A running share group. What it returns are the changes that are due, query by query, as they come.

    Unless a query asks for a schedule, it is chosen between steps, by how many tuples come at once and how many pairs
    they make.
    """

    is_quiet = True
    """Whether warnings are told by somebody else; here they always are."""
    is_prompt = True
    """Whether somebody takes changes as they come; if not, nobody gains by a schedule, and the fastest is kept."""

    def __init__(
        self,
        plan: SharedPlan,
        relations: Mapping[str, pa.Table],
        clocks: Mapping[str, StreamClock] | None = None,
        waiting: Mapping[str, Sequence[pa.Table]] | None = None,
    ):
        self.plan = plan
        self._relations = relations
        self._intake = Intake(plan.streams, clocks, waiting)
        self._pipeline = plan.pipeline(relations)
        self._pipeline.begin(self._intake.newest_us)
        self._bursts, self._pairs = BurstWatch(), BurstWatch()

    def push(self, stream: str, rows: Any) -> Iterator[Answer]:
        """Takes rows of a stream, in order of arrival. To be exhausted."""
        return self._step(self._intake.take(stream, rows, self.plan.slots))

    def advance(self, time_us: int, stream: str | None = None) -> Iterator[Answer]:
        """Declares one stream, or all, complete up to and including a time. To be exhausted."""
        return self._step(self._intake.complete(time_us, stream, self.plan.slots))

    def finish(self) -> Iterator[Answer]:
        """Declares all streams complete up to the last timestamp seen in any of them. To be exhausted."""
        return self._step(self._intake.complete_all(self.plan.slots))

    def change(self, plan: SharedPlan) -> None:
        """Goes on with another set of queries. Those that are new begin with what is in their windows."""
        self._go_on(self._scheduled(plan))

    def partial_until_us(self, query: str) -> int | None:
        """Until when a query may lack what its windows should hold; None if it never did."""
        return self._pipeline.partial_until_us(query)

    @property
    def clock(self) -> int:
        """Up to and including this time all answers are final."""
        return self._intake.clock

    @property
    def clocks(self) -> Mapping[str, StreamClock]:
        """How far each stream has come."""
        return self._intake.clocks

    @property
    def late(self) -> dict[str, list[pa.Table]]:
        """Rows that came too late, by stream, with all the columns they were pushed with."""
        return self._intake.late

    @property
    def n_read(self) -> dict[str, int]:
        """Rows so far, by stream."""
        return self._intake.n_read

    @property
    def n_late(self) -> dict[str, int]:
        """Late rows so far, by stream."""
        return self._intake.n_late

    @property
    def rejected(self) -> dict[str, list[pa.Table]]:
        """Rows that could not be taken, by stream, with all the columns they were pushed with and a `_reason`."""
        return self._intake.rejected

    @property
    def n_rejected(self) -> dict[str, int]:
        """Rejected rows so far, by stream."""
        return self._intake.n_rejected

    @property
    def n_held(self) -> dict[str, int]:
        """Rows that may be too far ahead, by stream: what comes next decides."""
        return self._intake.n_held

    @property
    def notes(self) -> Notes:
        """What whoever pushes should be told."""
        return self._intake.notes

    @property
    def n_state_rows(self) -> int:
        """Rows held in state now."""
        return self._pipeline.n_rows

    @property
    def n_state_bytes(self) -> int:
        """Bytes held in state now."""
        return self._pipeline.n_bytes

    def work(self) -> dict[str, Work]:
        """What each operator did in the last step, by its name."""
        return self._pipeline.work()

    def operators(self) -> Iterator[tuple[str, Operator]]:
        """The operators that run, by name."""
        return self._pipeline.operators()

    def held(self) -> Any:
        """All that is needed to go on in another process; see `hand`."""
        return self.plan.fingerprint, (self._pipeline.entries(), self._pipeline.registers()), self._intake.held()

    def hand(self, held: Any) -> None:
        """Goes on with what `held` gave for queries with the same join; they need not be the same queries."""
        fingerprint, (entries, registers), intake = held
        if fingerprint != self.plan.fingerprint:
            raise SourceError("the snapshot belongs to queries with another join; restore it into those")
        self._intake.hand(intake)
        self._pipeline.restore(entries, registers, self._intake.newest_us)

    def _step(self, arrivals: Mapping[int, pa.Table]) -> Iterator[Answer]:
        clocks = self._intake.clocks_of(self.plan.slots)
        for branch, tuples in self._pipeline.steps(arrivals, self.clock, clocks):
            name = branch.rpartition(":")[0]
            yield name, _changes(self.plan.plans[name], tuples)
        work = self._pipeline.join_work
        if any([self._bursts.seen(work.rows_in), self._pairs.seen(work.rows_out)]):
            plan = self._scheduled(self.plan)
            if plan.schedule != self.plan.schedule:
                self._go_on(plan)

    def _scheduled(self, plan: SharedPlan) -> SharedPlan:
        """The plan with the schedule that a query asks for, or with the one that suits the bursts."""
        if plan.is_hinted or not self.is_prompt or self._pairs.burst < WORTH_PAIRS:
            return plan if plan.is_hinted else replace(plan, schedule=LWO)
        reaches = [tap.reach_us for tap in plan.spec.taps]
        windows_us = sorted(set(reaches))
        choice = choose_schedule(windows_us, [reaches.count(each) for each in windows_us], self._bursts.burst)
        return replace(plan, schedule=choice.schedule)

    def _go_on(self, plan: SharedPlan) -> None:
        old, self._pipeline = self._pipeline, plan.pipeline(self._relations)
        self._pipeline.restore(old.entries(), old.registers(), self._intake.newest_us)
        self.plan = plan


def _changes(plan: Plan, tuples: pa.Table) -> pa.Table:
    return to_changes(tuples, plan.schema, plan.emit_changes)
