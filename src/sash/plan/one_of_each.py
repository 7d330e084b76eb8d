"""A finished plan with one node of each kind: subtrees that are equal become one, which all who read it share.

    built                                     finished
    WindowJoin ─┬─ Project ── A               WindowJoin ─┬─ Project ─┬─ A
                └─ B                                      ├───────────│─ B
    Membership ─┬─ Project ── A               Membership ─┴───────────┘
                └─ B

So a row without a partner costs no second read of its side, and outer joins of outer joins make plans that grow with
their number. Nodes are equal if they do the same to equal inputs; streams, if the same rows come in, spread in the same
way; exchanges, if they spread in the same way what is equal.

What two branches read is there for each of them: on Spark a branch runs in groups of its own, and state is never in
two. But where exchanges spread the same rows, and projections alone stand between, they stand below the projections
instead, so that what is below is one branch, which feeds them all; those that spread by the same columns are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.node import Node, map_nodes
from sash.operators.operator_kinds import ExchangeSpec, InputSpec, RelationSpec, Spec
from sash.operators.project import ProjectSpec
from sash.plan.query_plan import Lookup, Slot


class Parts(NamedTuple):
    """A plan's nodes, and what their leaves stand for."""

    root: Node
    slots: tuple[Slot, ...]
    lookups: tuple[Lookup, ...]


def one_of_each(parts: Parts) -> Parts:
    """The plan with equal subtrees as one, slots and exchanges numbered without gaps, in the order in which they were.

    A plan in which no two are equal stays as it is.
    """
    root = _merged(_lifted(_merged(parts.root, parts)), parts)
    return _Branches(parts).finish(root)


def _merged(root: Node, parts: Parts) -> Node:
    """The plan with equal subtrees as one, over all branches."""
    found: dict[Hashable, Node] = {}
    slots = {slot.number: _content_of_slot(slot) for slot in parts.slots}
    lookups = {lookup.label: _content_of_lookup(lookup) for lookup in parts.lookups}

    def content_of(node: Node) -> Hashable:
        match node.spec:
            case InputSpec(slot=number):
                return slots[number]
            case ExchangeSpec(partition=partition):
                return "exchange", partition
            case LookupJoinSpec() as spec:
                # A relation is placed for the one join that looks up in it.
                return spec, *(lookups[each.spec.alias] for each in node.inputs if isinstance(each.spec, RelationSpec))
            case spec:
                return spec

    def merge(node: Node, inputs: tuple[Node, ...]) -> Node:
        read = [id(each) for each in inputs if not isinstance(each.spec, RelationSpec)]
        return found.setdefault((content_of(node), *read), Node(node.spec, inputs))

    return map_nodes(root, merge)


def _content_of_slot(slot: Slot) -> Hashable:
    source = slot.source
    return "stream", source.name, source.window, source.is_arrival, slot.ingest, slot.partition, slot.is_free


def _content_of_lookup(lookup: Lookup) -> Hashable:
    source = lookup.source
    return "relation", id(source.info), str(source.as_of), source.is_arrival, lookup.ingest, lookup.is_numbered


class _Origin(NamedTuple):
    """What an exchange spreads, below projections, and by which columns of that."""

    node: Node
    partition: tuple[str, ...]


def _lifted(root: Node) -> Node:
    """The plan with exchanges of the same rows right above what gives them, one for those that spread alike."""
    origins = {id(node): _origin(node) for node in root.walk() if isinstance(node.spec, ExchangeSpec)}
    n_spread = Counter(id(each.node) for each in origins.values())
    placed: dict[tuple[int, tuple[str, ...]], Node] = {}

    def lift(node: Node, inputs: tuple[Node, ...]) -> Node:
        if not isinstance(node.spec, ExchangeSpec) or n_spread[id(origins[id(node)].node)] == 1:
            return Node(node.spec, inputs)
        origin = origins[id(node)]
        key = id(origin.node), origin.partition
        chain: list[Spec] = []
        below, below_now = node.inputs[0], inputs[0]
        while below is not origin.node:
            chain.append(below.spec)
            below, below_now = below.inputs[0], below_now.inputs[0]
        top = placed.setdefault(key, Node(replace(node.spec, partition=origin.partition), (below_now,)))
        for spec in reversed(chain):
            top = Node(spec, (top,))
        return top

    return map_nodes(root, lift)


def _origin(exchange: Node) -> _Origin:
    assert isinstance(exchange.spec, ExchangeSpec)
    node, partition = exchange.inputs[0], exchange.spec.partition
    while isinstance(node.spec, ProjectSpec):
        columns = node.spec.names_below
        if not all(name in columns for name in partition):
            break
        node, partition = node.inputs[0], tuple(columns[name] for name in partition)
    return _Origin(node, partition)


@dataclass
class _Branches:
    """Gives every branch nodes, slots and relations of its own."""

    parts: Parts
    _slots: list[tuple[int, Node]] = field(default_factory=list[tuple[int, Node]])
    """The leaves in the making, each with the slot that it was built with."""
    _exchanges: list[tuple[int, Node]] = field(default_factory=list[tuple[int, Node]])
    _tops: dict[int, Node] = field(default_factory=dict[int, Node])
    """By what it was before, what the branches below exchanges put out."""
    _lookups: dict[str, str] = field(default_factory=dict[str, str])
    """By label, that of which it is the same."""

    def finish(self, root: Node) -> Parts:
        placed = self._placed(root, {}, {})
        slots = {id(node): number for number, node in enumerate(_in_order(self._slots))}
        exchanges = {id(node): len(slots) + number for number, node in enumerate(_in_order(self._exchanges))}
        found = {slot.number: slot for slot in self.parts.slots}
        read = [replace(found[_slot_of(node)], number=number) for number, node in enumerate(_in_order(self._slots))]

        def number(node: Node, inputs: tuple[Node, ...]) -> Node:
            if id(node) in slots:
                return Node(InputSpec(slots[id(node)]))
            if isinstance(node.spec, ExchangeSpec):
                return Node(replace(node.spec, slot=exchanges[id(node)]), inputs)
            return Node(node.spec, inputs)

        return Parts(map_nodes(placed, number), tuple(read), self._lookups_read())

    def _placed(self, node: Node, branch: dict[int, Node], labels: dict[str, str]) -> Node:
        """A node in a branch, by what it was before; `labels` are those of its relations."""
        if id(node) in branch:
            return branch[id(node)]
        spec = node.spec
        if isinstance(spec, ExchangeSpec):
            placed = Node(spec, (self._top(node.inputs[0]),))
            self._exchanges.append((spec.slot, placed))
        elif isinstance(spec, RelationSpec):
            placed = Node(RelationSpec(self._label(spec.alias, labels)))
        else:
            placed = Node(spec, tuple(self._placed(each, branch, labels) for each in node.inputs))
        if isinstance(spec, InputSpec):
            self._slots.append((spec.slot, placed))
        branch[id(node)] = placed
        return placed

    def _top(self, node: Node) -> Node:
        """What a branch below puts out, whoever reads it through whichever exchange."""
        if id(node) not in self._tops:
            self._tops[id(node)] = self._placed(node, {}, {})
        return self._tops[id(node)]

    def _label(self, label: str, labels: dict[str, str]) -> str:
        if label not in labels:
            known = {each.label for each in self.parts.lookups}
            own, number = label, len(known)
            while own in self._lookups:
                own, number = f"{label.partition('#')[0]}#{number}", number + 1
            self._lookups[own] = label
            labels[label] = own
        return labels[label]

    def _lookups_read(self) -> tuple[Lookup, ...]:
        """In the order in which they were."""
        copies: Mapping[str, list[str]] = {each.label: [] for each in self.parts.lookups}
        for own, label in self._lookups.items():
            copies[label].append(own)
        return tuple(replace(each, label=own) for each in self.parts.lookups for own in copies[each.label])


def _in_order(numbered: Sequence[tuple[int, Node]]) -> list[Node]:
    return [node for _, node in sorted(numbered, key=lambda each: each[0])]


def _slot_of(leaf: Node) -> int:
    assert isinstance(leaf.spec, InputSpec)
    return leaf.spec.slot
