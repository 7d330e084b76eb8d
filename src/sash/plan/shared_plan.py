"""The plan of queries that share a join: the trunk, and each query's branch.

A branch is the query's own plan with a leaf in place of the join. In one process it runs whole. On Spark it is cut at
its exchanges like any plan, and the fragments of all queries that are equally far from the trunk make one *layer*,
which is one stage: however many queries there are, there are as many stages as the longest of them needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import pyarrow as pa

from sash.errors import PlanError
from sash.operators.ingest import IngestSpec
from sash.operators.join_cost import HASH, WNL, JoinMethod
from sash.operators.keeping import Keeping
from sash.operators.pipeline import ExchangeSpec, InputSpec, Node, Pipeline
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.shared_pipeline import Branch, SharedPipeline, Trunk
from sash.operators.tapped_join import LWO, Tap, TappedJoin, TappedJoinSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.fragment import Fragment, Input, cut_fragments
from sash.plan.physical import SHARED_SCHEDULES, SIGNED, Plan, Slot
from sash.plan.selections import is_kept_below
from sash.plan.sharing import SIDES, Signature, Site, signature_of, sites_of
from sash.sql.query import StreamInfo, TimeWindow

N_STREAMS = 2


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


@dataclass(frozen=True)
class SharedPlan:
    """Queries with the same join, ready to run together. They are known by name."""

    plans: Mapping[str, Plan]
    schedule: str = LWO
    n_layers: int = 1
    """So many layers there are at least: the number of stages has to stay while queries come and go."""

    @cached_property
    def signature(self) -> Signature:
        found = {signature_of(plan) for plan in self.plans.values()}
        assert len(found) == 1, "queries that share a plan share a join"
        return found.pop()

    @cached_property
    def sites(self) -> dict[str, Site]:
        """The joins that are shared, by the name of their tap."""
        return {
            f"{name}#{number}": site
            for name, plan in sorted(self.plans.items())
            for number, site in enumerate(sites_of(plan))
        }

    @property
    def fingerprint(self) -> str:
        """Tells share groups apart whose state differs; it does not depend on which queries are in the group."""
        return self.signature.fingerprint

    @cached_property
    def edition(self) -> str:
        """Tells apart sets of queries of one group."""
        members = sorted((name, plan.fingerprint) for name, plan in self.plans.items())
        return hashlib.sha256(repr((self.fingerprint, members, self.schedule, self.spec)).encode()).hexdigest()

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

    def is_kept_below(self, side: int) -> bool:
        """Whether rows of a side that no query wants are left out below the join."""
        return is_kept_below([site.condition(side) for site in self.sites.values()])

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
        """The shared join. On Spark all answers of a batch leave together, so there the schedule is always LWO."""
        method = JoinMethod(HASH) if self.signature.keys else JoinMethod(WNL, 1)
        join = WindowJoinSpec(self.signature.keys, None, self.windows_us, method=method)
        taps = [self._tap(name, site) for name, site in self.sites.items()]
        taps.sort(key=lambda tap: -tap.reach_us)
        return TappedJoinSpec(join, self.conditions, tuple(taps))

    def _tap(self, name: str, site: Site) -> Tap:
        left, right = (
            None if (condition := site.condition(side)) is None else self.conditions[side].index(condition)
            for side in (0, 1)
        )
        columns = tuple((new, old) for side in (0, 1) for old, new in site.names(side).items())
        return Tap(name, site.windows_us, (left, right), columns, site.spec.keys, site.spec.residual)

    @property
    def streams(self) -> dict[str, StreamInfo]:
        """The streams that are read, by name."""
        return {slot.source.name: slot.info for slot in self.slots}

    def columns_read(self, stream: str) -> list[str]:
        """The columns of a stream that some query needs, in their declared order."""
        read = {name for plan in self.plans.values() for name in plan.columns_read(stream)}
        return [name for name in self.streams[stream].schema.names if name in read]

    @cached_property
    def fragments(self) -> tuple[Layer, ...]:
        """The layers, the trunk's first."""
        numbers = count(N_STREAMS)
        parts = [part for name in sorted(self.plans) for part in self._cut(name, numbers)]
        layers: list[Layer] = []
        for number in range(max(self.n_layers, 1 + max(depth for depth, _ in parts))):
            branches = tuple(branch for depth, branch in parts if depth == number)
            trunk = tuple(Input(slot.number, slot.partition, slot.schema) for slot in self.slots)
            inputs = trunk if number == 0 else tuple(input for each in branches for input in each.fragment.inputs)
            layers.append(Layer(number, inputs, branches))
        return tuple(layers)

    def reader(self, slot: int) -> tuple[Layer, Input]:
        """The layer that reads what comes in at a slot, and how it is spread there."""
        return next((layer, input) for layer in self.fragments if (input := layer.input(slot)))

    def pipeline(self, relations: Mapping[str, pa.Table]) -> SharedPipeline:
        """A fresh pipeline of all of it, with everything in order of time; relations by name, as they were declared."""
        leaves = [Node(ReorderSpec(is_total=False), (Node(InputSpec(slot.number)),)) for slot in self.slots]
        trunk = self._trunk(replace(self.spec, schedule=self.schedule), leaves)
        numbers, branches = count(N_STREAMS), {}
        for name, plan in sorted(self.plans.items()):
            root, taps = self._grafted(name, numbers, is_ordered=False)
            slots = {leaf.slot: leaf.input.schema for leaf in taps}
            pipeline = Pipeline(root, slots, plan.load(relations))
            branches[f"{name}:0"] = self._branch(name, pipeline, {leaf.slot: leaf.tap for leaf in taps})
        return SharedPipeline(trunk, branches)

    def fragment_pipeline(self, number: int, relations: Mapping[str, pa.Table]) -> SharedPipeline:
        """A fresh pipeline of one layer."""
        layer = self.fragments[number]
        leaves = [Node(InputSpec(slot.number)) for slot in self.slots]
        branches = {
            each.name: self._branch(
                each.query, each.fragment.pipeline(self.plans[each.query].load(relations)), each.taps
            )
            for each in layer.branches
        }
        return SharedPipeline(self._trunk(self.spec, leaves) if number == 0 else None, branches)

    def _trunk(self, spec: TappedJoinSpec, leaves: Sequence[Node]) -> Trunk:
        left, right = (
            Pipeline(leaf, {slot.number: slot.schema}, {}) for leaf, slot in zip(leaves, self.slots, strict=True)
        )
        conditions = tuple((self.sites[tap.name].condition(0), self.sites[tap.name].condition(1)) for tap in spec.taps)
        return Trunk((left, right), TappedJoin(spec, left.schema, right.schema), self._keeping(), conditions)

    def _keeping(self) -> tuple[Keeping, Keeping]:
        left, right = (
            Keeping.fresh(
                self.windows_us[side],
                [name for name in slot.schema.names if name not in SIGNED],
                self.conditions[side] if self.is_kept_below(side) else None,
            )
            for side, slot in enumerate(self.slots)
        )
        return left, right

    def _branch(self, query: str, pipeline: Pipeline, taps: Mapping[int, str]) -> Branch:
        numbers = {tap.name: number for number, tap in enumerate(self.spec.taps)}
        fed = {slot: numbers[tap] for slot, tap in taps.items()}
        return Branch(query, self.plans[query].fingerprint, pipeline, fed)

    def _grafted(self, name: str, numbers: Iterator[int], is_ordered: bool) -> tuple[Node, list[TapLeaf]]:
        """A query's tree with leaves in place of its joins, and exchanges at slots that no other query uses."""
        taps = {id(site.node): tap for tap, site in self.sites.items() if tap.rpartition("#")[0] == name}
        leaves: list[TapLeaf] = []

        def graft(node: Node) -> Node:
            if id(node) in taps:
                leaf = self._leaf(taps[id(node)], next(numbers))
                leaves.append(leaf)
                fed = Node(InputSpec(leaf.slot))
                return Node(ReorderSpec(is_total=False), (fed,)) if is_ordered else fed
            spec = replace(node.spec, slot=next(numbers)) if isinstance(node.spec, ExchangeSpec) else node.spec
            return Node(spec, tuple(graft(child) for child in node.inputs))

        return graft(self.plans[name].root), leaves

    def _leaf(self, tap_name: str, slot: int) -> TapLeaf:
        tap = next(tap for tap in self.spec.taps if tap.name == tap_name)
        named = dict(tap.columns)
        partition = tuple(named[name] for name in self.signature.partition[0])
        schemas = {field.name: field for each in self.slots for field in each.schema}
        fields = [schemas[old].with_name(new) for old, new in tap.columns]
        return TapLeaf(slot, tap_name, Input(slot, partition, pa.schema([*fields, *self._signed()])))

    def _signed(self) -> list[pa.Field]:
        return [self.slots[0].schema.field(name) for name in SIGNED]

    def _cut(self, name: str, numbers: Iterator[int]) -> Iterator[tuple[int, BranchPlan]]:
        """The fragments of a query, and how far each is from the trunk."""
        plan = self.plans[name]
        root, leaves = self._grafted(name, numbers, plan.is_ordered)
        empty = {each.label: each.load(each.source.info.schema.empty_table()) for each in plan.lookups}
        inputs = tuple(leaf.input for leaf in leaves)
        fragments = cut_fragments(root, inputs, empty)
        late = [leaf for leaf in leaves for each in fragments if each.input(leaf.slot) and len(each.inputs) > 1]
        exchanged = {leaf.slot for leaf in late if _reads_exchange(leaf, fragments, leaves)}
        if exchanged:
            # A tap gives where the trunk is; a fragment that also waits for an exchange is further off.
            root = _behind_exchange(root, {leaf.slot: leaf for leaf in leaves if leaf.slot in exchanged}, numbers)
            fragments = cut_fragments(root, inputs, empty)
        depths: dict[int, int] = {}
        for fragment in fragments:
            taps = {leaf.slot: leaf.tap for leaf in leaves if fragment.input(leaf.slot)}
            fed = [depths[each.number] for each in fragments if each.feeds is not None and fragment.input(each.feeds)]
            depths[fragment.number] = 1 + max(fed) if fed else 0
            yield depths[fragment.number], BranchPlan(name, fragment, taps)


def _reads_exchange(leaf: TapLeaf, fragments: Sequence[Fragment], leaves: Sequence[TapLeaf]) -> bool:
    (reader,) = (each for each in fragments if each.input(leaf.slot))
    return {input.slot for input in reader.inputs} > {each.slot for each in leaves if reader.input(each.slot)}


def _behind_exchange(node: Node, leaves: Mapping[int, TapLeaf], numbers: Iterator[int]) -> Node:
    """The tree with an exchange above each of the leaves."""
    if isinstance(node.spec, InputSpec) and node.spec.slot in leaves:
        return Node(ExchangeSpec(next(numbers), leaves[node.spec.slot].input.partition), (node,))
    return Node(node.spec, tuple(_behind_exchange(child, leaves, numbers) for child in node.inputs))


def shared_plan(plans: Mapping[str, Plan], chosen: str = LWO) -> SharedPlan:
    """The plan of queries with one signature, with the schedule that they ask for, or the chosen one."""
    asked = {plan.sharing: name for name, plan in sorted(plans.items(), reverse=True) if plan.sharing}
    if len(asked) > 1:
        wishes = " and ".join(f"`{name}` asks for {SHARED_SCHEDULES[schedule]}" for schedule, name in asked.items())
        raise PlanError(f"queries that share a join have one schedule, but {wishes}; leave out one of the hints")
    return SharedPlan(plans, next(iter(asked), chosen))
