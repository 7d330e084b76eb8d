"""W-GROUP BY and W-Aggregate: at every instant one row per group that is there (Pipelines §4.2, Alg. 4.2).

    Law:  at T the answer has, for each group with a tuple in its window, the aggregates of these tuples that SQL would
          give. Without keys there is one group, which is always there: COUNT 0 over nothing.

    in     +a 5 [1, 4)   +a 7 [2, 5)                  out, SUM    +a 5 at 1, -a 5 +a 12 at 2, -a 12 +a 7 at 4, -a 7 at 5

What happens to a group at one instant happens at once: its row changes once, or not at all if it comes out the same. An
aggregate follows each tuple that enters or leaves, and never looks at the others again. State: the columns that keys
and aggregates read, of the tuples in the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.kernels.event_runs import EventRuns, count_members
from sash.operators.accumulators import make_accumulator
from sash.operators.grouping import Course, Grouping, GroupRows
from sash.operators.keyed import Keys, with_identity
from sash.operators.open_groups import OpenGroups
from sash.operators.traced import Traced
from sash.store.batch import BEGINNING, SIGNED_FIELDS, concat
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBySpec(Grouping):
    """Over tuples that live for `window_us` at most, if there is a bound, and expire by the clock unless
    `expires_by_negatives`."""

    window_us: int | None
    expires_by_negatives: bool


class GroupBy(Traced):
    """Runs a `GroupBySpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace", "_keys", "_sizes", "_n_groups", "_accumulators", "_has_started")

    def __init__(self, spec: GroupBySpec, input: pa.Schema):
        self.spec = spec
        self._input = pa.schema([*(input.field(name) for name in spec.columns), *SIGNED_FIELDS])
        self._rows = GroupRows(spec, input)
        self.schema = self._rows.schema
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        has_identity = self.spec.id_column is not None
        logged = with_identity(self._input, has_identity)
        self._trace = Trace(logged, self.spec.window_us, self.spec.expires_by_negatives, arena)
        self._keys = Keys(self._rows.key_schema, has_identity, arena)
        self._sizes = Vector(np.int64, arena)
        self._n_groups = 0
        self._accumulators = self._rows.make_accumulators(make_accumulator, arena)
        self._has_started = False
        self._open = OpenGroups()
        """None between two steps."""

    def take(self, inputs: Sequence[pa.Table], instant: int) -> None:
        (batch,) = inputs
        events = self._entered(batch, instant - 1)
        course = self._accumulate(events)
        self._open.note(events.run_ids, course.was_there, course.before)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        events = self._entered(batch, clock)
        changes = [*self._start(events), *self._apply(events)]
        self._trace.evict()
        return concat(changes) if changes else self.schema.empty_table()

    def traces(self) -> dict[str, Trace]:
        return {"window": self._trace}

    def registers(self) -> dict[str, int]:
        return {
            **super().registers(),
            "next_identity": self._keys.next_identity,
            "has_started": int(self._has_started),
        }

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        clock, number = registers["clock"], registers["window"]
        for events in self._trace.restore(entries["window"], number, clock, self._keys.recall):
            self._accumulate(events)
        self._keys.next_identity = registers["next_identity"]
        self._has_started = bool(registers["has_started"])

    def _entered(self, batch: pa.Table, clock: int) -> Events:
        """What happens up to a clock when these tuples have come."""
        tuples = batch.select(self._input.names)
        ids = self._keys.encode(tuples)
        return self._trace.step(self._keys.identify(tuples, ids), ids, clock)

    def _start(self, events: Events) -> list[pa.Table]:
        """The row over nothing, of the one group that is always there; not if something is there from the beginning."""
        if self._has_started or self.spec.keys:
            return []
        self._has_started = True
        is_empty = not len(events) or events.run_times[0] > BEGINNING
        return [self._rows.start(self._keys, self._accumulators)] if is_empty else []

    def _apply(self, events: Events) -> list[pa.Table]:
        """The changes of the answer that follow from events."""
        if not len(events) and not self._open.is_open:
            return []
        course, run_ids, run_times = self._accumulate(events), events.run_ids, events.run_times
        if self._open.is_open:
            self._open.note(run_ids, course.was_there, course.before)
            run_ids, course = self._close()
            run_times = np.full(len(run_ids), self._trace.clock)
        changes = self._rows.changes(self._keys, run_ids, run_times, course)
        self._forget_groups()
        return changes

    def _close(self) -> tuple[np.ndarray, Course]:
        """The groups of an instant that came in parts, and what became of them."""
        ids, was_there, before = self._open.close()
        after = self._rows.read(ids, self._keys.n_ids, self._accumulators)
        is_there = self._sizes.array[ids] > 0 if self.spec.keys else np.ones(len(ids), np.bool_)
        return ids, Course(was_there, is_there, before, after)

    def _accumulate(self, events: Events) -> Course:
        was_there, is_there = self._count(events)
        return Course(was_there, is_there, *self._rows.follow(events, self._keys.n_ids, self._accumulators))

    def _count(self, events: Events) -> tuple[np.ndarray, np.ndarray]:
        """Whether each run's group was there before and is there after it."""
        n_runs = len(events.run_ids)
        if not self.spec.keys:
            return events.run_times > BEGINNING, np.ones(n_runs, np.bool_)
        self._sizes.reserve(self._keys.n_ids)
        self._sizes.array[self._n_groups : self._keys.n_ids] = 0
        self._n_groups = self._keys.n_ids
        before, after = np.empty(n_runs, np.int64), np.empty(n_runs, np.int64)
        runs = EventRuns(events.starts, events.run_ids, events.signs)
        count_members(runs, self._sizes.array, before, after)
        return before > 0, after > 0

    def _forget_groups(self) -> None:
        """Numbers groups anew once most have gone."""
        alive = self._sizes.array[: self._n_groups] > 0
        mapping = self._keys.compact(alive)
        if mapping is None:
            return
        self._sizes.write(0, self._sizes.array[: self._n_groups][alive])
        self._n_groups = self._keys.n_ids
        self._trace.renumber(mapping)
        for accumulator in self._accumulators:
            accumulator.compact(mapping)
