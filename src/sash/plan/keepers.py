"""The operators of a plan that keep rows, with what has to be known of them to say how much that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.cost.join_cost import JoinLoad
from sash.cost.multiway_cost import PROBE
from sash.cost.multiway_spill import ManyInput, ManyLoad, estimate_multiway_spill
from sash.cost.spill_cost import MemoryShares, estimate_spill
from sash.cost.trace_spill import TraceLoad, trace_bytes
from sash.index.probe_order import probe_orders, probed_keys
from sash.operators.asof_join import AsofJoinSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.distinct import DistinctSpec
from sash.operators.expire import ExpireSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.group_top_k import serves
from sash.operators.membership import MembershipSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.node import Node, operator_nodes
from sash.operators.operator_kinds import InputSpec, RelationSpec
from sash.operators.operator_tree import OperatorTree
from sash.operators.over import OverSpec
from sash.operators.partial_aggregate import PartialAggregateSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.sessions import SessionsSpec
from sash.operators.top_k import TopKSpec
from sash.operators.unmet import UnmetSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.least_memory import empty_relations
from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.plan.row_width import row_bytes
from sash.plan.sharing.trunk_plan import TrunkPlan
from sash.plan.statistics import Statistics, StreamKnowledge

USUAL_STEP_S = 1.0
"""What steps are taken to bring where nobody knows."""
TRACES = (
    *(AsofJoinSpec, DistinctSpec, ExpireSpec, GroupBySpec, MembershipSpec, OverSpec, PartialAggregateSpec, TopKSpec),
    UnmetSpec,
)
"""The operators that keep rows until these expire."""
KEEPERS = (
    AsofJoinSpec,
    CountWindowSpec,
    DistinctSpec,
    ExpireSpec,
    GroupBySpec,
    MembershipSpec,
    MultiwayJoinSpec,
    OverSpec,
    PartialAggregateSpec,
    ReorderSpec,
    RunningGroupBySpec,
    SessionsSpec,
    TopKSpec,
    UnmetSpec,
    WindowJoinSpec,
)
"""The operators that keep rows."""


class TieredJoin(NamedTuple):
    """A join whose oldest rows go to segments, and what has to be known of it to say how many."""

    load: JoinLoad
    row_bytes: tuple[float, float]
    step_s: float


@dataclass(frozen=True, slots=True)
class Keeper:
    """An operator that keeps rows."""

    spec: object
    is_tiered: bool
    """Whether its oldest rows go to segments; what else is kept is in mapped files."""
    kept_bytes: float | None
    """If memory were not limited; None if nobody knows."""
    join: TieredJoin | ManyLoad | None = None
    traces: tuple[TraceLoad, ...] = ()
    """Of its inputs, if it keeps them as traces."""

    @property
    def has_keys(self) -> bool:
        """Whether it keeps something by key beside rows, which segments have no place for."""
        kinds = AsofJoinSpec | DistinctSpec | GroupBySpec | MembershipSpec | OverSpec | TopKSpec | UnmetSpec
        return isinstance(self.spec, kinds)


def keepers_of(plan: Plan, frames: Mapping[str, pa.Table]) -> Iterator[Keeper]:
    """All of a plan."""
    shared: set[int] = set()
    if plan.trunk is not None:
        shared = {id(site.node) for site in plan.trunk.sites.values()}
        yield _shared_join(plan.trunk)
    for query in plan.queries.values():
        below = {id(each) for node in query.root.walk() if id(node) in shared for each in node.walk()}
        widths = _Widths(query, empty_relations(plan))
        statistics = Statistics(
            [StreamKnowledge(slot.info, slot.ingest, frames.get(slot.source.name)) for slot in query.slots]
        )
        for node in query.root.walk():
            if isinstance(node.spec, KEEPERS) and id(node) not in below:
                yield _keeper_of(node, widths, statistics)


def _shared_join(trunk: TrunkPlan) -> Keeper:
    """With the largest windows, and what is known of the streams to the query that has the most of them."""
    loads = [
        _swapped(load) if site.is_swapped else load
        for site in trunk.sites.values()
        if site.spec.choice is not None and (load := site.spec.choice.load) is not None
    ]
    if not loads:
        return Keeper(trunk, True, None)
    left_us, right_us = trunk.windows_us
    load = replace(max(loads, key=lambda each: sum(each.rates)), windows_s=(left_us / 1e6, right_us / 1e6))
    left, right = (row_bytes(slot.schema) for slot in trunk.slots)
    join = TieredJoin(load, (left, right), USUAL_STEP_S)
    return _tiered(trunk, join)


def _keeper_of(node: Node, widths: _Widths, statistics: Statistics) -> Keeper:
    spec = node.spec
    if isinstance(spec, WindowJoinSpec) and not spec.has_identities:
        load = spec.choice.load if spec.choice is not None else None
        if spec.choice is None or load is None:
            return Keeper(spec, True, None)
        left, right = (widths.of(child) for child in node.inputs)
        return _tiered(spec, TieredJoin(load, (left, right), spec.choice.step_s or USUAL_STEP_S))
    if isinstance(spec, MultiwayJoinSpec) and spec.algorithm == PROBE:
        return _join_of_many(spec, node.inputs, widths, statistics)
    inputs = [child for child in node.inputs if not isinstance(child.spec, RelationSpec)]
    loads: list[TraceLoad] = []
    for number, child in enumerate(inputs):
        rate = statistics.of(child).rate
        n_rows = _n_rows(node, number, rate)
        if n_rows is None:
            return Keeper(spec, _is_traced(spec) or _is_timed(spec), None)
        loads.append(TraceLoad(rate or 0.0, n_rows, widths.of(child)))
    if _is_traced(spec):
        return Keeper(spec, True, trace_bytes(loads), traces=tuple(loads))
    return Keeper(spec, _is_timed(spec), trace_bytes(loads))


def _is_traced(spec: object) -> bool:
    """Whether its rows go to segments in order of when they expire."""
    return isinstance(spec, TRACES) and not (isinstance(spec, TopKSpec) and serves(spec))


def _is_timed(spec: object) -> bool:
    """Whether its rows go to segments in order of time."""
    return isinstance(spec, ReorderSpec) or (isinstance(spec, CountWindowSpec) and not spec.partition_by)


def _join_of_many(spec: MultiwayJoinSpec, inputs: Sequence[Node], widths: _Widths, statistics: Statistics) -> Keeper:
    rates = [statistics.of(child).rate for child in inputs]
    has_key = np.array([[bool(key[number]) for key in spec.keys] for number in range(len(inputs))], bool)
    known = [fanout for i, row in enumerate(spec.fanouts or ()) for j, fanout in enumerate(row) if i != j]
    if None in rates or None in known or not known:
        return Keeper(spec, True, None)
    loads = [
        ManyInput(rate or 0.0, span_us / 1e6, widths.of(child), int(own.sum()), len(probed))
        for rate, span_us, child, own, probed in zip(rates, spec.spans_us, inputs, has_key, probed_keys(has_key))
    ]
    step_s = max(statistics.of(child).step_s for child in inputs)
    load = ManyLoad(loads, spec.fanouts or (), probe_orders(has_key, spec.fanouts), step_s or USUAL_STEP_S)
    return Keeper(spec, True, estimate_multiway_spill(load, MemoryShares(inf, inf, 0)).kept_bytes, load)


def _tiered(spec: object, join: TieredJoin) -> Keeper:
    return Keeper(spec, True, _kept_bytes(join), join)


def _kept_bytes(join: TieredJoin) -> float:
    return estimate_spill(join.load, join.row_bytes, join.step_s, MemoryShares(inf, inf, 0)).kept_bytes


def _n_rows(node: Node, number: int, rate: float | None) -> float | None:
    """How many rows of an input are kept; None if nobody knows."""
    spec, life_us = node.spec, None
    if isinstance(spec, CountWindowSpec):
        return None if spec.partition_by else 2.0 * spec.n_rows
    if isinstance(spec, WindowJoinSpec | MembershipSpec | AsofJoinSpec):
        life_us = spec.windows_us[number]
    elif isinstance(spec, UnmetSpec):
        life_us = sum(spec.windows_us[: number + 1])
    elif isinstance(spec, MultiwayJoinSpec):
        life_us = spec.spans_us[number]
    elif isinstance(spec, DistinctSpec | ExpireSpec | GroupBySpec | OverSpec | PartialAggregateSpec | TopKSpec):
        life_us = spec.window_us
    elif isinstance(spec, ReorderSpec):
        life_us = int(USUAL_STEP_S * 1e6)
    return None if rate is None or life_us is None else rate * life_us / 1e6


class _Widths:
    """How many bytes the rows have that the nodes of a query put out."""

    def __init__(self, query: QueryPlan, relations: Mapping[str, pa.Table]):
        self._slots = {input.slot: input.schema for input in query.inputs}
        tree = OperatorTree(query.root, self._slots, query.load(relations))
        operators = dict(tree.operators())
        self._schemas = {id(node): operators[name].schema for name, node in operator_nodes(query.root)}

    def of(self, node: Node) -> float:
        if isinstance(node.spec, InputSpec):
            return row_bytes(self._slots[node.spec.slot])
        schema = self._schemas.get(id(node))
        return self.of(node.inputs[0]) if schema is None else row_bytes(schema)


def _swapped(load: JoinLoad) -> JoinLoad:
    return replace(load, rates=load.rates[::-1], windows_s=load.windows_s[::-1])
