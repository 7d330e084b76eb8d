"""Queries that run together in this process, fed batch by batch. The set of those that share may change in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from sash.cost.choose_schedule import BurstWatch, choose_schedule
from sash.embedded.arrived_relations import ArrivedRelations
from sash.embedded.intake import Intake
from sash.errors import SourceError
from sash.operators.changes import to_changes
from sash.operators.pipeline import Pipeline
from sash.operators.place_relation import RelationPlaces
from sash.operators.stream_clock import StreamClock
from sash.operators.tap_spec import LWO
from sash.plan.physical import Plan
from sash.runtime.table_versions import refuse_changed, versions_of
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena

WORTH_PAIRS = 1 << 20
"""A step that gives queries fewer pairs is over before it pays to serve small windows first."""
Answer = tuple[str, pa.Table]
"""A query, and some of its changes."""


class Running(NamedTuple):
    """Operators that run a plan."""

    plan: Plan
    pipeline: Pipeline
    arena: SpillArena | None
    """Where what is kept is, if memory is limited."""
    places: RelationPlaces
    """Where relations are."""


class RunningJob:
    """A plan that runs. What it returns are the changes that are due, query by query, as they come.

    Unless a query asks for the order in which those that share are served, it is chosen between steps, by how many
    tuples come at once and how many pairs they make. Where memory is limited, the largest window is served, whatever
    was asked for.
    """

    is_prompt = True
    """Whether somebody takes changes as they come; if not, nobody gains by being served first."""

    def __init__(
        self,
        plan: Plan,
        relations: Mapping[str, pa.Table],
        clocks: Mapping[str, StreamClock] | None = None,
        waiting: Mapping[str, Sequence[pa.Table]] | None = None,
        budget: MemoryBudget | None = None,
    ):
        """`budget` is of all that runs together; None: memory is not limited."""
        self._relations = relations
        self._budget = budget
        self.intake = Intake(plan.streams, clocks, waiting)
        """How far its streams have come, and what was put aside of them."""
        self._batch = 0
        self.arrived = ArrivedRelations(plan, budget)
        """What the batches so far have met of tables that are read as of arrival."""
        self._bursts, self._pairs = BurstWatch(), BurstWatch()
        self._running = self._make(self._served_in_order(plan))
        self.pipeline.begin(self.intake.newest_us)

    @property
    def plan(self) -> Plan:
        """What runs."""
        return self._running.plan

    @property
    def pipeline(self) -> Pipeline:
        """The operators that run."""
        return self._running.pipeline

    @property
    def arena(self) -> SpillArena | None:
        """Where what is kept is, if memory is limited."""
        return self._running.arena

    def push(self, stream: str, rows: Any) -> Iterator[Answer]:
        """Takes rows of a stream, in order of arrival. To be exhausted."""
        self.require_room()
        return self.step(self.intake.take(stream, rows, self.plan.slots))

    def advance(self, time_us: int, stream: str | None = None) -> Iterator[Answer]:
        """Declares one stream, or all, complete up to and including a time. To be exhausted."""
        self.require_room()
        return self.step(self.intake.complete(time_us, stream, self.plan.slots))

    def finish(self) -> Iterator[Answer]:
        """Declares all streams complete up to the last timestamp seen in any of them. To be exhausted."""
        self.require_room()
        return self.step(self.intake.complete_all(self.plan.slots))

    def meet(self, batch: int) -> None:
        """Begins a batch: what comes in until the next one is of it, and looks up in what has arrived for it."""
        self._batch = batch
        if self.arrived.take_changed():
            self.pipeline.replace_relations(self.arrived.relations())

    def require_room(self) -> None:
        """Raises ResourceError, before anything is taken, if the disk has no room for what should leave memory."""
        self.pipeline.require_room()

    def step(self, arrivals: Mapping[int, pa.Table]) -> Iterator[Answer]:
        """What follows from tuples that the intake has let in, by slot. To be exhausted."""
        clocks = self.intake.clocks_of(self.plan.slots)
        ingests = {slot.number: slot.ingest for slot in self.plan.slots}
        arrivals = {slot: ingests[slot].stamp(tuples, self._batch) for slot, tuples in arrivals.items()}
        for branch, tuples in self.pipeline.steps(arrivals, self.intake.clock, clocks):
            query = self.plan.queries[branch.query]
            yield branch.query, to_changes(tuples, query.schema, query.emit_changes)
        work = self.pipeline.join_work
        if any([self._bursts.seen(work.rows_in), self._pairs.seen(work.rows_out)]):
            plan = self._served_in_order(self.plan)
            if plan is not self.plan:
                self.go_on(self.successor(plan))

    def successor(self, plan: Plan) -> Running:
        """What can go on in place of what runs, with another set of queries over the same join; those that are new
        begin with what is in their windows. If it cannot be made, all is as it was.
        """
        self.pipeline.leave_memory()
        made = self._make(self._served_in_order(plan))
        made.pipeline.restore(self.pipeline.entries(), self.pipeline.registers(), self.intake.newest_us)
        return made

    def go_on(self, successor: Running) -> None:
        """Goes on with a successor that was made since the last step."""
        self._running = successor

    def partial_until_us(self, query: str) -> int | None:
        """Until when a query may lack what its windows should hold; None if it never did."""
        return self.pipeline.partial_until_us(query)

    def export_state(self) -> Any:
        """All that is needed to go on in another process; see `import_state`."""
        pipeline = self.pipeline.entries(), self.pipeline.registers()
        arrived = self._batch, self.arrived.export_state()
        return self.plan.fingerprint, self._tables, pipeline, self.intake.export_state(), arrived

    def import_state(self, held: Any) -> None:
        """Goes on with what `export_state` gave: of queries that share, those with the same join, if not the same."""
        fingerprint, tables, (entries, registers), intake, (batch, arrived) = held
        if fingerprint != self.plan.fingerprint:
            of = "another query; restore it into the query it was taken of"
            if self.plan.trunk is not None:
                of = "queries with another join; restore it into those"
            raise SourceError(f"the snapshot belongs to {of}")
        refuse_changed(tables, self._tables, "begin anew")
        self.intake.import_state(intake)
        self._batch = batch
        self.arrived.import_state(arrived)
        self.pipeline.replace_relations(self.arrived.relations())
        self.pipeline.restore(entries, registers, self.intake.newest_us)

    @property
    def _tables(self) -> dict[str, str]:
        """The versions of what rows are looked up in."""
        return versions_of(self.plan, self._relations)

    def _served_in_order(self, plan: Plan) -> Plan:
        """The plan that serves queries in the order that one asks for, or that suits the bursts."""
        trunk = plan.trunk
        if trunk is None or (trunk.is_hinted and self._budget is None):
            return plan
        order = LWO
        # Under a limit, only who serves the largest window alone finds rows that are on disk.
        if self._budget is None and self.is_prompt and self._pairs.burst >= WORTH_PAIRS:
            reaches = [tap.reach_us for tap in trunk.spec.taps]
            windows_us = sorted(set(reaches))
            n_queries = [reaches.count(each) for each in windows_us]
            order = choose_schedule(windows_us, n_queries, self._bursts.burst).schedule
        return plan if order == trunk.serving_order else replace(plan, trunk=replace(trunk, serving_order=order))

    def _make(self, plan: Plan) -> Running:
        places = RelationPlaces(self._budget)
        pipeline = plan.pipeline(self._relations, places)
        pipeline.replace_relations(self.arrived.relations())
        arena = None if self._budget is None else SpillArena(self._budget)
        if arena is not None:
            pipeline.reset(arena)
        return Running(plan, pipeline, arena, places)
