"""Queries that share a join, in this process, fed batch by batch. The set of queries may change in between."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa

from sash.embedded.intake import Intake
from sash.errors import SourceError
from sash.operators.changes import to_changes
from sash.operators.operator import Operator
from sash.operators.pipeline import Work
from sash.operators.stream_clock import StreamClock
from sash.plan.physical import Plan
from sash.plan.shared_plan import SharedPlan

Answer = tuple[str, pa.Table]
"""A query, and some of its changes."""


class SharedQuery:
    """A running share group. What it returns are the changes that are due, query by query, as they come."""

    def __init__(
        self,
        plan: SharedPlan,
        relations: Mapping[str, pa.Table],
        clocks: Mapping[str, StreamClock] | None = None,
    ):
        self.plan = plan
        self._relations = relations
        self._intake = Intake(plan.streams, clocks)
        self._pipeline = plan.pipeline(relations)

    def push(self, stream: str, rows: pa.Table | pa.RecordBatch) -> Iterator[Answer]:
        """Takes rows of a stream, in order of arrival. To be exhausted."""
        return self._step(self._intake.take(stream, rows, self.plan.slots))

    def advance(self, time_us: int, stream: str | None = None) -> Iterator[Answer]:
        """Declares one stream, or all, complete up to and including a time. To be exhausted."""
        self._intake.complete(time_us, stream)
        return self._step({})

    def finish(self) -> Iterator[Answer]:
        """Declares all streams complete up to the last timestamp seen in any of them. To be exhausted."""
        self._intake.complete_all()
        return self._step({})

    def change(self, plan: SharedPlan) -> None:
        """Goes on with another set of queries. Those that are new begin with what is in their windows."""
        old, self._pipeline = self._pipeline, plan.pipeline(self._relations)
        self._pipeline.restore(old.entries(), old.registers(), self._intake.newest_us)
        self.plan = plan

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
    def n_read(self) -> dict[str, int]:
        """Rows so far, by stream."""
        return self._intake.n_read

    @property
    def n_late(self) -> dict[str, int]:
        """Late rows so far, by stream."""
        return self._intake.n_late

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

    def snapshot(self) -> bytes:
        """All that is needed to go on in another process; see `restore`."""
        state = self._pipeline.entries(), self._pipeline.registers()
        return pickle.dumps((self.plan.fingerprint, state, self._intake.held()))

    def restore(self, snapshot: bytes) -> None:
        """Goes on from a snapshot of queries with the same join; they need not be the same queries."""
        fingerprint, (entries, registers), intake = pickle.loads(snapshot)
        if fingerprint != self.plan.fingerprint:
            raise SourceError("the snapshot belongs to queries with another join; restore it into those")
        self._intake.hand(intake)
        self._pipeline.restore(entries, registers, self._intake.newest_us)

    def _step(self, arrivals: Mapping[int, pa.Table]) -> Iterator[Answer]:
        clocks = self._intake.clocks_of(self.plan.slots)
        for branch, tuples in self._pipeline.steps(arrivals, self.clock, clocks):
            name = branch.rpartition(":")[0]
            yield name, _changes(self.plan.plans[name], tuples)


def _changes(plan: Plan, tuples: pa.Table) -> pa.Table:
    return to_changes(tuples, plan.schema, plan.emit_changes)
