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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.operators.branch import Branch, FedBranch
from sash.operators.lookup_join import LookupJoin
from sash.operators.operator import RoomMaker, Stateful
from sash.operators.operator_names import BranchName, OperatorName
from sash.operators.operator_set import OperatorSet, StoredEntries, restore_operator
from sash.operators.operator_tree import Work
from sash.operators.pacing import Arriving, paces
from sash.operators.segmented_lookup import SegmentedRelation
from sash.operators.tapped_join import TappedJoin
from sash.operators.trunk import JOIN, Trunk
from sash.operators.tuple_use import use_of
from sash.operators.window_join import WindowJoin
from sash.store.batch import BEGINNING
from sash.store.bites import Bite, Bites, Spent
from sash.store.vector import Arena, Memory

MEMBERS = "members"
KEPT = "kept"
ARENA = "arena"


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
        bites = Bites(Bite(arrivals, clock, clocks or {}), self._arena.budget, self._spent())
        for bite in bites:
            n_bytes_out = 0
            for part in self._paced(bite):
                for name, table in self._step(part, skipped):
                    n_bytes_out += table.nbytes
                    yield name, table
            bites.see(n_bytes_out)

    def _spent(self) -> Spent:
        """What bites cost."""
        operators = [operator for _, operator in self.operators()]
        readers = (each for each in operators if isinstance(each, LookupJoin | WindowJoin | TappedJoin))
        return Spent(use_of(operators), sum(each.n_file_bytes for each in readers))

    def _paced(self, bite: Bite) -> Iterator[Bite]:
        """A bite; bit by bit if much that was held back below a shared join is let go, and memory is limited."""
        if self._trunk is None or self._arena.budget is None:
            yield bite
            return
        arrivals, clock, clocks = bite
        below = [each for tree in self._trunk.inputs for _, each in tree.operators()]
        for until in paces(below, clock, use_of([*below, self._trunk.join])):
            yield Bite(arrivals, until, clocks)
            arrivals = {}

    def _step(self, bite: Bite, skipped: Collection[BranchName]) -> Iterator[tuple[BranchName, pa.Table]]:
        arrivals, clock, clocks = bite
        running = [branch for name, branch in self._branches.items() if name not in skipped]
        pending, self._pending = self._pending, {}
        for branch in running:
            if branch.name in pending:
                clock_before, begin = pending[branch.name]
                yield from self._run(branch, begin(), clock_before)
        if self._trunk is None:
            for branch in running:
                yield from self._run(branch, arrivals, clock, clocks)
            return
        fed = [FedBranch(branch) for branch in running]
        progress = dict.fromkeys(range(len(self._trunk.join.taps)), BEGINNING)
        for given in self._trunk.outputs(arrivals, clock, clocks):
            progress |= dict.fromkeys(given.tables, given.complete_us)
            for each in fed:
                due = each.take(given.tables, progress)
                if due is not None:
                    yield from self._run(each.branch, due[0], min(due[1], clock))

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
        self._make_room(0)
        if budget.refused is not None:
            raise budget.refused

    def leave_memory(self) -> None:
        """Puts on disk what can be there, as far as it is worth a file, unless all has room twice: another pipeline
        goes on from this one, which would find memory full otherwise, and put every block of its own into a file.
        """
        budget = self._arena.budget
        if budget is not None and budget.is_filled_by(2 * budget.n_state_bytes):
            self._make_room(budget.state_bytes)

    def operators(self) -> Iterator[tuple[OperatorName, Stateful]]:
        """Of the trunk, then of the branches."""
        if self._trunk is not None:
            yield from self._trunk.operators()
        for branch in self._branches.values():
            yield from ((name._replace(branch=branch.name), operator) for name, operator in branch.tree.operators())

    @property
    def join_work(self) -> Work:
        """What the shared join did in the last step; pairs count for each tap that they go to."""
        return Work() if self._trunk is None else self._trunk.work

    def work(self) -> dict[OperatorName, Work]:
        """What each operator did in the last step, by its name."""
        found = {} if self._trunk is None else self._trunk.works()
        for branch in self._branches.values():
            found |= {name._replace(branch=branch.name): work for name, work in branch.tree.work().items()}
        return found

    def partial_until_us(self, query: str) -> int | None:
        """Until when the answers of a query may lack what its windows should hold; None if they never did."""
        if self._trunk is None:
            return None
        taps = {tap for branch in self._branches.values() if branch.name.query == query for tap in branch.taps.values()}
        return self._trunk.partial_until_us(taps)

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
            self._kept = self._trunk.kept_after(registers[KEPT], clock, seen_us)
            for name in self._branches.keys() - goes_on:
                self._open(self._trunk, name, clock)

    def _make_room(self, n_bytes: int) -> None:
        for _, operator in self.operators():
            if isinstance(operator, RoomMaker):
                operator.make_room(n_bytes)

    def _forget_work(self) -> None:
        if self._trunk is not None:
            self._trunk.forget_work()
        for branch in self._branches.values():
            branch.tree.forget_work()

    def _forget_change(self) -> None:
        """What was restored here may have been left in the middle: it was another group's, or an attempt failed."""
        self._pending, self._orphans = {}, set()

    def _open(self, trunk: Trunk, name: BranchName, clock: int) -> None:
        """Lets a new query begin with what is in its windows."""
        assert self._kept is not None
        taps = self._branches[name].taps
        for number in taps.values():
            trunk.open_tap(number, self._kept, clock)
        arena = self._arena  # not by way of this pipeline: it would hold itself, and its memory, when it is let go of
        self._pending[name] = clock, lambda: trunk.beginning(taps, clock, arena)

    def _run(
        self, branch: Branch, arrivals: Mapping[int, Arriving], clock: int, clocks: Mapping[int, int] | None = None
    ) -> Iterator[tuple[BranchName, pa.Table]]:
        yield from ((branch.name, table) for table in branch.steps(arrivals, clock, clocks, self._arena))
