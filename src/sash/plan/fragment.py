"""A plan cut at its exchanges: each fragment runs by itself, in as many groups as its partitioning allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from sash.operators.pipeline import ExchangeSpec, InputSpec, Node, Pipeline


@dataclass(frozen=True, slots=True)
class Input:
    """A leaf of a fragment: a stream, or an exchange that an earlier fragment feeds."""

    slot: int
    partition: tuple[str, ...]
    """Columns whose hash says which group a tuple belongs to; empty: all belong to one."""
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Fragment:
    """Operators that share a partitioning, from its leaves up to an exchange or to the answer."""

    number: int
    root: Node
    inputs: tuple[Input, ...]
    feeds: int | None
    """The slot, in a later fragment, that its tuples go to; the last fragment's are the answer."""

    @property
    def is_partitioned(self) -> bool:
        """Whether its tuples are spread over groups; else it has one."""
        return all(input.partition for input in self.inputs)

    def count_groups(self, n_groups: int) -> int:
        """How many groups it has where a partitioned fragment has `n_groups`."""
        return n_groups if self.is_partitioned else 1

    def spread_at(self, slot: int, n_groups: int) -> int:
        """Over how many groups the tuples are spread that come in at a slot."""
        return self.count_groups(n_groups)

    def input(self, slot: int | None) -> Input | None:
        """What it reads at a slot, if it does."""
        return next((input for input in self.inputs if input.slot == slot), None)

    def pipeline(self, relations: Mapping[str, pa.Table]) -> Pipeline:
        """A fresh pipeline over relations by their alias."""
        return Pipeline(self.root, {input.slot: input.schema for input in self.inputs}, relations)


def cut_fragments(root: Node, streams: tuple[Input, ...], relations: Mapping[str, pa.Table]) -> tuple[Fragment, ...]:
    """The fragments of a plan, each after those that feed it. Of the relations, by alias, only the columns matter."""
    exchanges = [node for node in root.walk() if isinstance(node.spec, ExchangeSpec)]
    inputs, fragments = {input.slot: input for input in streams}, []
    for node in exchanges:
        spec = node.spec
        assert isinstance(spec, ExchangeSpec)
        fragment = _fragment(len(fragments), node.inputs[0], inputs, spec.slot)
        inputs[spec.slot] = Input(spec.slot, spec.partition, fragment.pipeline(relations).schema)
        fragments.append(fragment)
    return (*fragments, _fragment(len(fragments), root, inputs, None))


def _fragment(number: int, top: Node, inputs: Mapping[int, Input], feeds: int | None) -> Fragment:
    root = _cut_below(top)
    leaves = [node.spec.slot for node in root.walk() if isinstance(node.spec, InputSpec | ExchangeSpec)]
    return Fragment(number, root, tuple(inputs[slot] for slot in leaves), feeds)


def _cut_below(node: Node) -> Node:
    """The tree without what is below its exchanges."""
    inputs = () if isinstance(node.spec, ExchangeSpec) else node.inputs
    return Node(node.spec, tuple(_cut_below(child) for child in inputs))
