"""One partition group of a fragment: the pipeline, the clocks, and what becomes of a batch of messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from typing import Any

import pyarrow as pa

from sash.errors import SourceError
from sash.operators.changes import to_changes
from sash.operators.pipeline import Pipeline
from sash.operators.stream_clock import StreamClock
from sash.plan.fragment import BranchPlan
from sash.plan.own_identities import own_identities
from sash.plan.physical import Plan
from sash.runtime.checkpoint_mark import FORMAT
from sash.runtime.table_versions import refuse_changed
from sash.spark.exchange import OUTPUT, ROWS_PER_MESSAGE, Message, message, split_by_group, to_all_groups
from sash.spark.hearing import Hearing, Place
from sash.spark.sorting import SortedOut, rereads
from sash.store.batch import concat, int64_column, with_columns
from sash.store.codec import decode_table, encode_table
from sash.store.vector import Arena


class Group:
    """What a partition group knows. Group 0 also speaks for the whole fragment where one must.

    `n_groups` is how many groups a partitioned fragment of the plan has. The pipeline is that of the fragment; it
    serves one group at a time.
    """

    def __init__(
        self,
        plan: Plan,
        pipeline: Pipeline,
        fragment: int,
        number: int,
        n_groups: int,
        tables: Mapping[str, str] | None = None,
        batch: int = 0,
    ):
        """`tables` are the versions of those that the plan looks rows up in; `batch` is the number of the next one."""
        self.plan = plan
        self.fragment = plan.fragments[fragment]
        self.number = number
        self._n_groups = n_groups
        self._identity = {"format": FORMAT, "plan": plan.fingerprint, "fragment": fragment, "groups": n_groups}
        self._tables = dict(tables or {})
        self._batch = batch
        self.pipeline = pipeline
        self._clocks = {name: StreamClock(info.slack_us, ahead_us=info.ahead_us) for name, info in plan.streams.items()}
        self._waiting: dict[int, pa.Table] = {}
        """By slot, tuples that may be too far ahead; what comes next decides."""
        self._places: dict[str, list[Place]] = {}
        """By stream, where the rows stand that these were made of, of all groups."""
        self._own_identities = {each.name: own_identities(each.root) for each in self.fragment.branches}
        self._before = self._standing()
        """Where each stream was when the batch began."""
        self._is_changed = False
        """Whether the set of queries has changed since the last batch."""

    def step(self, messages: list[Message]) -> Iterator[Message]:
        """Everything that follows from one batch of messages to this group.

        They are put in an order that does not depend on how Spark brought them: if a task runs twice, the tuples that
        it sends to the next fragment have the same identities both times.
        """
        messages = sorted(messages)
        self._before = self._standing()
        hearing = self._hear(messages)
        sorted_out = SortedOut(self.plan)
        for slot, tuples in self._waiting.items():
            sorted_out.take_waiting(slot, tuples, hearing)
        for each in messages:
            if each.kind == "rows":
                sorted_out.take(each, hearing.verdicts[each.stream, each.origin])
            elif each.kind == "tuples":
                sorted_out.arrivals.setdefault(each.slot, []).append(each.table)
            elif each.kind == "clocks":
                self._clocks = {name: StreamClock(*values) for name, values in each.facts.items()}
        self._waiting, self._places = sorted_out.waiting(), hearing.places()
        yield from sorted_out.messages(self.number)
        if self.number == 0:
            yield from self._pass_on(messages, hearing)
        yield from self._run({slot: concat(parts) for slot, parts in sorted_out.arrivals.items()})

    def _hear(self, messages: list[Message]) -> Hearing:
        """Moves the clocks on: arrivals in their order, then what was declared complete."""
        hearing = Hearing(self._clocks, self._places)
        hearing.hear_arrivals(messages)
        for each in messages:
            if each.kind == "complete":
                hearing.hear_completion(each)
        return hearing

    def reset(self, arena: Arena) -> None:
        """Starts afresh, with everything that is kept from now on in `arena`."""
        self.pipeline.reset(arena)

    def export_live(self) -> dict[str, Any]:
        """All that the group keeps from batch to batch, indexes included."""
        held = {"clocks": self._clocks, "waiting": self._waiting, "places": self._places}
        return held | {"pipeline": self.pipeline.export_live()}

    def import_live(self, state: Mapping[str, Any]) -> None:
        """Goes on with what `export_live` gave."""
        self.pipeline.import_live(state["pipeline"])
        self._clocks, self._waiting, self._places = state["clocks"], state["waiting"], state["places"]

    def _run(self, arrivals: Mapping[int, pa.Table]) -> Iterator[Message]:
        """What the operators make of the tuples that have come."""
        clocks = {slot.number: self._clocks[slot.source.name].clock for slot in self.plan.slots}
        ingests = {slot.number: slot.ingest for slot in self.plan.slots}
        arrivals = {
            slot: ingests[slot].stamp(tuples, self._batch) if slot in ingests else tuples
            for slot, tuples in arrivals.items()
        }
        idle = self.fragment.idle_in(self.number)
        for name, tuples in self.pipeline.steps(arrivals, self.clock, clocks, idle):
            yield from self._pass_up(tuples, self.fragment.branch(name))

    def _pass_up(self, tuples: pa.Table, branch: BranchPlan) -> Iterator[Message]:
        """Tuples of a branch, in messages of bounded size: for a later one, or as changes in their order."""
        if branch.feeds:
            tuples = self._with_own_identities(tuples, branch)
            for slot in branch.feeds:
                yield from self._send(tuples, slot)
            return
        query = self.plan.queries[branch.name.query]
        for part in _bounded(to_changes(tuples, query.schema, query.emit_changes, with_ties=False)):
            yield message("changes", part, self.number, query=branch.name.query)

    def _send(self, tuples: pa.Table, slot: int) -> Iterator[Message]:
        target, input = self.plan.reader(slot)
        for group, found in split_by_group(tuples, input.partition, target.spread_at(slot, self._n_groups)):
            for part in _bounded(found):
                yield message("tuples", part, group, slot=slot, stage=target.number)

    def _with_own_identities(self, tuples: pa.Table, branch: BranchPlan) -> pa.Table:
        """Each group gives identities from 0 on; on leaving, no two groups may use the same ones."""
        n_groups = branch.count_groups(self._n_groups)
        own = self._own_identities[branch.name].intersection(tuples.column_names)
        apart = {name: int64_column(tuples, name) * n_groups + self.number for name in own}
        return with_columns(tuples, **apart)

    def _pass_on(self, messages: list[Message], hearing: Hearing) -> Iterator[Message]:
        """What the whole query must hear: the first fragment tells the output, and each fragment the next."""
        heard = [each for each in messages if each.kind in ("arrival", "complete")]
        if self.fragment.number == 0:
            yield from rereads(messages, hearing)
            yield from (each._replace(stage=OUTPUT) for each in heard if each.kind == "arrival")
        following = self.fragment.number + 1
        if following == len(self.plan.fragments):
            return
        if self._is_changed or any(each.kind == "clocks" for each in messages):
            # All groups that there may be: some ran for a query that is no more and must let go of what they keep for
            # it, others run now for the first time and have heard of nothing so far.
            clocks = message("clocks", {name: astuple(clock) for name, clock in self._clocks.items()}, stage=following)
            yield from (clocks._replace(grp=group) for group in range(self._n_groups))
        elif self.plan.fragments[following].inputs:
            for each in heard:
                yield from to_all_groups(each, self.plan, self._n_groups, following)

    @property
    def progress(self) -> dict[str, dict[str, dict[str, int]]]:
        """By stream, before the batch and after it: how far it is, the time of rows that wait, and how many wait."""
        after = self._standing()
        return {name: {"before": self._before[name], "after": after[name]} for name in after}

    @property
    def clock(self) -> int:
        """Every tuple up to and including this time has come."""
        return min(clock.clock for clock in self._clocks.values())

    def _standing(self) -> dict[str, dict[str, int]]:
        n_held = {name: sum(place.n_rows for place in places) for name, places in self._places.items()}
        return {
            name: {"newest_us": clock.base_us, "held_us": clock.held_us, "n_held": n_held.get(name, 0)}
            for name, clock in self._clocks.items()
        }

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """What the state store must put and delete since the last call, beside the head."""
        return self.pipeline.take_changes()

    def head(self) -> bytes:
        """What the state store keeps beside the entries: small, and new after every batch."""
        clocks = {name: astuple(clock) for name, clock in self._clocks.items()}
        return json.dumps(
            {
                "identity": self._identity,
                "edition": self.plan.edition,
                "tables": self._tables,
                "clocks": clocks,
                "waiting": {slot: encode_table(tuples).hex() for slot, tuples in self._waiting.items()},
                "places": self._places,
                "registers": self.pipeline.registers(),
            }
        ).encode()

    def restore(self, head: bytes, entries: Mapping[str, bytes]) -> None:
        """Becomes the group whose state these are."""
        known = json.loads(head)
        if known["identity"] != self._identity:
            raise SourceError(
                f"the checkpoint was made by another query, another version of Sash, or with another number of shuffle "
                f"partitions: it says {known['identity']}, this query {self._identity}; "
                "restore the setting, or give the query a checkpoint directory of its own"
            )
        refuse_changed(known["tables"], self._tables, "give the query a checkpoint directory of its own")
        self._clocks = {name: StreamClock(*values) for name, values in known["clocks"].items()}
        self._waiting = {int(slot): decode_table(bytes.fromhex(text)) for slot, text in known["waiting"].items()}
        self._places = {name: [_place(*each) for each in places] for name, places in known["places"].items()}
        seen_us = max(clock.newest_us for clock in self._clocks.values())
        self.pipeline.restore(entries, known["registers"], seen_us)
        self._is_changed = known["edition"] != self.plan.edition

    def goes_on(self, head: bytes) -> bool:
        """Whether the state with this head was left by the same set of queries over the same tables, so that all of it
        can be used.
        """
        known = json.loads(head)
        return known["edition"] == self.plan.edition and known["tables"] == self._tables


def _place(path: str, segment: int, n_rows: int = 1, kept: Iterable[tuple[int, str]] = ()) -> Place:
    return Place(path, segment, n_rows, tuple((line, text) for line, text in kept))


def _bounded(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts that fit into a message."""
    for start in range(0, table.num_rows, ROWS_PER_MESSAGE):
        yield table.slice(start, ROWS_PER_MESSAGE)
