"""FROM as operators: streams, relations and subqueries, joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sash.cost.choose_join import JoinChoice, choose_method
from sash.cost.choose_multiway import MultiwayChoice, choose_algorithm
from sash.cost.join_cost import EXACT_SETTINGS, HASH, WHJ
from sash.cost.lookup_cost import REPLICATED
from sash.cost.multiway_cost import PROBE
from sash.cost.prices import load_prices
from sash.errors import PlanError
from sash.operators.evaluator import quote
from sash.operators.lookup_join import OUTER, LookupJoinSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.multiway_shape import shape_of
from sash.operators.node import Node
from sash.operators.operator_kinds import RelationSpec
from sash.operators.project import ProjectSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.column_names import columns_of
from sash.plan.distribution import LEFT, RIGHT, Partitioning, choose_partitioning
from sash.plan.draft import Draft, conjunction
from sash.plan.flow import Distribution, Flow
from sash.plan.hints import Hints
from sash.plan.logical import Body, Join, Relational, Scan, Select, scans_of
from sash.plan.multiway import (
    TIME_PREFIX,
    JoinDraft,
    JoinInput,
    cut_points,
    has_pair_bounds,
    joins_in,
    joins_many,
    reach_of,
    read_by_lookup,
    time_conditions,
)
from sash.plan.period import split_period
from sash.plan.query_plan import SIGNED
from sash.plan.rules.prune_columns import read_on_top
from sash.sql.catalog import UNNESTED
from sash.sql.join_trees import INNER
from sash.store.batch import ID_PREFIX, TS

BuildBody = Callable[[Body, bool], Flow]
"""Builds a subquery; the flag asks for identities."""


class FromClause:
    """Builds the tree of one SELECT's FROM."""

    def __init__(self, draft: Draft, query: Select, hints: Hints, build_body: BuildBody):
        self._draft = draft
        self._query = query
        self._hint = hints.method
        self._multiway = hints.multiway
        self._lookup = hints.lookup
        self._joins_many = joins_many(query, hints)
        self._carries_times = False
        self._build_body = build_body
        # A stream that meets no other is spread as the operators above need it.
        is_joined = sum(scan.source.is_stream for scan in scans_of(query.input)) > 1
        self._partitioning = choose_partitioning(query.input) if is_joined else Partitioning({}, {})
        if self._multiway and self._joins_many and self._partitioning.exchanges:
            # An algorithm that is asked for gets all streams, if need be in one group.
            streams = [scan.source.alias for scan in scans_of(query.input) if scan.source.is_stream]
            self._partitioning = Partitioning(dict.fromkeys(streams, ()), {})

    def build(self, with_ids: bool) -> Flow:
        flow = self._many(with_ids) if self._joins_many else self._relational(self._query.input, with_ids)
        return self._draft.keep(flow, self._query.conjuncts)

    def _many(self, with_ids: bool) -> Flow:
        """All streams, many at a time; relations where they can first be looked up."""
        first, joins = joins_in(self._query.input)
        cut_at = cut_points(first, joins, self._partitioning.exchanges)
        self._carries_times = bool(cut_at) and has_pair_bounds(self._query)
        joining = JoinDraft([self._input(first, with_ids)])
        postponed: list[Join] = []
        for number, join in enumerate(joins):
            if number in cut_at:
                joining = self._cut(joining)
            if join.kind != INNER:
                postponed.append(join)
                continue
            if not join.right.source.is_stream:
                input = next((input for input in joining.inputs if number in cut_at or _may_look_up(input, join)), None)
                if input is None:
                    postponed.append(join)
                else:
                    input.flow = self._lookup_join(join, self._draft.compute(input.flow, join.computed), with_ids)
                continue
            if number in cut_at:
                flow = self._draft.compute(joining.inputs[0].flow, join.computed)
                joining.inputs[0].flow = self._exchange(flow, join, LEFT)
            joining.add(self._input(join.right, with_ids), join)
        flow = self._joined_many(joining, self._read_above(postponed))
        for join in postponed:
            flow = self._lookup_join(join, self._draft.compute(flow, join.computed), with_ids)
        return flow

    def _input(self, scan: Scan, with_ids: bool) -> JoinInput:
        flow, alias = self._item(scan, with_ids), scan.source.alias
        if self._carries_times:
            items = [*((name, quote(name)) for name in flow.columns), (TIME_PREFIX + alias, quote(TS))]
            flow = self._draft.project(flow, items)
        return JoinInput(flow, (alias,))

    def _cut(self, joining: JoinDraft) -> JoinDraft:
        """What is joined so far, as the first input of what follows."""
        if len(joining.inputs) == 1:
            return joining
        streams = tuple(alias for input in joining.inputs for alias in input.streams)
        return JoinDraft([JoinInput(self._joined_many(joining), streams)], known=[*joining.known, *joining.keys])

    def _read_above(self, postponed: Sequence[Join]) -> set[str]:
        """The columns that are read of what all streams make together."""
        read = {name for expr in read_on_top(self._query) for name in columns_of(expr)}
        for join in postponed:
            exprs = [*join.conjuncts, *(expr for _, expr in join.computed)]
            read |= {left for left, _ in join.keys}.union(*map(columns_of, exprs))
        return read

    def _joined_many(self, joining: JoinDraft, read: set[str] | None = None) -> Flow:
        """The inputs in one operator, with the columns that are read of them, all if None; two without windows of pairs
        in the join that is made for two.
        """
        if len(joining.inputs) == 1:
            return joining.inputs[0].flow
        reach, has_bounds = reach_of(self._query), has_pair_bounds(self._query)
        flows = [input.flow for input in joining.inputs]
        if len(flows) == 2 and not has_bounds and not self._multiway:
            return self._join_two(joining.joins[0], flows[0], flows[1])
        if self._carries_times:
            joining.conditions += time_conditions(joining, reach)
        keys = joining.key_columns()
        columns = tuple(name for flow in flows for name in flow.columns if read is None or name in read)
        reach_us = tuple(
            tuple(0 if one is other else reach.between(one.streams, other.streams) for other in joining.inputs)
            for one in joining.inputs
        )
        spec = MultiwayJoinSpec(
            names=tuple("+".join(input.streams) for input in joining.inputs),
            keys=keys,
            reach_us=reach_us,
            streams=tuple(input.streams for input in joining.inputs) if joining.has_joins else None,
            stream_reach_us=joining.stream_reach_us(reach) if joining.has_joins else None,
            conditions=tuple(joining.conditions_read()),
            columns=columns,
            checks_lives=not has_bounds and joining.has_joins,
            algorithm=self._multiway.algorithm if self._multiway else PROBE,
            inner=self._multiway.inner if self._multiway else None,
            choice=self._choose_algorithm(joining, keys, reach_us),
            fanouts=self._draft.statistics.fanouts([flow.node for flow in flows], keys, [one.life_us for one in flows]),
        )
        distribution = flows[0].distribution
        for flow in flows[1:]:
            distribution = _joined(distribution, flow.distribution)
        return flows[0].then(
            spec,
            *flows[1:],
            columns=columns,
            ids=tuple(name for flow in flows for name in flow.ids),
            life_us=min((flow.life_us for flow in flows if flow.life_us is not None), default=None),
            distribution=distribution.with_equal(joining.keys).renamed({name: [name] for name in columns}),
        )

    def _choose_algorithm(
        self, joining: JoinDraft, keys: Sequence[Sequence[tuple[str, ...]]], reach_us: Sequence[Sequence[int]]
    ) -> MultiwayChoice | None:
        """None where the join always probes: an input that is a join brings tuples of several times at once."""
        if joining.has_joins:
            return None
        shape = shape_of(keys, reach_us, [each.inputs for each in joining.conditions_read()])
        load = self._draft.statistics.multiway_load([input.flow.node for input in joining.inputs], keys, shape)
        return choose_algorithm(load, load_prices(), self._multiway.algorithm if self._multiway else None)

    def _relational(self, node: Relational, with_ids: bool) -> Flow:
        return self._item(node, with_ids) if isinstance(node, Scan) else self._join(node, with_ids)

    def _item(self, scan: Scan, with_ids: bool) -> Flow:
        """A stream or subquery, spread as the joins above it need it."""
        flow = (
            self._derived(scan, scan.body, with_ids)
            if scan.body
            else self._draft.stream(scan, with_ids, tells=not self._joins_many)
        )
        columns = self._partitioning.streams.get(scan.source.alias)
        return flow if columns is None else self._draft.distribute(flow, columns)

    def _derived(self, scan: Scan, body: Body, with_ids: bool) -> Flow:
        """A subquery; its columns get the names of the outer query, and so do its identities."""
        flow, alias = self._build_body(body, with_ids), scan.source.alias
        ids = [(f"{ID_PREFIX}{alias}.{name.removeprefix(ID_PREFIX)}", quote(name)) for name in flow.ids]
        columns = [(f"{alias}.{name}", quote(name)) for name in scan.columns]
        distribution = flow.distribution.renamed({name: [f"{alias}.{name}"] for name in scan.columns})
        flow = flow.then(
            ProjectSpec((*ids, *columns), SIGNED),
            columns=tuple(name for name, _ in columns),
            ids=tuple(name for name, _ in ids),
            distribution=distribution,
        )
        return self._draft.keep(self._draft.compute(flow, scan.computed), scan.conjuncts)

    def _join(self, join: Join, with_ids: bool) -> Flow:
        left = self._draft.compute(self._relational(join.left, with_ids), join.computed)
        if not join.right.source.is_stream:
            return self._lookup_join(join, left, with_ids)
        right = self._item(join.right, with_ids)
        return self._join_two(join, self._exchange(left, join, LEFT), self._exchange(right, join, RIGHT))

    def _join_two(self, join: Join, left: Flow, right: Flow) -> Flow:
        left, right = self._draft.agree(left, right)
        choice = self._choose_method(join, left, right)
        spec = WindowJoinSpec(
            keys=join.keys,
            residual=conjunction(join.conjuncts),
            windows_us=(left.life_us, right.life_us),
            expires_by_negatives=left.expires_by_negatives and right.expires_by_negatives,
            has_identities=bool(left.ids or right.ids),
            method=choice.method,
            choice=choice,
        )
        lives = [life for life in (left.life_us, right.life_us) if life is not None]
        return left.then(
            spec,
            right,
            columns=left.columns + right.columns,
            ids=left.ids + right.ids,
            life_us=min(lives, default=None),
            expires_by_negatives=spec.expires_by_negatives,
            retracts=left.retracts or right.retracts,
            distribution=_joined(left.distribution, right.distribution).with_equal(join.keys),
        )

    def _lookup_join(self, join: Join, left: Flow, with_ids: bool) -> Flow:
        lookup, columns, ids = self._draft.lookup(join.right, with_ids)
        period, conjuncts = split_period(join, left.columns)
        spec = LookupJoinSpec(
            join.keys,
            conjunction(conjuncts),
            self._lookup_method(join),
            period,
            join.kind,
            is_hinted=self._lookup is not None,
            step_rows=self._draft.statistics.step_rows(left.node),
        )
        shows = join.kind in (INNER, OUTER)
        flow = replace(left, columns=left.columns + columns, ids=left.ids + ids) if shows else left
        is_equal = join.kind == INNER and left.distribution.slot is None
        distribution = left.distribution.with_equal(join.keys) if is_equal else left.distribution
        return replace(flow, node=Node(spec, (left.node, Node(RelationSpec(lookup.label)))), distribution=distribution)

    def _lookup_method(self, join: Join) -> str:
        """That of the hint; a relation without a key is looked through, wherever it is."""
        if join.right.source.alias.startswith(UNNESTED) and not join.keys:
            return REPLICATED  # it has one row, and nobody has named it to choose anything for it
        if self._lookup not in (None, REPLICATED) and not join.keys:
            raise PlanError(
                f"the hint `{self._lookup}` needs an equality between `{join.right.source.alias}` and the streams "
                "before it; add one, or leave the hint out",
                self._query.bound.text,
                join.right.source.span,
            )
        return self._lookup or REPLICATED

    def _exchange(self, flow: Flow, join: Join, side: int) -> Flow:
        """An input of a join, behind an exchange if the plan is cut there."""
        partition = self._partitioning.exchanges.get((join.right.source.alias, side))
        return flow if partition is None else self._draft.distribute(flow, partition)

    def _choose_method(self, join: Join, left: Flow, right: Flow) -> JoinChoice:
        if self._hint.algorithm in (HASH, WHJ, *EXACT_SETTINGS) and not join.keys:
            raise PlanError(
                f"the hint `{self._hint.algorithm}` needs an equality between `{join.right.source.title}` and the "
                "streams before it; add one, or leave the hint out",
                self._query.bound.text,
                join.right.source.span,
            )
        if self._hint.algorithm in EXACT_SETTINGS and (left.ids or right.ids):
            raise PlanError(
                f"the hint `{self._hint.algorithm}` is for tuples that leave by the clock alone, but where "
                f"`{join.right.source.title}` is joined some may be taken back, and would have to be looked for on "
                "disk; leave the hint out",
                self._query.bound.text,
                join.right.source.span,
            )
        if self._hint.algorithm in EXACT_SETTINGS and None in (left.life_us, right.life_us):
            raise PlanError(
                f"the hint `{self._hint.algorithm}` is for windows of time, but tuples that are joined with "
                f"`{join.right.source.title}` may never leave; leave the hint out",
                self._query.bound.text,
                join.right.source.span,
            )
        if left.ids or right.ids:
            # Buckets that grow are the one index that finds tuples to be taken back; its load does not matter.
            return choose_method(None, bool(join.keys), self._hint, load_prices())
        load = self._draft.statistics.load((left.node, right.node), join.keys, (left.life_us, right.life_us))
        step_s = self._draft.statistics.step_s((left.node, right.node))
        return choose_method(load, bool(join.keys), self._hint, load_prices(), step_s)


def _may_look_up(input: JoinInput, join: Join) -> bool:
    """Whether an input has all that the join with a relation reads beside the relation."""
    read = read_by_lookup(join)
    return bool(read) and read <= set(input.flow.columns)


def _joined(left: Distribution, right: Distribution) -> Distribution:
    if left.classes is None or right.classes is None or len(left.classes) != len(right.classes):
        return Distribution(None)
    return Distribution(tuple(one | other for one, other in zip(left.classes, right.classes)))
