"""The branches of queries that share a join, cut for Spark.

    q1   trunk ─ tap ─ Project ────────────────────────────── answer
    q2   trunk ─ tap ─ Project ─ Exchange ─ GroupBy ───────── answer
    q3   trunk ─ tap ─ Project ─ Exchange ─ GroupBy ───────── answer
         ────── layer 0 ──────              ─ layer 1 ─

A branch is cut at its exchanges like any plan. The fragments of all queries that are equally far from the trunk make
one *layer*, which is one stage: however many queries there are, there are as many stages as the longest of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sash.operators.pipeline import ExchangeSpec, InputSpec, Node
from sash.operators.reorder import ReorderSpec
from sash.plan.fragment import Fragment, Input, cut_fragments


@dataclass(frozen=True, slots=True)
class TapLeaf:
    """Where a tap comes into a query's branch."""

    slot: int
    tap: str
    input: Input


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A part of a query that runs by itself."""

    query: str
    fragment: Fragment
    taps: Mapping[int, str]
    """By slot, the name of the tap that feeds it; empty behind an exchange."""

    @property
    def name(self) -> str:
        return f"{self.query}:{self.fragment.number}"


@dataclass(frozen=True, slots=True)
class Layer:
    """What runs in one stage: the fragments of all queries that are equally far from the trunk."""

    number: int
    inputs: tuple[Input, ...]
    branches: tuple[BranchPlan, ...]

    @property
    def is_partitioned(self) -> bool:
        """Whether any of its tuples are spread over groups; else it has one."""
        return any(input.partition for input in self.inputs)

    def count_groups(self, n_groups: int) -> int:
        """How many groups it has where a partitioned fragment has `n_groups`."""
        return n_groups if self.is_partitioned else 1

    def spread_at(self, slot: int, n_groups: int) -> int:
        """Over how many groups the tuples are spread that come in at a slot."""
        reader = next((each.fragment for each in self.branches if each.fragment.input(slot)), self)
        return reader.count_groups(n_groups)

    def input(self, slot: int | None) -> Input | None:
        """What it reads at a slot, if it does."""
        return next((input for input in self.inputs if input.slot == slot), None)

    def branch(self, name: str) -> BranchPlan:
        return next(each for each in self.branches if each.name == name)

    def idle_in(self, group: int) -> set[str]:
        """The branches that do not run in a group: those that are not spread run in the first one."""
        return {each.name for each in self.branches if group and not each.fragment.is_partitioned}


def graft(
    root: Node, leaf_for: Callable[[Node], TapLeaf | None], numbers: Iterator[int], is_ordered: bool
) -> tuple[Node, list[TapLeaf]]:
    """A query's tree with leaves in place of its joins, and exchanges at the slots that come next in `numbers`."""
    leaves: list[TapLeaf] = []

    def grafted(node: Node) -> Node:
        leaf = leaf_for(node)
        if leaf is not None:
            leaves.append(leaf)
            fed = Node(InputSpec(leaf.slot))
            return Node(ReorderSpec(is_total=False), (fed,)) if is_ordered else fed
        spec = replace(node.spec, slot=next(numbers)) if isinstance(node.spec, ExchangeSpec) else node.spec
        return Node(spec, tuple(grafted(child) for child in node.inputs))

    return grafted(root), leaves


def cut_branches(
    query: str, root: Node, leaves: Sequence[TapLeaf], relations: Mapping[str, pa.Table], numbers: Iterator[int]
) -> Iterator[tuple[int, BranchPlan]]:
    """The fragments of a query whose tree was grafted, and how far each is from the trunk. Relations may be empty."""
    inputs = tuple(leaf.input for leaf in leaves)
    fragments = cut_fragments(root, inputs, relations)
    exchanged = {leaf.slot: leaf for leaf in leaves if _reads_exchange(leaf, fragments, leaves)}
    if exchanged:
        # A tap gives where the trunk is; a fragment that also waits for an exchange is further off.
        fragments = cut_fragments(_behind_exchange(root, exchanged, numbers), inputs, relations)
    depths: dict[int, int] = {}
    for fragment in fragments:
        taps = {leaf.slot: leaf.tap for leaf in leaves if fragment.input(leaf.slot)}
        fed = [depths[each.number] for each in fragments if each.feeds is not None and fragment.input(each.feeds)]
        depths[fragment.number] = 1 + max(fed) if fed else 0
        yield depths[fragment.number], BranchPlan(query, fragment, taps)


def stack_layers(trunk: tuple[Input, ...], parts: Sequence[tuple[int, BranchPlan]], n_layers: int) -> tuple[Layer, ...]:
    """The layers of branches with their distances, the trunk's first; so many at least."""
    layers: list[Layer] = []
    for number in range(max(n_layers, 1 + max(depth for depth, _ in parts))):
        branches = tuple(branch for depth, branch in parts if depth == number)
        inputs = tuple(input for each in branches for input in each.fragment.inputs) if number else trunk
        layers.append(Layer(number, inputs, branches))
    return tuple(layers)


def _reads_exchange(leaf: TapLeaf, fragments: Sequence[Fragment], leaves: Sequence[TapLeaf]) -> bool:
    (reader,) = (each for each in fragments if each.input(leaf.slot))
    return {input.slot for input in reader.inputs} > {each.slot for each in leaves if reader.input(each.slot)}


def _behind_exchange(node: Node, leaves: Mapping[int, TapLeaf], numbers: Iterator[int]) -> Node:
    """The tree with an exchange above each of the leaves."""
    if isinstance(node.spec, InputSpec) and node.spec.slot in leaves:
        return Node(ExchangeSpec(next(numbers), leaves[node.spec.slot].input.partition), (node,))
    return Node(node.spec, tuple(_behind_exchange(child, leaves, numbers) for child in node.inputs))
