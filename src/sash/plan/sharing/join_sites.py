"""The joins of queries that can be shared, and what they must have in common.

Two queries share if their plans have the same join in them: the same two streams, made equal by the same expressions,
and spread over groups in the same way. Windows, conditions on one stream, and further conditions on pairs are free:
they belong to the tap of each query. Aliases do not matter, nor which stream is named first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sash.cost.join_cost import HASH
from sash.operators.close import CloseSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.evaluator import quote
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node, map_nodes
from sash.operators.operator_kinds import InputSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.sessions import SessionsSpec
from sash.operators.slide import SlideSpec
from sash.operators.trunk import SIDES
from sash.operators.window_join import WindowJoinSpec
from sash.plan.identity import identify
from sash.plan.query_plan import SIGNED, QueryPlan, Slot
from sash.sql.quoted_names import rewrite_names
from sash.sql.window_kinds import TimeWindow

Pair = tuple[str, str]


class RunsAlone(Exception):  # noqa: N818
    """Why a query cannot share its join; a sentence about it."""


class JoinColumn(NamedTuple):
    """What a column of a shared join is, for people: a column of one of its streams, or computed of such."""

    side: int
    column: str
    sql: str | None = None
    """If it is computed: of columns of the shared join."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What queries must have in common to share a join; expressions are over columns `left.name` and `right.name`."""

    streams: Pair
    keys: tuple[Pair, ...]
    partition: tuple[tuple[str, ...], tuple[str, ...]]
    """What is hashed of each side to find the group of a tuple."""
    condition: str | None
    """Where no keys connect the streams, the condition that does."""
    columns: Mapping[str, JoinColumn] = field(repr=False, compare=False)
    """By name, what is kept of the streams for the query: at least what keys and condition are over."""

    @property
    def fingerprint(self) -> str:
        return identify(join=self)

    def __str__(self) -> str:
        left, right = self.streams
        on = " AND ".join(f"{one} = {other}" for one, other in self.keys) or self.condition or "TRUE"
        return f"{left} left ⋈ {right} right ON {on.replace(chr(34), '')}"


@dataclass(frozen=True, slots=True)
class Site:
    """A join of a query that could be shared, with the streams below it in the order of the signature."""

    node: Node
    slots: tuple[Slot, Slot]
    is_swapped: bool
    """Whether the query names the streams in the other order."""

    @property
    def spec(self) -> WindowJoinSpec:
        assert isinstance(self.node.spec, WindowJoinSpec)
        return self.node.spec

    @property
    def windows_us(self) -> tuple[int, int]:
        left, right = (slot.ingest.life_us for slot in self.slots)
        assert left is not None
        assert right is not None
        return left, right

    def names(self, side: int) -> dict[str, str]:
        """By name in the query, the shared join's names of the columns that the query has of a side."""
        slot = self.slots[side]
        names = {
            name: f"{SIDES[side]}.{name.removeprefix(slot.source.alias + '.')}"
            for name in slot.ingest.project.passed
            if name not in SIGNED
        }
        return names | {name: f"{SIDES[side]}={renamed(sql, names)}" for name, sql in slot.ingest.project.columns}

    def computed(self, side: int) -> dict[str, str]:
        """By name in the shared join, the SQL of the columns that are computed of a side's rows."""
        names, project = self.names(side), self.slots[side].ingest.project
        return {names[name]: renamed(sql, names) for name, sql in project.columns}

    def condition(self, side: int) -> str | None:
        """The condition on a side's rows, over the shared join's columns."""
        predicate = self.slots[side].ingest.project.predicate
        return None if predicate is None else renamed(predicate, self.names(side))

    def signature(self) -> Signature:
        names = self.names(0) | self.names(1)
        keys = [pair[::-1] if self.is_swapped else pair for pair in self.spec.keys]
        residual = self.spec.residual
        return Signature(
            (self.slots[0].source.name, self.slots[1].source.name),
            tuple(sorted((names[left], names[right]) for left, right in keys)),
            self._partition(names),
            None if keys or residual is None else renamed(residual, names),
            self._columns(0) | self._columns(1),
        )

    def _columns(self, side: int) -> dict[str, JoinColumn]:
        slot, computed = self.slots[side], self.computed(side)
        return {
            name: JoinColumn(side, found.removeprefix(f"{slot.source.alias}."), computed.get(name))
            for found, name in self.names(side).items()
        }

    def _partition(self, names: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is hashed, in an order that does not depend on how the query is written."""
        pairs = sorted(
            (names[left], names[right]) for left, right in zip(*(slot.partition for slot in self.slots), strict=True)
        )
        return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)


def signature_of(plan: QueryPlan) -> Signature:
    """What others must have in common with a plan to share its join; raises RunsAlone."""
    found = {site.signature() for site in sites_of(plan)}
    if len(found) > 1:
        raise RunsAlone("it has joins that differ from each other: " + "; ".join(sorted(map(str, found))))
    return found.pop()


def sites_of(plan: QueryPlan) -> list[Site]:
    """The joins of a plan, all of which can be shared; raises RunsAlone."""
    _refuse_hints(plan)
    if any(lookup.source.is_arrival for lookup in plan.lookups):
        raise RunsAlone("it reads a table as of arrival, and would begin with rows of which nobody knows what they met")
    nodes = [node for node in plan.root.walk() if isinstance(node.spec, WindowJoinSpec | MultiwayJoinSpec)]
    if not nodes:
        raise RunsAlone("it joins no two streams")
    sites = [_site(plan, node) for node in nodes]
    joined = {slot.number for site in sites for slot in site.slots}
    elsewhere = _read_outside(plan.root, [site.node for site in sites])
    for slot in plan.slots:
        if slot.number not in joined or slot.number in elsewhere:
            raise RunsAlone(f"it also reads `{slot.source.name}` by itself, outside of the join")
    return sites


def _read_outside(root: Node, joins: Sequence[Node]) -> set[int]:
    """The slots that are read by others than these joins."""
    without = map_nodes(root, lambda node, inputs: Node(node.spec, () if node in joins else inputs))
    return {node.spec.slot for node in without.walk() if isinstance(node.spec, InputSpec)}


def renamed(sql: str, names: Mapping[str, str]) -> str:
    """An expression with columns renamed, which are quoted in it; all else stays as it is written."""
    return rewrite_names(sql, lambda found: quote(names.get(found.name, found.name)))


def _refuse_hints(plan: QueryPlan) -> None:
    if plan.is_expiry_hinted:
        raise RunsAlone(f"its hint `{plan.expiry_schedule}` asks for a schedule of expirations of its own")
    for node in plan.root.walk():
        choice = node.spec.choice if isinstance(node.spec, WindowJoinSpec) else None
        if choice is not None and choice.is_hinted and choice.method.algorithm != HASH:
            raise RunsAlone(f"its hint `{choice.method.algorithm}` asks for a join algorithm of its own")


def _site(plan: QueryPlan, node: Node) -> Site:
    spec = node.spec
    if isinstance(spec, MultiwayJoinSpec):
        raise RunsAlone("it joins more than two streams at once, or has windows of pairs")
    assert isinstance(spec, WindowJoinSpec)
    slots = [_slot(plan, child) for child in node.inputs]
    if spec.has_identities or spec.expires_by_negatives:
        raise RunsAlone("its tuples carry identities by which they are taken back")
    is_swapped = slots[0].source.name > slots[1].source.name
    left, right = slots[::-1] if is_swapped else slots
    return Site(node, (left, right), is_swapped)


def _slot(plan: QueryPlan, node: Node) -> Slot:
    """The stream that stands directly below a join."""
    while isinstance(node.spec, ReorderSpec | CountWindowSpec | SessionsSpec | SlideSpec | CloseSpec):
        (node,) = node.inputs
    if not isinstance(node.spec, InputSpec):
        raise RunsAlone("below its join stands more than two streams: a relation, a subquery or another join")
    slot = plan.slots[node.spec.slot]
    window, name = slot.source.window, slot.source.name
    if not isinstance(window, TimeWindow):
        raise RunsAlone(f"the window of `{name}` is not one of time, so a larger one does not contain it")
    if window.slide_us:
        raise RunsAlone(f"the window of `{name}` slides in steps")
    return slot
