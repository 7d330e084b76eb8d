"""What a plan is made of: nodes, each with what to run, on the output of which others.

    Union ─┬─ Project ── WindowJoin ─┬─ Reorder ── Input 1
           │                         │
           └─ Project ── Membership ─┴─ Reorder ── Input 0       read twice, run once

A node may have several readers. Whoever goes through a plan meets it once, and whoever runs it gives all of them what
it puts out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec, Spec
from sash.operators.operator_names import OperatorName
from sash.operators.reorder import ReorderSpec


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """What to run, on the output of what. It is the same as itself alone: see `plan/one_of_each.py`."""

    spec: Spec
    inputs: tuple[Node, ...] = ()

    def walk(self) -> Iterator[Node]:
        """All nodes below and this one, each once, inputs first."""
        yield from self._walk(set())

    def _walk(self, seen: set[int]) -> Iterator[Node]:
        for node in self.inputs:
            if id(node) not in seen:
                yield from node._walk(seen)
        seen.add(id(self))
        yield self

    @property
    def streams(self) -> list[Node]:
        """Its inputs, but for relations."""
        return [each for each in self.inputs if not isinstance(each.spec, RelationSpec)]

    @property
    def is_leaf(self) -> bool:
        """Whether its tuples come from outside, at a slot."""
        return isinstance(self.spec, InputSpec | ExchangeSpec) and not self.inputs


def map_nodes(root: Node, change: Callable[[Node, tuple[Node, ...]], Node]) -> Node:
    """The plan with every node changed once, inputs first: of the node as it was, and its inputs as they are now."""
    changed: dict[int, Node] = {}
    for node in root.walk():
        changed[id(node)] = change(node, tuple(changed[id(each)] for each in node.inputs))
    return changed[id(root)]


def count_readers(root: Node) -> dict[int, int]:
    """How often each node is read by another one, by its `id`."""
    return Counter(id(each) for node in root.walk() for each in node.inputs)


def operator_nodes(root: Node) -> Iterator[tuple[OperatorName, Node]]:
    """The nodes that operators run, by a name that is stable for a plan: their number, inputs first, and their kind."""
    for number, node in enumerate(root.walk()):
        if not isinstance(node.spec, InputSpec | ExchangeSpec | RelationSpec):
            yield OperatorName(f"{number}-{type(node.spec).__name__.removesuffix('Spec')}"), node


def loose_slots(root: Node) -> set[int]:
    """The slots whose tuples no Reorder holds back."""
    loose: set[int] = set()
    seen: set[int] = set()

    def look(node: Node) -> None:
        if id(node) in seen or isinstance(node.spec, ReorderSpec):
            return
        seen.add(id(node))
        if isinstance(node.spec, InputSpec | ExchangeSpec) and not node.inputs:
            loose.add(node.spec.slot)
        for child in node.inputs:
            look(child)

    look(root)
    return loose


def in_order_of_time(root: Node) -> Node:
    """The plan with every input put in order of time, so that its output comes in order of time too."""
    ordered: dict[int, Node] = {}

    def put_in_order(node: Node) -> Node:
        if isinstance(node.spec, ReorderSpec):
            return node
        if id(node) not in ordered:
            if isinstance(node.spec, InputSpec):
                ordered[id(node)] = Node(ReorderSpec(is_total=False), (node,))
            else:
                ordered[id(node)] = Node(node.spec, tuple(map(put_in_order, node.inputs)))
        return ordered[id(node)]

    return put_in_order(root)
