"""A part of one query that runs by itself, on what comes from outside or from the taps of a shared join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sash.operators.limited_steps import paced_parts
from sash.operators.operator_names import BranchName
from sash.operators.operator_tree import OperatorTree
from sash.operators.pacing import Arriving
from sash.store.batch import TS, concat, int64_column
from sash.store.sorted_runs import SortedRuns
from sash.store.timed_turns import OrderedTuples
from sash.store.vector import Arena


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

    def steps(
        self, arrivals: Mapping[int, Arriving], clock: int, clocks: Mapping[int, int] | None, arena: Arena
    ) -> Iterator[pa.Table]:
        """What follows from these tuples: some tables, none of them empty."""
        if arena.budget is None:
            tables = self.tree.paced_steps({slot: _as_table(each) for slot, each in arrivals.items()}, clock, clocks)
        else:
            steps = paced_parts(self.tree, arrivals, clock, clocks, arena)
            tables = (table for parts in steps for table in _ordered(parts, self.order, arena))
        yield from (table for table in tables if table.num_rows)


class FedBranch:
    """A branch in a step, with what taps have given to it and it may not work on yet: one of its taps is behind."""

    def __init__(self, branch: Branch):
        self.branch = branch
        self._held: dict[int, Arriving] = {}

    def take(
        self, given: Mapping[int, Arriving], progress: Mapping[int, int]
    ) -> tuple[dict[int, Arriving], int] | None:
        """What may be worked on now that taps have given this, and up to when; None if it is of other branches.

        `progress` says by tap how far it has come.
        """
        taps = self.branch.taps
        if not given.keys() & set(taps.values()):
            return None
        _fill(self._held, {slot: given[tap] for slot, tap in taps.items() if tap in given})
        until = min(progress[tap] for tap in taps.values())
        is_uneven = any(progress[tap] > until for tap in taps.values())
        return _drain(self._held, until if is_uneven else None), until


def _ordered(parts: Iterable[pa.Table], order: Sequence[str] | None, arena: Arena) -> Iterator[pa.Table]:
    """What a branch gives in a step: at once, or in order of time if that is too much. `order`: see `Branch`."""
    runs = SortedRuns(arena, with_ties=order is not None)
    for part in parts:
        runs.add(part if order is None else part.select(list(order)))
    return runs.give()


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
