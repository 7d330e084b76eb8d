"""Chooses the operators for a query that the rules have been through."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.operators.distinct import DistinctSpec
from sash.operators.evaluator import quote
from sash.operators.membership import MembershipSpec
from sash.operators.union import UnionSpec
from sash.plan.aggregation import GroupByClause
from sash.plan.asof import join_asof
from sash.plan.body_facts import emits_once, graphs_of, is_final, retracts, time_type
from sash.plan.column_names import EXPIRY_ID, ROW_ID
from sash.plan.draft import Draft
from sash.plan.flow import ONE_GROUP, SCATTERED, Flow
from sash.plan.hints import read_hints
from sash.plan.logical import Body, Join, Scan, Select, SetOperation, bodies_of, scans_of
from sash.plan.multiway import joins_many
from sash.plan.numbering import add_over
from sash.plan.one_of_each import Parts, one_of_each
from sash.plan.query_plan import QueryPlan
from sash.plan.ranking import add_ranking
from sash.plan.relational import FromClause
from sash.plan.row_tests import RowTests, add_membership
from sash.sql.bound_query import Block, Output, replaced_by
from sash.sql.expressions import to_column
from sash.sql.window_kinds import TimeWindow
from sash.store.batch import OP


def physical_plan(body: Body, frames: Mapping[str, pa.Table]) -> QueryPlan:
    """The plan of a query; of the streams in `frames`, by name, the content may be looked at to choose it."""
    return _Builder(body, frames).plan()


class _Builder:
    """Builds the tree of a statement, subqueries before what is above them."""

    def __init__(self, body: Body, frames: Mapping[str, pa.Table]):
        self._body = body
        self._hints = read_hints(body.bound)
        self._schedule = self._hints.expiry_schedule or "tpa"
        if emits_once(body) and self._schedule != "tpa":
            reason = f"`EMIT FINAL` leaves no choice of schedule; leave the hint `{self._schedule}` out"
            raise PlanError(reason, body.bound.text, body.bound.spans.get("hint"))
        self._built: dict[tuple[int, bool], Flow] = {}
        """What parts of the query have become, by their `id` and whether they have identities."""
        is_ordered = self._hints.expiry_schedule is not None or any(
            self._relies_on_order(each) for each in bodies_of(body)
        )
        self._draft = Draft(self._schedule, is_ordered, frames)
        self._below_joins = self._probing() if self._schedule == "hybrid" else self
        """Builds what the joins of a FROM read."""

    def _probing(self) -> _Builder:
        """Builds parts of the same plan, which expire their tuples by the clock."""
        builder = copy(self)
        builder._schedule, builder._built = "tpa", {}
        builder._below_joins = builder
        return builder

    def plan(self) -> QueryPlan:
        bound = self._body.bound
        flow = self._draft.settle(self._emitted())
        parts = one_of_each(Parts(flow.node, self._draft.slots(), tuple(self._draft.lookups)))
        return QueryPlan(
            root=parts.root,
            slots=parts.slots,
            lookups=parts.lookups,
            outputs=tuple((output.name, output.type) for output in bound.outputs),
            time_type=time_type([slot.info for slot in parts.slots]),
            is_ordered=self._draft.is_ordered,
            emit_changes=bound.emit_changes,
            expiry_schedule=self._schedule,
            is_expiry_hinted=self._hints.expiry_schedule is not None,
            serving_order=self._hints.serving_order,
            graphs=tuple(graphs_of(self._body)),
            emits_once=emits_once(self._body),
            may_grow=bound.may_grow,
            replaced_by=_replaced_names(bound),
        )

    def _emitted(self) -> Flow:
        """The answer; where changes are asked for, with a negative for all that expires."""
        body = self._body
        if is_final(body) or emits_once(body):
            return self._draft.finish(self._build(body, False))
        if not body.bound.emit_changes:
            return self._build(body, False)
        flow = self._build(body, self._schedule == "tpa" and retracts(body))
        return self._draft.expire(flow)

    def _build(self, body: Body, with_ids: bool) -> Flow:
        """A part of the query; built once if it is read more than once, with identities if anybody wants them.

        A stream that can still be spread as it is needed is read anew by each who may need it otherwise.
        """
        known = self._built.get((id(body), True)) or self._built.get((id(body), with_ids))
        if known is not None:
            return known if with_ids else replace(known, ids=())
        flow = self._build_anew(body, with_ids)
        if flow.distribution.slot is None:
            self._built[id(body), with_ids] = flow
        return flow

    def _build_anew(self, body: Body, with_ids: bool) -> Flow:
        if isinstance(body, SetOperation):
            return self._set_operation(body, with_ids)
        flow = self._rows(body, with_ids)
        if body.bound.ranking is not None:
            is_last = body.bound.over is None and not body.bound.is_distinct
            flow = add_ranking(self._draft, flow, body.bound.ranking, with_ids and is_last)
        if body.bound.over is not None:
            flow = add_over(self._draft, flow, body.bound.over, with_ids and not body.bound.is_distinct)
        if body.is_grouped:
            flow = GroupByClause(self._draft, body, self._replaces(body)).build(flow, with_ids)
        flow = self._draft.project(flow, [(output.name, self._output_sql(body, output)) for output in body.outputs])
        return self._distinct(flow, with_ids) if body.bound.is_distinct else flow

    def _rows(self, query: Select, with_ids: bool) -> Flow:
        """FROM and WHERE."""
        # Identities are for whoever is told of a tuple that leaves before it expires: the answer, if nothing above
        # makes rows of its own, as tests do; a join, to find the pairs of that tuple; and what makes negatives of it.
        is_told = with_ids and not (query.is_grouped or query.bound.is_distinct or query.bound.chooses)
        is_joined = sum(scan.source.is_stream for scan in scans_of(query.input)) > 1
        # Hybrid has W-EXPIRE above the topmost join alone: all in the tree below looks at the clock (Pipelines §3.3).
        below = self._below_joins if isinstance(query.input, Join) else self
        takes_back = any(map(below._may_take_back, scans_of(query.input)))
        needs = (is_told and not query.tests) or (is_joined and (self._schedule == "nta" or takes_back))
        needs = needs or (self._schedule == "hybrid" and takes_back)
        flow = FromClause(self._draft, query, self._hints, below._build).build(needs)
        if self._schedule == "hybrid" or (self._schedule == "nta" and joins_many(query, self._hints)):
            flow = self._draft.expire(flow)
        return RowTests(self._draft, query, self._build).build(flow, is_told)

    def _relies_on_order(self, body: Body) -> bool:
        """Whether a part of a query has an operator that needs to know the order of what happens."""
        if isinstance(body, SetOperation):
            return body.bound.operation != "union" or not body.bound.is_all
        scans = scans_of(body.input)
        slides = any(isinstance(scan.source.window, TimeWindow) and scan.source.window.slide_us for scan in scans)
        slides = slides or is_final(body)
        counts = any(scan.is_of_all_rows for scan in scans)
        is_consumed = body.is_grouped or body.bound.is_distinct or body.bound.chooses or body.tests
        return bool(slides or counts or is_consumed or joins_many(body, self._hints))

    def _may_take_back(self, scan: Scan) -> bool:
        return scan.takes_back or (scan.body is not None and (self._schedule != "tpa" or retracts(scan.body)))

    def _distinct(self, flow: Flow, with_ids: bool) -> Flow:
        flow = self._draft.gather(replace(flow, ids=()), flow.columns)
        ids = (ROW_ID, EXPIRY_ID) if with_ids else ()
        return flow.then(DistinctSpec(flow.columns, flow.life_us, flow.expires_by_negatives, ids), ids=ids)

    def _set_operation(self, body: SetOperation, with_ids: bool) -> Flow:
        bound, is_union = body.bound, body.bound.operation == "union"
        if bound.asof is not None:
            left, right = (self._build(side, False) for side in (body.left, body.right))
            return join_asof(self._draft, bound, left, right, with_ids)
        names = tuple(output.name for output in bound.outputs)
        has_ids = with_ids and is_union and bound.is_all
        left, right = (self._named(self._build(side, has_ids), names) for side in (body.left, body.right))
        if not has_ids:
            left, right = replace(left, ids=()), replace(right, ids=())
        # Rows that may not come twice are gathered once, behind the union, or behind the test.
        if is_union:
            flow = self._union(left, right, names if not bound.is_all else None)
            return flow if bound.is_all else self._distinct(flow, with_ids)
        left, right = self._draft.meet(left, names, right, names)
        rule = {"except": "absent", "intersect": "present"}[bound.operation]
        ids = (ROW_ID, EXPIRY_ID) if with_ids and bound.is_all else ()
        spec = MembershipSpec(
            f"{bound.operation}_all" if bound.is_all else rule, names, names, names,
            (left.life_us, right.life_us), left.expires_by_negatives, nulls_match=True, id_columns=ids,
        )  # fmt: skip
        flow = add_membership(left, right, spec, names, ids)
        return flow if bound.is_all else self._distinct(flow, with_ids)

    def _named(self, flow: Flow, names: tuple[str, ...]) -> Flow:
        if flow.columns == names:
            return flow
        return self._draft.project(flow, [(new, quote(old)) for new, old in zip(names, flow.columns, strict=True)])

    def _union(self, left: Flow, right: Flow, together: tuple[str, ...] | None) -> Flow:
        """Both flows as one; `together` are the columns in which tuples must agree to be in one group."""
        left, right = self._draft.agree(left, right)
        sides = [
            self._draft.settle(each) if together is None else self._draft.distribute(each, together)
            for each in (left, right)
        ]
        spec = UnionSpec(left.columns, left.ids, right.ids)
        lives = [each.life_us for each in sides if each.life_us is not None]
        is_same = sides[0].distribution == sides[1].distribution
        is_one = any(each.distribution == ONE_GROUP for each in sides)
        return sides[0].then(
            spec,
            sides[1],
            ids=spec.ids,
            life_us=max(lives, default=None),
            retracts=left.retracts or right.retracts,
            distribution=ONE_GROUP if is_one else sides[0].distribution if is_same else SCATTERED,
        )

    def _replaces(self, query: Select) -> bool:
        """Whether the newest row of a group replaces the older one in the answer, with nothing to take it back."""
        return query is self._body and replaced_by(query.bound) is not None

    def _output_sql(self, query: Select, output: Output) -> str:
        """An output; of a group that is gone, what depends on its aggregates is NULL."""
        sql = to_column(output.expr)
        is_aggregate = any(column.table == "_agg" for column in output.expr.find_all(exp.Column))
        if not query.is_grouped or not self._replaces(query) or not is_aggregate:
            return sql
        return f"CASE WHEN {quote(OP)} > 0 THEN {sql} END"


def _replaced_names(bound: Block) -> tuple[str, ...] | None:
    """`replaced_by`, as names of outputs."""
    places = replaced_by(bound)
    return None if places is None else tuple(bound.outputs[place].name for place in places)
