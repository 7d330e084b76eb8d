"""A tree of operators, driven one step at a time by whoever holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.operators.asof_join import AsofJoin, AsofJoinSpec
from sash.operators.close import Close, CloseSpec
from sash.operators.count_window import CountWindow, CountWindowSpec
from sash.operators.distinct import Distinct, DistinctSpec
from sash.operators.expire import Expire, ExpireSpec
from sash.operators.group_by import GroupBy, GroupBySpec
from sash.operators.group_top_k import make_top_k
from sash.operators.lookup_join import LookupJoin, LookupJoinSpec
from sash.operators.membership import Membership, MembershipSpec
from sash.operators.multiway_join import MultiwayJoin, MultiwayJoinSpec
from sash.operators.operator import Operator, Stateful, hears_frontiers, keeps_frontiers
from sash.operators.operator_names import OperatorName
from sash.operators.operator_set import OperatorSet
from sash.operators.over import Over, OverSpec
from sash.operators.partial_aggregate import PartialAggregate, PartialAggregateSpec
from sash.operators.project import Project, ProjectSpec
from sash.operators.reorder import Reorder, ReorderSpec
from sash.operators.running_group_by import RunningGroupBy, RunningGroupBySpec
from sash.operators.segmented_lookup import SegmentedRelation
from sash.operators.sessions import Sessions, SessionsSpec
from sash.operators.slide import Slide, SlideSpec
from sash.operators.top_k import TopKSpec
from sash.operators.union import Union, UnionSpec
from sash.operators.unmet import Unmet, UnmetSpec
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.store.batch import NEVER, TS, int64_column, sorted_by_time
from sash.store.timed_turns import OrderedTuples

Arriving: TypeAlias = pa.Table | OrderedTuples
"""What comes in at a slot: at once, or part by part if it is too much for memory."""
N_PACED = 1 << 16
"""So many tuples of an operator expire in one step, at most; more if they expire at the same instant."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A leaf: tuples that the runtime brings in at this slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class ExchangeSpec:
    """Where a plan is cut: tuples go to the group that the hash of `partition` says, or all to one if there is none.

    Within a whole plan it passes on what its input puts out. In the fragment above the cut it is a leaf, into which the
    runtime brings at `slot` what the fragment below has put out.
    """

    slot: int
    partition: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelationSpec:
    """A leaf: a relation, by its alias in the query."""

    alias: str


Spec: TypeAlias = (
    InputSpec
    | ExchangeSpec
    | RelationSpec
    | ProjectSpec
    | SlideSpec
    | CloseSpec
    | ReorderSpec
    | CountWindowSpec
    | SessionsSpec
    | WindowJoinSpec
    | MultiwayJoinSpec
    | LookupJoinSpec
    | DistinctSpec
    | GroupBySpec
    | RunningGroupBySpec
    | PartialAggregateSpec
    | MembershipSpec
    | AsofJoinSpec
    | UnmetSpec
    | UnionSpec
    | TopKSpec
    | OverSpec
    | ExpireSpec
)

OPERATORS: dict[type, Callable[..., Operator]] = {
    ProjectSpec: Project,
    SlideSpec: Slide,
    CloseSpec: Close,
    ReorderSpec: Reorder,
    CountWindowSpec: CountWindow,
    SessionsSpec: Sessions,
    WindowJoinSpec: WindowJoin,
    MultiwayJoinSpec: MultiwayJoin,
    DistinctSpec: Distinct,
    GroupBySpec: GroupBy,
    RunningGroupBySpec: RunningGroupBy,
    PartialAggregateSpec: PartialAggregate,
    MembershipSpec: Membership,
    AsofJoinSpec: AsofJoin,
    UnmetSpec: Unmet,
    UnionSpec: Union,
    TopKSpec: make_top_k,
    OverSpec: Over,
    ExpireSpec: Expire,
}
"""What runs a spec, made of it and of the columns of its inputs. A LookupJoin is made of a relation as well."""


@dataclass(frozen=True, slots=True)
class Node:
    """What to run, on the output of what."""

    spec: Spec
    inputs: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """All nodes below and this one, inputs first."""
        for node in self.inputs:
            yield from node.walk()
        yield self


def paces(operators: Sequence[Stateful], clock: int) -> Iterator[int]:
    """The clocks by which it moves bit by bit; what an operator says depends on the steps before."""
    while True:
        until = min((operator.pace(clock, N_PACED) for operator in operators), default=clock)
        yield until
        if until == clock:
            return


def operator_nodes(root: Node) -> Iterator[tuple[OperatorName, Node]]:
    """The nodes that operators run, by a name that is stable for a tree: their number, inputs first, and their kind."""
    for number, node in enumerate(root.walk()):
        if not isinstance(node.spec, InputSpec | ExchangeSpec | RelationSpec):
            yield OperatorName(f"{number}-{type(node.spec).__name__.removesuffix('Spec')}"), node


def _loose_slots(node: Node) -> Iterator[int]:
    """The slots whose tuples no Reorder holds back."""
    if isinstance(node.spec, InputSpec | ExchangeSpec) and not node.inputs:
        yield node.spec.slot
    elif not isinstance(node.spec, ReorderSpec):
        for child in node.inputs:
            yield from _loose_slots(child)


def in_order_of_time(node: Node) -> Node:
    """The tree with every input put in order of time, so that its output comes in order of time too."""
    if isinstance(node.spec, InputSpec):
        return Node(ReorderSpec(is_total=False), (node,))
    if isinstance(node.spec, ReorderSpec):
        return node
    return Node(node.spec, tuple(in_order_of_time(child) for child in node.inputs))


@dataclass(slots=True)
class Work:
    """What an operator has done in one step."""

    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    n_replans: int = 0
    """How often it changed its method because its load had changed."""


class OperatorTree(OperatorSet):
    """Operators made from a tree of nodes, with their state."""

    def __init__(
        self,
        root: Node,
        slots: Mapping[int, pa.Schema],
        relations: Mapping[str, pa.Table] | Mapping[str, pa.Table | SegmentedRelation],
    ):
        self._slots = slots
        self._relations = relations
        self._operators: dict[int, Operator] = {}
        self._work: dict[int, Work] = {}
        self.root = root
        self.schema = self._build(root)
        self._loose = set(_loose_slots(root))
        """The slots that nothing puts in order."""

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
        for due, until, reached in self.paced(arrivals, clock, clocks or {}):
            yield self.run(self.root, due, until, reached)

    def paced(
        self, arrivals: Mapping[int, Arriving], clock: int, clocks: Mapping[int, int]
    ) -> Iterator[tuple[Mapping[int, Arriving], int, Mapping[int, int]]]:
        """A step bit by bit. Tuples that nothing puts in order come when the clock has reached them: what expires
        before has to be gone then.
        """
        is_sorted = False
        for until in paces([operator for _, operator in self.operators()], clock):
            if until == clock:
                yield arrivals, clock, clocks
                return
            if not is_sorted:
                arrivals = {slot: _ordered(each) for slot, each in arrivals.items()}
                is_sorted = True
            due = {slot: self._due(slot, each, until) for slot, each in arrivals.items()}
            arrivals = {slot: _without(each, due[slot]) for slot, each in arrivals.items()}
            yield due, until, {slot: min(each, until) if slot in self._loose else each for slot, each in clocks.items()}

    def _due(self, slot: int, arrivals: Arriving, until: int) -> Arriving:
        """Of tuples in order of time, those that come in before the clock moves on."""
        if slot not in self._loose:
            return arrivals
        if isinstance(arrivals, OrderedTuples):
            return arrivals.up_to(until)
        return arrivals.slice(0, int(np.searchsorted(int64_column(arrivals, TS), until, "right")))

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

    def run(self, node: Node, arrivals: Mapping[int, Arriving], clock: int, clocks: Mapping[int, int]) -> pa.Table:
        """What a node puts out in a step, at once; so must come in all that it reads."""
        if isinstance(node.spec, InputSpec | ExchangeSpec) and not node.inputs:
            rows = arrivals.get(node.spec.slot)
            assert not isinstance(rows, OrderedTuples)
            return self._slots[node.spec.slot].empty_table() if rows is None else rows
        children = [child for child in node.inputs if not isinstance(child.spec, RelationSpec)]
        inputs = [self.run(child, arrivals, clock, clocks) for child in children]
        if isinstance(node.spec, ExchangeSpec):
            return inputs[0]
        self.tell_frontiers(node, children, clock, clocks)
        return self.process(node, inputs, clock)

    def tell_frontiers(self, node: Node, inputs: list[Node], clock: int, clocks: Mapping[int, int]) -> None:
        """To an operator that wants to know, once its inputs have been run, and right before it is."""
        operator = self._operators[id(node)]
        if hears_frontiers(operator):
            operator.hear([self._frontiers(each, clock, clocks) for each in inputs])

    def operator_of(self, node: Node) -> Operator | None:
        """What runs a node; None for a leaf, and where a plan is cut."""
        return self._operators.get(id(node))

    def work_of(self, node: Node) -> Work:
        """What an operator has done since `forget_work`, to be added to."""
        return self._work.setdefault(id(node), Work())

    def schema_of(self, node: Node) -> pa.Schema:
        """Of what an operator puts out, of what comes in at a leaf, or through an exchange."""
        operator = self._operators.get(id(node))
        if operator is not None:
            return operator.schema
        if node.inputs:
            return self.schema_of(node.inputs[0])
        assert isinstance(node.spec, InputSpec | ExchangeSpec)
        return self._slots[node.spec.slot]

    def _frontiers(self, node: Node, clock: int, clocks: Mapping[int, int]) -> tuple[int, ...]:
        """The least `_ts` that a node may put out in a later step, once it has run up to `clock` in this one: of each
        stream that it joins many at a time, one if it does not.

        A Reorder is given all arrivals of a step before the clock moves bit by bit, so of its slot the whole step's
        clock counts.
        """
        if isinstance(node.spec, InputSpec):
            return (_just_after(max(clock, clocks.get(node.spec.slot, clock))),)
        operator = self._operators.get(id(node))
        if isinstance(operator, MultiwayJoin):
            return tuple(each for child in node.inputs for each in self._frontiers(child, clock, clocks))
        below = self._frontiers(node.inputs[0], clock, clocks) if node.inputs else ()
        if keeps_frontiers(operator):
            return tuple(operator.frontier(each) for each in below)
        is_passing = isinstance(node.spec, ExchangeSpec) and bool(node.inputs)
        return below if is_passing else (_just_after(clock),)

    def _build(self, node: Node) -> pa.Schema:
        if isinstance(node.spec, InputSpec | ExchangeSpec) and not node.inputs:
            return self._slots[node.spec.slot]
        if isinstance(node.spec, RelationSpec):
            return self._relations[node.spec.alias].schema
        schemas = [self._build(child) for child in node.inputs]
        if isinstance(node.spec, ExchangeSpec):
            return schemas[0]
        operator = self._make(node, schemas)
        self._operators[id(node)] = operator
        return operator.schema

    def _make(self, node: Node, schemas: list[pa.Schema]) -> Operator:
        if isinstance(node.spec, LookupJoinSpec):
            relation = node.inputs[1].spec
            assert isinstance(relation, RelationSpec)
            return LookupJoin(node.spec, schemas[0], self._relations[relation.alias])
        return OPERATORS[type(node.spec)](node.spec, *schemas)


def _ordered(arriving: Arriving) -> Arriving:
    return sorted_by_time(arriving.combine_chunks(), False) if isinstance(arriving, pa.Table) else arriving


def _without(arriving: Arriving, due: Arriving) -> Arriving:
    """What is left. Of what comes part by part it is not there yet, unless that was all."""
    if isinstance(arriving, pa.Table):
        return arriving.slice(due.num_rows)
    return arriving.schema.empty_table() if due is arriving else arriving


def _just_after(clock: int) -> int:
    return min(clock, NEVER - 1) + 1
