"""FROM as operators: streams, relations and subqueries, joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sash.errors import PlanError
from sash.operators.choose_join import JoinChoice, MethodHint, choose_method
from sash.operators.evaluator import quote
from sash.operators.join_cost import HASH, WHJ
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.pipeline import Node, RelationSpec
from sash.operators.project import ProjectSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.costs import load_prices
from sash.plan.draft import Draft, conjunction
from sash.plan.flow import Flow, Spread
from sash.plan.logical import Body, Join, Query, Relational, Scan, scans_of
from sash.plan.partition import LEFT, RIGHT, Partitioning, choose_partitioning
from sash.plan.physical import SIGNED
from sash.store.batch import ID_PREFIX

BuildBody = Callable[[Body, bool], Flow]
"""Builds a subquery; the flag asks for identities."""


class FromClause:
    """Builds the tree of one SELECT's FROM."""

    def __init__(self, draft: Draft, query: Query, hint: MethodHint, build_body: BuildBody):
        self._draft = draft
        self._query = query
        self._hint = hint
        self._build_body = build_body
        # A stream that meets no other is spread as the operators above need it.
        is_joined = sum(scan.source.is_stream for scan in scans_of(query.input)) > 1
        self._partitioning = choose_partitioning(query.input) if is_joined else Partitioning({}, {})

    def build(self, with_ids: bool) -> Flow:
        return self._relational(self._query.input, with_ids)

    def _relational(self, node: Relational, with_ids: bool) -> Flow:
        return self._item(node, with_ids) if isinstance(node, Scan) else self._join(node, with_ids)

    def _item(self, scan: Scan, with_ids: bool) -> Flow:
        """A stream or subquery, spread as the joins above it need it."""
        flow = self._derived(scan, scan.body, with_ids) if scan.body else self._draft.stream(scan, with_ids)
        columns = self._partitioning.streams.get(scan.source.alias)
        return flow if columns is None else self._draft.distribute(flow, columns)

    def _derived(self, scan: Scan, body: Body, with_ids: bool) -> Flow:
        """A subquery; its columns get the names of the outer query, and so do its identities."""
        flow, alias = self._build_body(body, with_ids), scan.source.alias
        ids = [(f"{ID_PREFIX}{alias}.{name.removeprefix(ID_PREFIX)}", quote(name)) for name in flow.ids]
        columns = [(f"{alias}.{name}", quote(name)) for name in scan.columns]
        spread = flow.spread.renamed({name: [f"{alias}.{name}"] for name in scan.columns})
        flow = flow.then(
            ProjectSpec((*ids, *columns), SIGNED),
            columns=tuple(name for name, _ in columns),
            ids=tuple(name for name, _ in ids),
            spread=spread,
        )
        return self._draft.keep(self._draft.compute(flow, scan.computed), scan.conjuncts)

    def _join(self, join: Join, with_ids: bool) -> Flow:
        left = self._draft.compute(self._relational(join.left, with_ids), join.computed)
        if not join.right.source.is_stream:
            return self._lookup_join(join, left, with_ids)
        right = self._item(join.right, with_ids)
        left, right = self._exchange(left, join, LEFT), self._exchange(right, join, RIGHT)
        left, right = self._draft.agree(left, right)
        choice = self._choose_method(join, left, right)
        spec = WindowJoinSpec(
            keys=join.keys,
            residual=conjunction(join.conjuncts),
            windows_us=(left.life_us, right.life_us),
            is_told=left.is_told and right.is_told,
            takes_back=bool(left.ids or right.ids),
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
            is_told=spec.is_told,
            retracts=left.retracts or right.retracts,
            spread=_joined(left.spread, right.spread).with_equal(join.keys),
        )

    def _lookup_join(self, join: Join, left: Flow, with_ids: bool) -> Flow:
        lookup, columns, ids = self._draft.lookup(join.right, with_ids)
        spec = LookupJoinSpec(join.keys, conjunction(join.conjuncts))
        flow = replace(left, columns=left.columns + columns, ids=left.ids + ids)
        spread = left.spread if left.spread.slot is not None else left.spread.with_equal(join.keys)
        return replace(flow, node=Node(spec, (left.node, Node(RelationSpec(lookup.label)))), spread=spread)

    def _exchange(self, flow: Flow, join: Join, side: int) -> Flow:
        """An input of a join, behind an exchange if the plan is cut there."""
        partition = self._partitioning.exchanges.get((join.right.source.alias, side))
        return flow if partition is None else self._draft.distribute(flow, partition)

    def _choose_method(self, join: Join, left: Flow, right: Flow) -> JoinChoice:
        if self._hint.algorithm in (HASH, WHJ) and not join.keys:
            raise PlanError(
                f"the hint `{self._hint.algorithm}` needs an equality between `{join.right.source.alias}` and the "
                "streams before it; add one, or leave the hint out",
                self._query.bound.text,
                join.right.source.span,
            )
        if left.ids or right.ids:
            # Buckets that grow are the one index that finds tuples to be taken back; its load does not matter.
            return choose_method(None, bool(join.keys), self._hint, load_prices())
        load = self._draft.statistics.load((left.node, right.node), join.keys, (left.life_us, right.life_us))
        step_s = self._draft.statistics.step_s((left.node, right.node))
        return choose_method(load, bool(join.keys), self._hint, load_prices(), step_s)


def _joined(left: Spread, right: Spread) -> Spread:
    if left.classes is None or right.classes is None or len(left.classes) != len(right.classes):
        return Spread(None)
    return Spread(tuple(one | other for one, other in zip(left.classes, right.classes)))
