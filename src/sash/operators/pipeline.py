"""A running plan: what each query does by itself, its branches, on top of the join that they share, if they do.

    alone                     streams ─ branch of q ──────────────────── answers of q

                                      ┌ tap ─ branch of q1: Project ──── answers of q1
    sharing    streams ─ TappedJoin   ┼ tap ─ branch of q2: GroupBy ──── answers of q2
               the trunk              └ tap ─ ...

A branch is what stands above the join in the plan that the query would have alone, so it sees there what it would see
alone; of a query that shares no join it is all of it. Where a plan is cut at an exchange, only the lowest branches
stand on taps or streams; those of later cuts stand on what comes through the exchange, and there is no trunk.

The set of queries that share may change between steps: a pipeline of another set is restored from the state of this
one. Queries that are in both go on as they were. One that is new begins with what is in its windows, as far as it was
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import pyarrow as pa

from sash.index.join_index import LEFT, RIGHT
from sash.operators.bites import Bite, Bites
from sash.operators.limited_steps import paced_parts
from sash.operators.operator import RoomMaker, Stateful
from sash.operators.operator_names import BranchName, OperatorName
from sash.operators.operator_set import OperatorSet, StoredEntries, restore_operator
from sash.operators.operator_tree import Arriving, OperatorTree, Work, paces
from sash.operators.retention import Retention
from sash.operators.segmented_lookup import SegmentedRelation
from sash.operators.tapped_join import TapOutput, TappedJoin
from sash.store.batch import BEGINNING, TS, concat, int64_column
from sash.store.sorted_runs import SortedRuns
from sash.store.timed_turns import OrderedTuples
from sash.store.vector import Arena, Memory

JOIN = OperatorName("join")
MEMBERS = "members"
KEPT = "kept"
ARENA = "arena"
SIDES = ("left", "right")


@dataclass(slots=True)
class Trunk:
    """The shared join and what feeds it."""

    inputs: tuple[OperatorTree, OperatorTree]
    join: TappedJoin
    retention: tuple[Retention, Retention]
    """What a join that starts now keeps of each stream."""
    tap_conditions: tuple[tuple[str | None, str | None], ...]
    """By tap, the condition that it puts on each side."""


@dataclass(slots=True)
class Branch:
    """A part of one query."""

    name: BranchName
    fingerprint: str
    """Of the query: one of the same name and another fingerprint is another query."""
    tree: OperatorTree
    taps: Mapping[int, int] = field(default_factory=dict[int, int])
    """By slot of the tree, the tap that feeds it; its other slots are fed from outside."""
    order: tuple[str, ...] | None = None
    """The columns of its answers, by which those of one instant are put in order; None if nobody sees their order."""


class Pipeline(OperatorSet):
    """Runs a trunk, if there is one, and branches."""

    def __init__(self, trunk: Trunk | None, branches: Iterable[Branch]):
        self._trunk = trunk
        self._branches = {each.name: each for each in branches}
        self._kept = trunk.retention if trunk else None
        self._pending: dict[BranchName, tuple[int, Callable[[], dict[int, Arriving]]]] = {}
        """By branch, what a query begins with, before the next step: a time up to which it is complete, and what makes
        it, by slot."""
        self._orphans: set[str] = set()
        """Entries of queries that are no more."""
        self._join_work = Work()
        self._arena: Arena = Memory()

    def begin(self, seen_us: int) -> None:
        """Says that tuples up to a time had come before there was this join: who comes later does not find them."""
        if self._kept is not None:
            left, right = (replace(each, whole_us=max(each.whole_us, seen_us)) for each in self._kept)
            self._kept = left, right

    def steps(
        self,
        arrivals: Mapping[int, pa.Table],
        clock: int,
        clocks: Mapping[int, int] | None = None,
        skipped: Collection[BranchName] = (),
    ) -> Iterator[tuple[BranchName, pa.Table]]:
        """What follows from these tuples, by slot, when every tuple up to and including `clock` has come: for each
        branch, but for those to be skipped, some tables. `clocks` says so of single slots, which may be ahead of
        `clock`. By the order in which queries are served, small windows may not have to wait for large ones.
        """
        self._forget_work()
        bites = Bites(Bite(arrivals, clock, clocks or {}), self._arena.budget)
        for bite in bites:
            n_bytes_out = 0
            for part in self._paced(bite):
                for name, table in self._step(part, skipped):
                    n_bytes_out += table.nbytes
                    yield name, table
            bites.see(n_bytes_out)

    def _paced(self, bite: Bite) -> Iterator[Bite]:
        """A bite; bit by bit if much that was held back below a shared join is let go, and memory is limited."""
        if self._trunk is None or self._arena.budget is None:
            yield bite
            return
        arrivals, clock, clocks = bite
        for until in paces([each for tree in self._trunk.inputs for _, each in tree.operators()], clock):
            yield Bite(arrivals, until, clocks)
            arrivals = {}

    def _step(self, bite: Bite, skipped: Collection[BranchName]) -> Iterator[tuple[BranchName, pa.Table]]:
        arrivals, clock, clocks = bite
        waiting: dict[BranchName, dict[int, Arriving]] = {name: {} for name in self._branches if name not in skipped}
        pending, self._pending = self._pending, {}
        for name in waiting:
            if name in pending:
                clock_before, begin = pending[name]
                yield from self._run(name, begin(), clock_before)
        if self._trunk is None:
            for name in waiting:
                yield from self._run(name, arrivals, clock, clocks)
            return
        progress = dict.fromkeys(range(len(self._trunk.join.taps)), BEGINNING)
        for given in self._tap_outputs(self._trunk, arrivals, clock, clocks):
            progress |= dict.fromkeys(given.tables, given.complete_us)
            for name, held in waiting.items():
                taps = self._branches[name].taps
                if given.tables.keys() & set(taps.values()):
                    _fill(held, {slot: given.tables[tap] for slot, tap in taps.items() if tap in given.tables})
                    until = min(progress[tap] for tap in taps.values())
                    is_uneven = any(progress[tap] > until for tap in taps.values())
                    yield from self._run(name, _drain(held, until) if is_uneven else _drain(held), min(until, clock))

    def replace_relations(self, relations: Mapping[str, Mapping[str, pa.Table | SegmentedRelation]]) -> None:
        """Looks up in other relations from now on, by query and label."""
        for branch in self._branches.values():
            branch.tree.replace_relations(relations.get(branch.name.query, {}))

    def require_room(self) -> None:
        """Before a step is taken: what found no room on disk in the one before has to find it now.

        Raises ResourceError if it does not; nothing has changed then, and it may be tried again.
        """
        budget = self._arena.budget
        if budget is None or budget.refused is None:
            return
        budget.refused = None
        for _, operator in self.operators():
            if isinstance(operator, RoomMaker):
                operator.make_room()
        if budget.refused is not None:
            raise budget.refused

    def operators(self) -> Iterator[tuple[OperatorName, Stateful]]:
        """Of the trunk, then of the branches."""
        if self._trunk is not None:
            yield JOIN, self._trunk.join
            for side, tree in zip(SIDES, self._trunk.inputs):
                yield from ((_of_side(side, name), operator) for name, operator in tree.operators())
        for branch in self._branches.values():
            yield from ((name._replace(branch=branch.name), operator) for name, operator in branch.tree.operators())

    @property
    def join_work(self) -> Work:
        """What the shared join did in the last step; pairs count for each tap that they go to."""
        return self._join_work

    def work(self) -> dict[OperatorName, Work]:
        """What each operator did in the last step, by its name."""
        found: dict[OperatorName, Work] = {}
        if self._trunk is not None:
            found[JOIN] = self._join_work
            for side, tree in zip(SIDES, self._trunk.inputs):
                found |= {_of_side(side, name): work for name, work in tree.work().items()}
        for branch in self._branches.values():
            found |= {name._replace(branch=branch.name): work for name, work in branch.tree.work().items()}
        return found

    def partial_until_us(self, query: str) -> int | None:
        """Until when the answers of a query may lack what its windows should hold; None if they never did."""
        if self._trunk is None:
            return None
        join = self._trunk.join
        taps = {tap for branch in self._branches.values() if branch.name.query == query for tap in branch.taps.values()}
        until = [
            int(join.since_us[tap, side]) + join.taps[tap].windows_us[side]
            for tap in taps
            for side in (LEFT, RIGHT)
            if join.since_us[tap, side] > BEGINNING
        ]
        return max(until, default=None)

    def reset(self, arena: Arena) -> None:
        super().reset(arena)
        self._arena = arena
        self._kept = self._trunk.retention if self._trunk else None
        self._forget_change()

    def export_live(self) -> dict[Any, Any]:
        return super().export_live() | {KEPT: self._kept, ARENA: self._arena}

    def import_live(self, state: Mapping[Any, Any]) -> None:
        super().import_live(state)
        self._kept, self._arena = state[KEPT], state[ARENA]
        self._forget_change()

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        puts, deletes = super().take_changes()
        orphans, self._orphans = self._orphans - puts.keys(), set()
        return puts, [*deletes, *sorted(orphans)]

    def registers(self) -> dict[str, Any]:
        # A query that has not begun yet begins anew wherever this goes on.
        waiting = {name.query for name in self._pending}
        members = {name.query: each.fingerprint for name, each in self._branches.items() if name.query not in waiting}
        kept = {} if self._kept is None else {str(side): each.to_json() for side, each in enumerate(self._kept)}
        return super().registers() | {MEMBERS: members, KEPT: kept}

    def restore(self, entries: Mapping[str, bytes], registers: Mapping[str, Any], seen_us: int = BEGINNING) -> None:
        """Goes on from the state of this set of queries, or of another one with the same join.

        `seen_us` is the newest time of all tuples that have come so far.
        """
        known, stored = registers[MEMBERS], StoredEntries(entries)
        goes_on = {name for name, each in self._branches.items() if known.get(name.query) == each.fingerprint}
        mine: set[OperatorName] = set()
        for name, operator in self.operators():
            if name.branch is None or name.branch in goes_on:
                restore_operator(name, operator, stored, registers[name.encode()])
                mine.add(name)
        self._orphans = {text for text, entry in stored.names.items() if entry.operator not in mine}
        if self._trunk is not None:
            clock = registers[JOIN.encode()]["clock"]
            self._kept = self._changed(self._trunk, registers[KEPT], clock, seen_us)
            for name in self._branches.keys() - goes_on:
                self._open(self._trunk, name, clock)

    def _forget_work(self) -> None:
        self._join_work = Work()
        for tree in self._trees():
            tree.forget_work()

    def _trees(self) -> Iterator[OperatorTree]:
        if self._trunk is not None:
            yield from self._trunk.inputs
        yield from (branch.tree for branch in self._branches.values())

    def _forget_change(self) -> None:
        """What was restored here may have been left in the middle: it was another group's, or an attempt failed."""
        self._pending, self._orphans = {}, set()

    def _changed(self, trunk: Trunk, kept: Mapping[str, Any], clock: int, seen_us: int) -> tuple[Retention, Retention]:
        old = [Retention(**kept[str(side)]) for side in (LEFT, RIGHT)]
        left, right = (each.after_change(wanted, clock, seen_us) for each, wanted in zip(old, trunk.retention))
        return left, right

    def _open(self, trunk: Trunk, name: BranchName, clock: int) -> None:
        """Lets a new query begin with what is in its windows."""
        assert self._kept is not None
        join = trunk.join
        for number in self._branches[name].taps.values():
            tap = join.taps[number]
            for side, kept in enumerate(self._kept):
                columns = [old for old, _ in tap.columns if old in kept.columns]
                condition = trunk.tap_conditions[number][side]
                join.since_us[number, side] = kept.missing_until_us(tap.windows_us[side], columns, condition, clock)
        self._pending[name] = clock, partial(self._beginning, trunk, name, clock)

    def _beginning(self, trunk: Trunk, name: BranchName, clock: int) -> dict[int, Arriving]:
        """What is in a query's windows, as its taps would have given it."""
        join, taps = trunk.join, self._branches[name].taps
        if self._arena.budget is None:
            return {slot: concat(list(join.backfill(number, clock))) for slot, number in taps.items()}
        begins_with: dict[int, Arriving] = {}
        for slot, number in taps.items():
            runs = SortedRuns(self._arena, with_ties=False, n_sharing=len(taps))
            for part in join.backfill(number, clock):
                runs.add(part)
            begins_with[slot] = runs.finish(join.tap_schemas[number])
        return begins_with

    def _tap_outputs(
        self, trunk: Trunk, arrivals: Mapping[int, pa.Table], clock: int, clocks: Mapping[int, int]
    ) -> Iterator[TapOutput]:
        inputs = [tree.step(arrivals, clock, clocks) for tree in trunk.inputs]
        work = self._join_work
        work.rows_in += sum(batch.num_rows for batch in inputs)
        started = perf_counter()
        for given in trunk.join.tap_outputs(inputs, clock):
            work.seconds += perf_counter() - started
            work.rows_out += sum(table.num_rows for table in given.tables.values())
            yield given
            started = perf_counter()
        work.seconds += perf_counter() - started

    def _run(
        self,
        name: BranchName,
        arrivals: Mapping[int, Arriving],
        clock: int,
        clocks: Mapping[int, int] | None = None,
    ) -> Iterator[tuple[BranchName, pa.Table]]:
        branch, arena = self._branches[name], self._arena
        if arena.budget is None:
            tables = branch.tree.paced_steps({slot: _as_table(each) for slot, each in arrivals.items()}, clock, clocks)
        else:
            steps = paced_parts(branch.tree, arrivals, clock, clocks, arena)
            tables = (table for parts in steps for table in _ordered(parts, branch.order, arena))
        for table in tables:
            if table.num_rows:
                yield name, table


def _ordered(parts: Iterable[pa.Table], order: Sequence[str] | None, arena: Arena) -> Iterator[pa.Table]:
    """What a branch gives in a step: at once, or in order of time if that is too much. `order`: see `Branch`."""
    runs = SortedRuns(arena, with_ties=order is not None)
    for part in parts:
        runs.add(part if order is None else part.select(list(order)))
    return runs.give()


def _of_side(side: str, name: OperatorName) -> OperatorName:
    """Of an operator below the shared join."""
    return OperatorName(f"{side} {name.operator}")


def _fill(held: dict[int, Arriving], more: Mapping[int, Arriving]) -> None:
    for slot, arriving in more.items():
        held[slot] = concat([_as_table(held[slot]), _as_table(arriving)]) if slot in held else arriving


def _as_table(arriving: Arriving) -> pa.Table:
    assert not isinstance(arriving, OrderedTuples), "what comes in parts is all that a tap gives in a step"
    return arriving


def _drain(held: dict[int, Arriving], until: int | None = None) -> dict[int, Arriving]:
    """Takes out what may be worked on up to a time, or all. What is beyond it stays: of slots that are ahead of others,
    and of what a query begins with, whose slots must be worked on side by side.
    """
    due = dict(held)
    held.clear()
    if until is not None:
        for slot, table in ((slot, _as_table(each)) for slot, each in due.items()):
            ts = int64_column(table, TS)
            held[slot] = table.filter(pa.array(ts > until))
            due[slot] = table.filter(pa.array(ts <= until))
    return due
