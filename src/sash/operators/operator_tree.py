"""The operators of a plan, driven one step at a time by whoever holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter

import pyarrow as pa

from sash.operators.lookup_join import LookupJoin, LookupJoinSpec
from sash.operators.multiway_join import MultiwayJoin
from sash.operators.node import Node, count_readers, loose_slots, operator_nodes
from sash.operators.operator import Operator, hears_frontiers, keeps_frontiers
from sash.operators.operator_kinds import OPERATORS, ExchangeSpec, InputSpec, RelationSpec
from sash.operators.operator_names import OperatorName
from sash.operators.operator_set import OperatorSet
from sash.operators.pacing import Arriving, Pace, paced
from sash.operators.segmented_lookup import SegmentedRelation
from sash.operators.tuple_use import use_of
from sash.operators.window_join import WindowJoin
from sash.store.batch import NEVER
from sash.store.timed_turns import OrderedTuples


@dataclass(slots=True)
class Work:
    """What an operator has done in one step."""

    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    n_replans: int = 0
    """How often it changed its method because its load had changed."""


class Given:
    """What nodes with several readers have put out in a step, until the last of them has it."""

    def __init__(self, n_readers: Mapping[int, int]):
        self._n_waiting = dict(n_readers)
        self._outputs: dict[int, pa.Table] = {}

    def keep(self, node: Node, output: pa.Table) -> None:
        """For all readers but the one that has asked for it."""
        if self._n_waiting.get(id(node), 0) > 1:
            self._n_waiting[id(node)] -= 1
            self._outputs[id(node)] = output

    def take(self, node: Node) -> pa.Table | None:
        """For a further reader; None if nobody has asked for it before."""
        if id(node) not in self._outputs:
            return None
        self._n_waiting[id(node)] -= 1
        return self._outputs[id(node)] if self._n_waiting[id(node)] else self._outputs.pop(id(node))


class OperatorTree(OperatorSet):
    """Operators made from the nodes of a plan, one for each, with their state."""

    def __init__(
        self,
        root: Node,
        slots: Mapping[int, pa.Schema],
        relations: Mapping[str, pa.Table] | Mapping[str, pa.Table | SegmentedRelation],
    ):
        self._slots = slots
        self._operators: dict[int, Operator] = {}
        self._schemas: dict[int, pa.Schema] = {}
        """By node, of what it puts out."""
        self._work: dict[int, Work] = {}
        self.root = root
        for node in root.walk():
            self._schemas[id(node)] = self._build(node, relations)
        self.schema = self._schemas[id(root)]
        self.n_readers = count_readers(root)
        """By the `id` of a node, how many others read what it puts out."""
        self._loose = loose_slots(root)

    def step(self, arrivals: Mapping[int, pa.Table], clock: int, clocks: Mapping[int, int] | None = None) -> pa.Table:
        """What follows from these tuples, by slot, when every tuple up to and including `clock` has come.

        `clocks` says so of single slots, which may be ahead of `clock`; those that it leaves out are not.
        """
        (*parts,) = self.paced_steps(arrivals, clock, clocks)
        return pa.concat_tables(parts)

    def paced_steps(
        self, arrivals: Mapping[int, pa.Table], clock: int, clocks: Mapping[int, int] | None = None
    ) -> Iterator[pa.Table]:
        """`step` in parts: if the clock has moved so far that very many tuples expire, it moves bit by bit."""
        for pace in self.paced(arrivals, clock, clocks or {}):
            yield self.run(self.root, pace, Given(self.n_readers))

    def paced(self, arrivals: Mapping[int, Arriving], clock: int, clocks: Mapping[int, int]) -> Iterator[Pace]:
        """A step bit by bit."""
        operators = [each for _, each in self.operators()]
        return paced(operators, self._loose, Pace(arrivals, clock, clocks), use_of(operators))

    def replace_relations(self, relations: Mapping[str, pa.Table | SegmentedRelation]) -> None:
        """Looks up in other relations from now on, by label; they have the same columns."""
        for node in self.root.walk():
            operator = self._operators.get(id(node))
            if isinstance(operator, LookupJoin):
                relation = node.inputs[1].spec
                assert isinstance(relation, RelationSpec)
                if relation.alias in relations:
                    operator.replace(relations[relation.alias])

    def forget_work(self) -> None:
        """Counts work from now on; what a step does is what it has done since."""
        self._work = {}

    def process(self, node: Node, inputs: list[pa.Table], clock: int) -> pa.Table:
        """What one operator makes of its inputs, for whoever schedules operators itself; `step` runs all of them."""
        started = perf_counter()
        operator = self._operators[id(node)]
        n_replans = operator.n_replans if isinstance(operator, WindowJoin) else 0
        output = operator.process(inputs, clock)
        work = self._work.setdefault(id(node), Work())
        work.n_replans += operator.n_replans - n_replans if isinstance(operator, WindowJoin) else 0
        work.rows_in += sum(batch.num_rows for batch in inputs)
        work.rows_out += output.num_rows
        work.seconds += perf_counter() - started
        return output

    def operators(self) -> Iterator[tuple[OperatorName, Operator]]:
        """The operators, as `operator_nodes` names them."""
        for name, node in operator_nodes(self.root):
            yield name, self._operators[id(node)]

    def work(self) -> dict[OperatorName, Work]:
        """What each operator has done since `forget_work`, by its name."""
        return {name: self._work.get(id(node), Work()) for name, node in operator_nodes(self.root)}

    def run(self, node: Node, pace: Pace, given: Given) -> pa.Table:
        """What a node puts out in a step, at once; so must come in all that it reads. It runs once, for all readers."""
        output = given.take(node)
        if output is None:
            output = self._run(node, pace, given)
            given.keep(node, output)
        return output

    def _run(self, node: Node, pace: Pace, given: Given) -> pa.Table:
        if node.is_leaf:
            assert isinstance(node.spec, InputSpec | ExchangeSpec)
            rows = pace.arrivals.get(node.spec.slot)
            assert not isinstance(rows, OrderedTuples)
            return self._slots[node.spec.slot].empty_table() if rows is None else rows
        inputs = [self.run(child, pace, given) for child in node.streams]
        if isinstance(node.spec, ExchangeSpec):
            return inputs[0]
        self.tell_frontiers(node, pace)
        return self.process(node, inputs, pace.clock)

    def tell_frontiers(self, node: Node, pace: Pace) -> None:
        """To an operator that wants to know, once its inputs have been run, and right before it is."""
        operator = self._operators[id(node)]
        if hears_frontiers(operator):
            operator.hear([self._frontiers(each, pace) for each in node.streams])

    def operator_of(self, node: Node) -> Operator | None:
        """What runs a node; None for a leaf, and where a plan is cut."""
        return self._operators.get(id(node))

    def work_of(self, node: Node) -> Work:
        """What an operator has done since `forget_work`, to be added to."""
        return self._work.setdefault(id(node), Work())

    def schema_of(self, node: Node) -> pa.Schema:
        """Of what an operator puts out, of what comes in at a leaf, or through an exchange."""
        return self._schemas[id(node)]

    def _frontiers(self, node: Node, pace: Pace) -> tuple[int, ...]:
        """The least `_ts` that a node may put out in a later step, once it has run up to the clock in this one: of each
        stream that it joins many at a time, one if it does not.

        A Reorder is given all arrivals of a step before the clock moves bit by bit, so of its slot the whole step's
        clock counts.
        """
        if isinstance(node.spec, InputSpec):
            return (_just_after(max(pace.clock, pace.clocks.get(node.spec.slot, pace.clock))),)
        operator = self._operators.get(id(node))
        if isinstance(operator, MultiwayJoin):
            return tuple(each for child in node.inputs for each in self._frontiers(child, pace))
        if keeps_frontiers(operator):
            below = self._frontiers(node.inputs[0], pace)
            return tuple(operator.frontier(each) for each in below)
        is_passing = isinstance(node.spec, ExchangeSpec) and bool(node.inputs)
        return self._frontiers(node.inputs[0], pace) if is_passing else (_just_after(pace.clock),)

    def _build(self, node: Node, relations: Mapping[str, pa.Table | SegmentedRelation]) -> pa.Schema:
        """Makes the operator of a node, those of its inputs being there; what it puts out."""
        spec, schemas = node.spec, [self._schemas[id(child)] for child in node.inputs]
        if isinstance(spec, RelationSpec):
            return relations[spec.alias].schema
        if isinstance(spec, InputSpec | ExchangeSpec):
            return schemas[0] if schemas else self._slots[spec.slot]
        if isinstance(spec, LookupJoinSpec):
            relation = node.inputs[1].spec
            assert isinstance(relation, RelationSpec)
            operator = LookupJoin(spec, schemas[0], relations[relation.alias])
        else:
            operator = OPERATORS[type(spec)](spec, *schemas)
        self._operators[id(node)] = operator
        return operator.schema


def _just_after(clock: int) -> int:
    return min(clock, NEVER - 1) + 1
