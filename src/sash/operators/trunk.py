"""The join that queries share, with what feeds it, and what a query that comes later is given of its windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa

from sash.index.join_index import LEFT, RIGHT
from sash.operators.operator import Stateful
from sash.operators.operator_names import OperatorName
from sash.operators.operator_tree import OperatorTree, Work
from sash.operators.pacing import Arriving
from sash.operators.retention import Retention
from sash.operators.tapped_join import TapOutput, TappedJoin
from sash.store.batch import BEGINNING, concat
from sash.store.sorted_runs import SortedRuns
from sash.store.vector import Arena

JOIN = OperatorName("join")
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
    work: Work = field(default_factory=Work)
    """What the join has done since `forget_work`; pairs count for each tap that they go to."""

    def operators(self) -> Iterator[tuple[OperatorName, Stateful]]:
        """The join, and what is below it."""
        yield JOIN, self.join
        for side, tree in zip(SIDES, self.inputs):
            yield from ((_of_side(side, name), operator) for name, operator in tree.operators())

    def works(self) -> dict[OperatorName, Work]:
        """What each of them has done since `forget_work`, by its name."""
        found = {JOIN: self.work}
        for side, tree in zip(SIDES, self.inputs):
            found |= {_of_side(side, name): work for name, work in tree.work().items()}
        return found

    def forget_work(self) -> None:
        """Counts work from now on."""
        self.work = Work()
        for tree in self.inputs:
            tree.forget_work()

    def outputs(self, arrivals: Mapping[int, pa.Table], clock: int, clocks: Mapping[int, int]) -> Iterator[TapOutput]:
        """What a step gives to taps, in the order in which they are served."""
        inputs = [tree.step(arrivals, clock, clocks) for tree in self.inputs]
        work = self.work
        work.rows_in += sum(batch.num_rows for batch in inputs)
        started = perf_counter()
        for given in self.join.tap_outputs(inputs, clock):
            work.seconds += perf_counter() - started
            work.rows_out += sum(table.num_rows for table in given.tables.values())
            yield given
            started = perf_counter()
        work.seconds += perf_counter() - started

    def open_tap(self, number: int, kept: tuple[Retention, Retention], clock: int) -> None:
        """Lets a tap begin with what is in its windows, as far as it was kept."""
        tap = self.join.taps[number]
        for side, each in enumerate(kept):
            columns = [old for old, _ in tap.columns if old in each.columns]
            condition = self.tap_conditions[number][side]
            self.join.since_us[number, side] = each.missing_until_us(tap.windows_us[side], columns, condition, clock)

    def beginning(self, taps: Mapping[int, int], clock: int, arena: Arena) -> dict[int, Arriving]:
        """What is in the windows of some taps, by the slot that each feeds, as it would have given it."""
        if arena.budget is None:
            return {slot: concat(list(self.join.backfill(number, clock))) for slot, number in taps.items()}
        begins_with: dict[int, Arriving] = {}
        for slot, number in taps.items():
            runs = SortedRuns(arena, with_ties=False, n_sharing=len(taps))
            for part in self.join.backfill(number, clock):
                runs.add(part)
            begins_with[slot] = runs.finish(self.join.tap_schemas[number])
        return begins_with

    def kept_after(self, kept: Mapping[str, Any], clock: int, seen_us: int) -> tuple[Retention, Retention]:
        """What is kept of each stream, where another set of queries has `kept` so much before."""
        old = [Retention(**kept[str(side)]) for side in (LEFT, RIGHT)]
        left, right = (each.after_change(wanted, clock, seen_us) for each, wanted in zip(old, self.retention))
        return left, right

    def partial_until_us(self, taps: set[int]) -> int | None:
        """Until when what taps give may lack what their windows should hold; None if it never did."""
        until = [
            int(self.join.since_us[tap, side]) + self.join.taps[tap].windows_us[side]
            for tap in taps
            for side in (LEFT, RIGHT)
            if self.join.since_us[tap, side] > BEGINNING
        ]
        return max(until, default=None)


def _of_side(side: str, name: OperatorName) -> OperatorName:
    """Of an operator below the shared join."""
    return OperatorName(f"{side} {name.operator}")
