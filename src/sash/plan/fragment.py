"""Plans cut at their exchanges: what runs by itself, in as many groups as its partitioning allows.

    q1   stream ─ Project ─────────────────────────────────── answer
    q2   stream ─ Project ─ Exchange ─ GroupBy ────────────── answer
    q3   stream ─ Project ─ Exchange ─ GroupBy ────────────── answer
         ─── fragment 0 ───            ─ fragment 1 ─

Between two exchanges is a *branch* of a query. The branches of all queries of a plan that are equally far from the
streams make one *fragment*, which is one stage of Spark: however many queries there are, there are as many stages as
the longest of them needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sash.operators.node import Node
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.operator_names import BranchName, TapName
from sash.operators.operator_tree import OperatorTree
from sash.operators.segmented_lookup import SegmentedRelation


@dataclass(frozen=True, slots=True)
class Input:
    """A leaf of a branch: a stream, a tap, or an exchange that an earlier branch feeds."""

    slot: int
    partition: tuple[str, ...]
    """Columns whose hash says which group a tuple belongs to; empty: all belong to one."""
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A part of a query that runs by itself: operators that share a partitioning, from its leaves up to an exchange or
    to the answer.
    """

    name: BranchName
    root: Node
    inputs: tuple[Input, ...]
    feeds: tuple[int, ...]
    """The slots, of later branches, that its tuples go to; the last one's are the answer."""
    taps: Mapping[int, TapName] = field(default_factory=dict[int, TapName])
    """By slot, the tap that feeds it."""

    @property
    def is_partitioned(self) -> bool:
        """Whether its tuples are spread over groups; else it has one."""
        return all(input.partition for input in self.inputs)

    def count_groups(self, n_groups: int) -> int:
        """How many groups it has where a partitioned branch has `n_groups`."""
        return n_groups if self.is_partitioned else 1

    def input(self, slot: int) -> Input | None:
        """What it reads at a slot, if it does."""
        return next((input for input in self.inputs if input.slot == slot), None)

    def tree(self, relations: Mapping[str, pa.Table | SegmentedRelation]) -> OperatorTree:
        """Fresh operators over relations by their alias."""
        return OperatorTree(self.root, {input.slot: input.schema for input in self.inputs}, relations)


@dataclass(frozen=True, slots=True)
class Fragment:
    """What runs in one stage: the branches that are equally far from the streams, and below the first ones the join
    that queries share, if they do.
    """

    number: int
    inputs: tuple[Input, ...]
    """What comes from outside; what taps give does not."""
    branches: tuple[BranchPlan, ...]

    @property
    def is_partitioned(self) -> bool:
        """Whether any of its tuples are spread over groups; else it has one."""
        return any(each.is_partitioned for each in self.branches)

    def count_groups(self, n_groups: int) -> int:
        """How many groups it has where a partitioned branch has `n_groups`."""
        return n_groups if self.is_partitioned else 1

    def spread_at(self, slot: int, n_groups: int) -> int:
        """Over how many groups the tuples are spread that come in at a slot."""
        return next((each for each in self.branches if each.input(slot)), self).count_groups(n_groups)

    def input(self, slot: int) -> Input | None:
        """What it reads at a slot, if it does."""
        return next((input for input in self.inputs if input.slot == slot), None)

    def branch(self, name: BranchName) -> BranchPlan:
        return next(each for each in self.branches if each.name == name)

    def idle_in(self, group: int) -> set[BranchName]:
        """The branches that do not run in a group: those that are not spread run in the first one."""
        return {each.name for each in self.branches if group and not each.is_partitioned}


def cut_branches(
    query: str, root: Node, inputs: Sequence[Input], relations: Mapping[str, pa.Table | SegmentedRelation]
) -> tuple[BranchPlan, ...]:
    """The branches of a query's tree, each after those that feed it. Of the relations, by alias, only the columns
    matter.
    """
    known = {input.slot: input for input in inputs}
    branches: list[BranchPlan] = []
    tops: dict[Node, list[ExchangeSpec]] = {}
    for node in root.walk():
        if isinstance(node.spec, ExchangeSpec):
            tops.setdefault(node.inputs[0], []).append(node.spec)
    for top, exchanges in tops.items():
        feeds = tuple(each.slot for each in exchanges)
        branch = _branch(BranchName(query, len(branches)), top, known, feeds)
        schema = branch.tree(relations).schema
        known |= {each.slot: Input(each.slot, each.partition, schema) for each in exchanges}
        branches.append(branch)
    return (*branches, _branch(BranchName(query, len(branches)), root, known, ()))


def stack_fragments(
    queries: Sequence[Sequence[BranchPlan]], trunk: Sequence[Input] | None, n_least: int
) -> tuple[Fragment, ...]:
    """The fragments of queries, each given by its branches; so many at least.

    The first fragment reads what the trunk reads, if there is one: its branches stand on taps then.
    """
    placed = [each for branches in queries for each in _with_depths(branches)]
    fragments: list[Fragment] = []
    for number in range(max(n_least, 1 + max(depth for depth, _ in placed))):
        branches = tuple(branch for depth, branch in placed if depth == number)
        read = tuple(input for each in branches for input in each.inputs if input.slot not in each.taps)
        fragments.append(Fragment(number, read if number or trunk is None else tuple(trunk), branches))
    return tuple(fragments)


def find_fragments(root: Node, exchange: Node) -> tuple[int, int]:
    """From which fragment to which the tuples of an exchange go, by where it stands in the plan of a query."""
    depths: dict[int, int] = {}
    top_of: dict[int, int] = {}
    """By exchange, how many are below the branch that reads it."""
    for top in [*(node.inputs[0] for node in root.walk() if isinstance(node.spec, ExchangeSpec)), root]:
        read = [node for node in _branch_nodes(top) if isinstance(node.spec, ExchangeSpec)]
        depths[id(top)] = 1 + max((depths[id(each.inputs[0])] for each in read), default=-1)
        top_of |= dict.fromkeys(map(id, read), depths[id(top)])
    return depths[id(exchange.inputs[0])], top_of[id(exchange)]


def _with_depths(branches: Sequence[BranchPlan]) -> Iterator[tuple[int, BranchPlan]]:
    """Each branch of a query with how many exchanges are below it."""
    depths: dict[BranchName, int] = {}
    for branch in branches:
        below = [depths[each.name] for each in branches if any(map(branch.input, each.feeds))]
        depths[branch.name] = 1 + max(below, default=-1)
        yield depths[branch.name], branch


def _branch(name: BranchName, top: Node, inputs: Mapping[int, Input], feeds: tuple[int, ...]) -> BranchPlan:
    root = _without_below(top)
    leaves = [node.spec.slot for node in root.walk() if isinstance(node.spec, InputSpec | ExchangeSpec)]
    return BranchPlan(name, root, tuple(inputs[slot] for slot in leaves), feeds)


def _without_below(top: Node) -> Node:
    """A branch by itself: the exchanges that it reads are its leaves."""
    cut: dict[int, Node] = {}
    for node in _branch_nodes(top):
        inputs = () if isinstance(node.spec, ExchangeSpec) else node.inputs
        cut[id(node)] = Node(node.spec, tuple(cut[id(each)] for each in inputs))
    return cut[id(top)]


def _branch_nodes(top: Node) -> Iterator[Node]:
    """The nodes of a branch, each once, inputs first; exchanges that it reads are its leaves."""
    seen: set[int] = set()

    def walk(node: Node) -> Iterator[Node]:
        seen.add(id(node))
        for each in () if isinstance(node.spec, ExchangeSpec) else node.inputs:
            if id(each) not in seen:
                yield from walk(each)
        yield node

    return walk(top)
