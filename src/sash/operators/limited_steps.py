"""Steps of a tree where memory is limited: what joins find goes through the operators above them part by part.

    Join ──▏▏▏▏── Project ──▏▏▏▏── GroupBy                  each part as it comes, in order of time where one keeps
                                                            something
    Join ──▏▏▏▏───────────┐
    Join ──▏▏▏▏── Distinct ── Join ──▏▏▏▏── …               inputs side by side, in turns

An operator that is handed parts takes them in turns: each complete up to a time, and an instant that is too much for
memory in parts, if it can. Tuples that fit are handed to it at once, as ever. What it makes of them is the same.

A node with several readers runs for the first of them. What comes at once is kept for the others; what comes in parts
is put in order of time, in runs on disk if it is much, and every reader goes through them at its own pace:

    Join ──▏▏▏▏── runs ─┬─▏▏▏▏── Join ── …
                        └─▏▏▏▏── Membership ── …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa

from sash.operators.expire import Expire
from sash.operators.lookup_join import LookupJoin
from sash.operators.multiway_join import MultiwayJoin
from sash.operators.node import Node
from sash.operators.operator import Operator, PartGiver, PartTaker
from sash.operators.operator_kinds import ExchangeSpec
from sash.operators.operator_tree import Given, OperatorTree
from sash.operators.pacing import Arriving, Pace
from sash.operators.partial_aggregate import PartialAggregate
from sash.operators.project import Project
from sash.operators.slide import Slide
from sash.operators.union import Union
from sash.operators.window_join import WindowJoin
from sash.store.batch import sorted_by_time
from sash.store.sorted_runs import SharedRuns, SortedRuns
from sash.store.timed_turns import Instants, OrderedTuples, in_turns
from sash.store.vector import Arena


def paced_parts(
    tree: OperatorTree, arrivals: Mapping[int, Arriving], clock: int, clocks: Mapping[int, int] | None, arena: Arena
) -> Iterator[Iterator[pa.Table]]:
    """`OperatorTree.paced_steps` with little memory: steps in parts that have no order. To be exhausted one by one."""
    for pace in tree.paced(arrivals, clock, clocks or {}):
        yield _LimitedStep(tree, pace, arena, Given(tree.n_readers), {}).parts(tree.root)


@dataclass(frozen=True, slots=True)
class _LimitedStep:
    """Of a tree: what comes in, and where there is room."""

    tree: OperatorTree
    pace: Pace
    arena: Arena
    given: Given
    """What came at once of nodes with several readers."""
    shared: dict[int, SharedRuns]
    """By node, the same of those that come in parts."""

    def parts(self, node: Node) -> Iterator[pa.Table]:
        """What a node puts out, for one of its readers."""
        if not self._comes_in_parts(node):
            yield self._whole(node)
        elif self._is_shared(node):
            yield from self._gathered(node).read()
        else:
            yield from self._made(node)

    def _made(self, node: Node) -> Iterator[pa.Table]:
        """What a node puts out, in parts: it runs now."""
        operator = self.tree.operator_of(node)
        if operator is None:
            yield from self._passed_on(node)
        elif not self._is_over_parts(node):
            yield from self._at_once(node, [self._whole(child) for child in node.streams])
        elif isinstance(operator, Project | LookupJoin | Slide | Union):
            for number, child in enumerate(node.streams):
                for part in self.parts(child):
                    inputs = self._nothing(node)
                    inputs[number] = part
                    yield from self._process(node, inputs, self.pace.clock)
        else:
            yield from self._from_parts(node, operator)

    def _is_shared(self, node: Node) -> bool:
        return self.tree.n_readers.get(id(node), 0) > 1

    def _gathered(self, node: Node) -> SharedRuns:
        """All that a node with several readers puts out, which come for it at their own pace; made for the first."""
        if id(node) not in self.shared:
            runs = SharedRuns(self.arena, self.tree.n_readers[id(node)])
            for part in self._made(node):
                runs.add(part)
            self.shared[id(node)] = runs
        return self.shared[id(node)]

    def _passed_on(self, node: Node) -> Iterator[pa.Table]:
        """What comes in at a leaf, or through an exchange."""
        if node.inputs:
            yield from self.parts(node.inputs[0])
            return
        tuples = self._arriving(node)
        assert isinstance(tuples, OrderedTuples)
        yield from tuples

    def _arriving(self, node: Node) -> Arriving | None:
        return None if node.inputs else self.pace.arrivals.get(getattr(node.spec, "slot", -1))

    def _comes_in_parts(self, node: Node) -> bool:
        is_giver = isinstance(self.tree.operator_of(node), PartGiver)
        return is_giver or isinstance(self._arriving(node), OrderedTuples) or self._is_over_parts(node)

    def _is_over_parts(self, node: Node) -> bool:
        """Whether an input of it comes in parts."""
        return any(self._comes_in_parts(each) for each in node.streams)

    def _is_in_order(self, node: Node) -> bool:
        """Whether its parts are in order of time, one after the other."""
        if isinstance(self._arriving(node), OrderedTuples):
            return True
        if self._is_shared(node) and self._comes_in_parts(node):
            return self._gathered(node).is_large
        passes_on = isinstance(node.spec, ExchangeSpec) or isinstance(self.tree.operator_of(node), Project)
        return passes_on and bool(node.inputs) and self._is_in_order(node.inputs[0])

    def _whole(self, node: Node) -> pa.Table:
        """What a node puts out of which nothing comes in parts."""
        return self.tree.run(node, self.pace, self.given)

    def _nothing(self, node: Node) -> list[pa.Table]:
        """An empty input each."""
        return [self.tree.schema_of(child).empty_table() for child in node.streams]

    def _from_parts(self, node: Node, operator: Operator) -> Iterator[pa.Table]:
        """What an operator makes of inputs of which some come in parts: at once if they fit, else in turns."""
        instants = _instants_of(operator)
        n_sharing = sum(map(self._comes_in_parts, node.streams))
        inputs = [self._gather(child, instants, n_sharing) for child in node.streams]
        tables = [each for each in inputs if isinstance(each, pa.Table)]
        if len(tables) == len(inputs):
            yield from self._at_once(node, tables)
        else:
            yield from self._in_turns(node, operator, [_ordered(each, instants) for each in inputs])

    def _gather(self, node: Node, instants: Instants, n_sharing: int) -> Arriving:
        """All that a node puts out; in order of time if that is too much for memory."""
        if not self._comes_in_parts(node):
            return self._whole(node)
        schema = self.tree.schema_of(node)
        if self._is_in_order(node):
            return OrderedTuples(self.parts(node), schema)
        leaving_first = instants is Instants.LEAVING_FIRST
        runs = SortedRuns(self.arena, with_ties=False, n_sharing=n_sharing, leaving_first=leaving_first)
        for part in self.parts(node):
            runs.add(part)
        return runs.finish(schema)

    def _at_once(self, node: Node, inputs: list[pa.Table]) -> Iterator[pa.Table]:
        self.tree.tell_frontiers(node, self.pace)
        yield from self._process(node, inputs, self.pace.clock)

    def _in_turns(self, node: Node, operator: Operator, inputs: list[OrderedTuples]) -> Iterator[pa.Table]:
        most_bytes, is_open = SortedRuns(self.arena, with_ties=False).most_bytes, False
        for tables, until, is_part in in_turns(inputs, self.pace.clock, most_bytes, _instants_of(operator)):
            if not is_part or not isinstance(operator, PartTaker):
                yield from self._process(node, tables, until - is_part)
            else:
                if not is_open:
                    yield from self._process(node, self._nothing(node), until - 1)
                self._take(node, operator, tables, until)
            is_open = is_part

    def _take(self, node: Node, operator: PartTaker, inputs: Sequence[pa.Table], instant: int) -> None:
        started, work = perf_counter(), self.tree.work_of(node)
        operator.take(inputs, instant)
        work.rows_in += sum(each.num_rows for each in inputs)
        work.seconds += perf_counter() - started

    def _process(self, node: Node, inputs: list[pa.Table], clock: int) -> Iterator[pa.Table]:
        """What an operator puts out, in parts if it can; what it does is noted."""
        operator = self.tree.operator_of(node)
        if not isinstance(operator, PartGiver):
            yield self.tree.process(node, inputs, clock)
            return
        work = self.tree.work_of(node)
        work.rows_in += sum(batch.num_rows for batch in inputs)
        n_replans = operator.n_replans if isinstance(operator, WindowJoin) else 0
        started = perf_counter()
        for part in operator.parts(inputs, clock):
            work.rows_out += part.num_rows
            work.seconds += perf_counter() - started
            yield part
            started = perf_counter()
        work.seconds += perf_counter() - started
        work.n_replans += operator.n_replans - n_replans if isinstance(operator, WindowJoin) else 0


def _instants_of(operator: Operator) -> Instants:
    """Joins need nothing but to know what leaves at an instant before they see what enters: what leaves came before."""
    if isinstance(operator, WindowJoin | MultiwayJoin):
        return Instants.LEAVING_FIRST
    return Instants.ENTERING_FIRST if isinstance(operator, PartTaker | Expire | PartialAggregate) else Instants.WHOLE


def _ordered(tuples: Arriving, instants: Instants) -> OrderedTuples:
    if isinstance(tuples, OrderedTuples):
        return tuples
    in_order = sorted_by_time(tuples.combine_chunks(), False, instants is Instants.LEAVING_FIRST)
    return OrderedTuples([in_order], tuples.schema)
