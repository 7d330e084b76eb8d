"""The join that queries share: its streams for all of them, its taps, and what it must keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sash.cost.join_cost import HASH, WNL, JoinMethod
from sash.errors import PlanError
from sash.operators.ingest import IngestSpec
from sash.operators.node import Node, map_nodes
from sash.operators.operator_kinds import ExchangeSpec, InputSpec
from sash.operators.operator_names import TapName
from sash.operators.operator_tree import OperatorTree
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.retention import Retention
from sash.operators.tap_spec import LWO, Tap, TappedJoinSpec
from sash.operators.tapped_join import TappedJoin
from sash.operators.trunk import SIDES, Trunk
from sash.operators.window_join import WindowJoinSpec
from sash.plan.fragment import BranchPlan, Input
from sash.plan.query_plan import SERVING_ORDERS, SIGNED, QueryPlan, Slot
from sash.plan.sharing.join_sites import Signature, Site, signature_of, sites_of
from sash.plan.sharing.selections import Selection, weigh_selection
from sash.sql.window_kinds import TimeWindow


@dataclass(frozen=True, slots=True)
class TapLeaf:
    """Where a tap comes into a query's branch."""

    tap: TapName
    input: Input


@dataclass(frozen=True)
class TrunkPlan:
    """The join of queries with the same signature, by name."""

    queries: Mapping[str, QueryPlan]
    serving_order: str = LWO

    @cached_property
    def signature(self) -> Signature:
        found = {signature_of(query) for query in self.queries.values()}
        assert len(found) == 1, "queries that share a plan share a join"
        return found.pop()

    @cached_property
    def sites(self) -> dict[TapName, Site]:
        """The joins that are shared, by the name of their tap."""
        return {
            TapName(name, number): site
            for name, query in sorted(self.queries.items())
            for number, site in enumerate(sites_of(query))
        }

    @property
    def is_hinted(self) -> bool:
        """Whether a query asks for the order in which they are served."""
        return any(query.serving_order for query in self.queries.values())

    @cached_property
    def windows_us(self) -> tuple[int, int]:
        """The largest window of each side."""
        left, right = (max(site.windows_us[side] for site in self.sites.values()) for side in (0, 1))
        return left, right

    @cached_property
    def conditions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The different conditions that queries put on each side."""
        left, right = (
            tuple(sorted({condition for site in self.sites.values() if (condition := site.condition(side))}))
            for side in (0, 1)
        )
        return left, right

    @cached_property
    def selections(self) -> tuple[Selection, Selection]:
        """What it would bring to leave out rows of each side below the join that no query wants."""
        left, right = (
            weigh_selection([site.condition(side) for site in self.sites.values()], self._distinct(side))
            for side in (0, 1)
        )
        return left, right

    def is_kept_below(self, side: int) -> bool:
        """Whether rows of a side that no query wants are left out below the join."""
        return self.selections[side].is_below

    def _distinct(self, side: int) -> dict[str, int]:
        """How many values columns have, where that was declared."""
        declared = next(iter(self.sites.values())).slots[side].info.statistics.distinct
        return {f"{SIDES[side]}.{name}": n_values for name, n_values in declared}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """How both streams come in, for all queries."""
        return tuple(self._slot(side) for side in (0, 1))

    def _slot(self, side: int) -> Slot:
        first = next(iter(self.sites.values())).slots[side]
        passed = {new for site in self.sites.values() for new in site.names(side).values()}
        computed = {name: sql for site in self.sites.values() for name, sql in site.computed(side).items()}
        columns = [f"{SIDES[side]}.{name}" for name in first.info.schema.names]
        passed = [name for name in columns if name in passed]
        below = " OR ".join(self.conditions[side]) if self.is_kept_below(side) else None
        project = ProjectSpec(tuple(sorted(computed.items())), (*SIGNED, *passed), below)
        source = replace(first.source, alias=SIDES[side], window=TimeWindow(self.windows_us[side]))
        ingest = IngestSpec(SIDES[side], project, self.windows_us[side])
        return Slot(side, source, ingest, self.signature.partition[side])

    @cached_property
    def spec(self) -> TappedJoinSpec:
        """The shared join. On Spark all answers of a batch leave together, so there the largest window is served."""
        method = JoinMethod(HASH) if self.signature.keys else JoinMethod(WNL, 1)
        join = WindowJoinSpec(self.signature.keys, None, self.windows_us, method=method)
        taps = [self._tap(name, site) for name, site in self.sites.items()]
        taps.sort(key=lambda tap: -tap.reach_us)
        return TappedJoinSpec(join, self.conditions, tuple(taps))

    def _tap(self, name: TapName, site: Site) -> Tap:
        left, right = (
            None if (condition := site.condition(side)) is None else self.conditions[side].index(condition)
            for side in (0, 1)
        )
        columns = tuple((new, old) for side in (0, 1) for old, new in site.names(side).items())
        return Tap(name, site.windows_us, (left, right), columns, site.spec.keys, site.spec.residual)

    def trunk(self, is_in_order: bool) -> Trunk:
        """Fresh operators; in order of time they serve queries by `serving_order`, else when all pairs are there."""
        leaves = [Node(InputSpec(slot.number)) for slot in self.slots]
        spec = self.spec
        if is_in_order:
            leaves = [Node(ReorderSpec(is_total=False), (leaf,)) for leaf in leaves]
            spec = replace(spec, serving_order=self.serving_order)
        left, right = (
            OperatorTree(leaf, {slot.number: slot.schema}, {}) for leaf, slot in zip(leaves, self.slots, strict=True)
        )
        conditions = tuple((self.sites[tap.name].condition(0), self.sites[tap.name].condition(1)) for tap in spec.taps)
        return Trunk((left, right), TappedJoin(spec, left.schema, right.schema), self._retention(), conditions)

    def _retention(self) -> tuple[Retention, Retention]:
        left, right = (
            Retention.fresh(
                self.windows_us[side],
                [name for name in slot.schema.names if name not in SIGNED],
                self.conditions[side] if self.is_kept_below(side) else None,
            )
            for side, slot in enumerate(self.slots)
        )
        return left, right

    def graft(self, name: str, numbers: Iterator[int], is_ordered: bool) -> tuple[Node, list[TapLeaf]]:
        """A query's tree with leaves in place of its joins, and exchanges, at slots that no other query uses."""
        taps = {id(site.node): tap for tap, site in self.sites.items() if tap.query == name}
        leaves: list[TapLeaf] = []

        def graft(node: Node, inputs: tuple[Node, ...]) -> Node:
            if id(node) in taps:
                leaves.append(self._leaf(taps[id(node)], next(numbers)))
                fed = Node(InputSpec(leaves[-1].input.slot))
                return Node(ReorderSpec(is_total=False), (fed,)) if is_ordered else fed
            spec = replace(node.spec, slot=next(numbers)) if isinstance(node.spec, ExchangeSpec) else node.spec
            return Node(spec, inputs)

        return map_nodes(self.queries[name].root, graft), leaves

    def cut(self, name: str, numbers: Iterator[int]) -> list[BranchPlan]:
        """The branches of a query, which stand on its taps, or on exchanges."""
        query = self.queries[name]
        root, leaves = self.graft(name, numbers, query.is_ordered)
        inputs = tuple(leaf.input for leaf in leaves)
        branches = query.cut(name, root, inputs)
        exchanged = {leaf.input.slot: leaf.input for leaf in leaves if _reads_exchange(leaf, branches, leaves)}
        if exchanged:
            # A tap gives where the trunk is; a branch that also waits for an exchange is further off.
            branches = query.cut(name, _behind_exchange(root, exchanged, numbers), inputs)
        return [
            replace(each, taps={leaf.input.slot: leaf.tap for leaf in leaves if each.input(leaf.input.slot)})
            for each in branches
        ]

    def _leaf(self, name: TapName, slot: int) -> TapLeaf:
        tap = next(tap for tap in self.spec.taps if tap.name == name)
        # As the query spreads it, which may be in another order: behind an exchange it meets what is spread likewise.
        partition = self.sites[name].slots[0].partition
        schemas = {field.name: field for each in self.slots for field in each.schema}
        fields = [schemas[old].with_name(new) for old, new in tap.columns]
        signed = [self.slots[0].schema.field(each) for each in SIGNED]
        return TapLeaf(name, Input(slot, partition, pa.schema([*fields, *signed])))


def plan_trunk(queries: Mapping[str, QueryPlan]) -> TrunkPlan:
    """The join of queries with one signature, which serves them in the order that they ask for."""
    asked = {query.serving_order: name for name, query in sorted(queries.items(), reverse=True) if query.serving_order}
    if len(asked) > 1:
        wishes = " and ".join(f"`{name}` asks for {SERVING_ORDERS[order]}" for order, name in asked.items() if order)
        raise PlanError(f"queries that share a join have one schedule, but {wishes}; leave out one of the hints")
    return TrunkPlan(queries, next(iter(asked), None) or LWO)


def _reads_exchange(leaf: TapLeaf, branches: Sequence[BranchPlan], leaves: Sequence[TapLeaf]) -> bool:
    (reader,) = (each for each in branches if each.input(leaf.input.slot))
    tapped = {each.input.slot for each in leaves if reader.input(each.input.slot)}
    return {input.slot for input in reader.inputs} > tapped


def _behind_exchange(root: Node, leaves: Mapping[int, Input], numbers: Iterator[int]) -> Node:
    """The plan with an exchange above each of the leaves."""

    def put_behind(node: Node, inputs: tuple[Node, ...]) -> Node:
        if isinstance(node.spec, InputSpec) and node.spec.slot in leaves:
            return Node(ExchangeSpec(next(numbers), leaves[node.spec.slot].partition), (node,))
        return Node(node.spec, inputs)

    return map_nodes(root, put_behind)
