"""The plan of queries that share a join: the trunk, and each query's branch.

A branch is the query's own plan with a leaf in place of the join. In one process it runs whole; on Spark it is cut, and
runs in layers (`plan.layers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import pyarrow as pa

from sash.cost.join_cost import HASH, WNL, JoinMethod
from sash.errors import PlanError
from sash.operators.ingest import IngestSpec
from sash.operators.keeping import Keeping
from sash.operators.pipeline import InputSpec, Node, Pipeline
from sash.operators.project import ProjectSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.shared_pipeline import Branch, SharedPipeline, Trunk
from sash.operators.tapped_join import LWO, Tap, TappedJoin, TappedJoinSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.fragment import Input
from sash.plan.physical import SHARED_SCHEDULES, SIGNED, Plan, Slot
from sash.plan.sharing.layers import BranchPlan, Layer, TapLeaf, cut_branches, graft, stack_layers
from sash.plan.sharing.selections import Selection, weigh_selection
from sash.plan.sharing.who_shares import SIDES, Signature, Site, share_groups, signature_of, sites_of
from sash.sql.bound_query import StreamInfo, TimeWindow

N_STREAMS = 2


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
    def is_hinted(self) -> bool:
        """Whether a query asks for the schedule."""
        return any(plan.sharing for plan in self.plans.values())

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
        trunk = tuple(Input(slot.number, slot.partition, slot.schema) for slot in self.slots)
        return stack_layers(trunk, parts, self.n_layers)

    def _cut(self, name: str, numbers: Iterator[int]) -> Iterator[tuple[int, BranchPlan]]:
        plan = self.plans[name]
        root, leaves = self._grafted(name, numbers, plan.is_ordered)
        empty = {each.label: each.load(each.source.info.schema.empty_table()) for each in plan.lookups}
        return cut_branches(name, root, leaves, empty, numbers)

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
        return graft(
            self.plans[name].root,
            lambda node: self._leaf(taps[id(node)], next(numbers)) if id(node) in taps else None,
            numbers,
            is_ordered,
        )

    def _leaf(self, tap_name: str, slot: int) -> TapLeaf:
        tap = next(tap for tap in self.spec.taps if tap.name == tap_name)
        # As the query spreads it, which may be in another order: behind an exchange it meets what is spread likewise.
        partition = self.sites[tap_name].slots[0].partition
        schemas = {field.name: field for each in self.slots for field in each.schema}
        fields = [schemas[old].with_name(new) for old, new in tap.columns]
        return TapLeaf(slot, tap_name, Input(slot, partition, pa.schema([*fields, *self._signed()])))

    def _signed(self) -> list[pa.Field]:
        return [self.slots[0].schema.field(name) for name in SIGNED]


def shared_plan(plans: Mapping[str, Plan], chosen: str = LWO) -> SharedPlan:
    """The plan of queries with one signature, with the schedule that they ask for, or the chosen one."""
    asked = {plan.sharing: name for name, plan in sorted(plans.items(), reverse=True) if plan.sharing}
    if len(asked) > 1:
        wishes = " and ".join(f"`{name}` asks for {SHARED_SCHEDULES[schedule]}" for schedule, name in asked.items())
        raise PlanError(f"queries that share a join have one schedule, but {wishes}; leave out one of the hints")
    return SharedPlan(plans, next(iter(asked), chosen))


def check_sharing(plans: Mapping[str, Plan]) -> None:
    """Raises PlanError if queries that share a join ask for different schedules."""
    for names in share_groups(plans)[0].values():
        shared_plan({name: plans[name] for name in names})
