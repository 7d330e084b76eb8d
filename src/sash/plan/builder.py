"""Chooses the operators for a query that the rules have been through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.operators.distinct import DistinctSpec
from sash.operators.evaluator import quote
from sash.operators.membership import MembershipSpec
from sash.operators.union import UnionSpec
from sash.operators.unmet import UnmetSpec
from sash.plan.aggregation import ROW_ID, GroupByClause
from sash.plan.asof import join_asof
from sash.plan.column_names import columns_of
from sash.plan.draft import Draft
from sash.plan.flow import ONE_GROUP, SCATTERED, Flow
from sash.plan.hints import read_hints
from sash.plan.logical import Body, RowTest, Scan, Select, SetOperation, bodies_of, scans_of
from sash.plan.multiway import joins_many
from sash.plan.numbering import add_over
from sash.plan.one_of_each import Parts, one_of_each
from sash.plan.query_plan import QueryPlan
from sash.plan.ranking import add_ranking
from sash.plan.relational import FromClause
from sash.plan.rules.prune_columns import read_on_top
from sash.sql.bound_query import Output, replaced_by
from sash.sql.casts import without_read
from sash.sql.catalog import StreamInfo
from sash.sql.expressions import to_column
from sash.sql.interval_graph import IntervalGraph
from sash.sql.window_graph import WindowGraph
from sash.sql.window_kinds import TimeWindow
from sash.store.batch import EXPIRES, ID_PREFIX, OP
from sash.store.keys import is_hashable

EXPIRY_ID = f"{ID_PREFIX}{EXPIRES}"


def physical_plan(body: Body, frames: Mapping[str, pa.Table]) -> QueryPlan:
    """The plan of a query; of the streams in `frames`, by name, the content may be looked at to choose it."""
    return _Builder(body, frames).plan()


class _Builder:
    """Builds the tree of a statement, subqueries before what is above them."""

    def __init__(self, body: Body, frames: Mapping[str, pa.Table]):
        self._body = body
        self._hints = read_hints(body.bound)
        self._schedule = self._hints.expiry_schedule or "tpa"
        if _emits_once(body) and self._schedule != "tpa":
            reason = f"`EMIT FINAL` leaves no choice of schedule; leave the hint `{self._schedule}` out"
            raise PlanError(reason, body.bound.text, body.bound.spans.get("hint"))
        self._built: dict[tuple[int, bool], Flow] = {}
        """What parts of the query have become, by their `id` and whether they have identities."""
        is_ordered = self._hints.expiry_schedule is not None or any(
            self._relies_on_order(each) for each in bodies_of(body)
        )
        self._draft = Draft(self._schedule, is_ordered, frames)

    def plan(self) -> QueryPlan:
        bound = self._body.bound
        flow = self._draft.settle(self._emitted())
        parts = one_of_each(Parts(flow.node, self._draft.slots(), tuple(self._draft.lookups)))
        return QueryPlan(
            root=parts.root,
            slots=parts.slots,
            lookups=parts.lookups,
            outputs=tuple((output.name, output.type) for output in bound.outputs),
            time_type=_time_type([slot.info for slot in parts.slots]),
            is_ordered=self._draft.is_ordered,
            emit_changes=bound.emit_changes,
            expiry_schedule=self._schedule,
            is_expiry_hinted=self._hints.expiry_schedule is not None,
            serving_order=self._hints.serving_order,
            graphs=tuple(_graphs(self._body)),
            emits_once=_emits_once(self._body),
            may_grow=bound.may_grow,
        )

    def _emitted(self) -> Flow:
        """The answer; where changes are asked for, with a negative for all that expires."""
        body = self._body
        if _is_final(body) or _emits_once(body):
            return self._draft.finish(self._build(body, False))
        if not body.bound.emit_changes:
            return self._build(body, False)
        flow = self._build(body, self._schedule == "tpa" and _retracts(body))
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
        is_consumed = query.is_grouped or query.bound.is_distinct or query.bound.chooses
        is_joined = sum(scan.source.is_stream for scan in scans_of(query.input)) > 1
        has_identities = self._schedule == "nta" or any(map(self._may_take_back, scans_of(query.input)))
        needs = (with_ids and not is_consumed) or (is_joined and has_identities)
        needs = needs or (self._schedule == "hybrid" and any(map(self._may_take_back, scans_of(query.input))))
        flow = FromClause(self._draft, query, self._hints, self._build).build(needs)
        if self._schedule == "hybrid" or (self._schedule == "nta" and joins_many(query, self._hints)):
            flow = self._draft.expire(flow)
        if query.tests:
            flow = self._told_apart(flow, query)
        for test in query.tests:
            flow = self._test(flow, test, with_ids and not is_consumed)
        return flow

    def _told_apart(self, flow: Flow, query: Select) -> Flow:
        """The flow without columns that nobody reads and by which a test could not tell rows apart."""
        unread = set(_unhashable_unread(query))
        kept = [name for name in flow.columns if name not in unread]
        return self._draft.project(flow, [(name, quote(name)) for name in kept]) if unread else flow

    def _relies_on_order(self, body: Body) -> bool:
        """Whether a part of a query has an operator that needs to know the order of what happens."""
        if isinstance(body, SetOperation):
            return body.bound.operation != "union" or not body.bound.is_all
        scans = scans_of(body.input)
        slides = any(isinstance(scan.source.window, TimeWindow) and scan.source.window.slide_us for scan in scans)
        slides = slides or _is_final(body)
        counts = any(scan.is_of_all_rows for scan in scans)
        is_consumed = body.is_grouped or body.bound.is_distinct or body.bound.chooses or body.tests
        return bool(slides or counts or is_consumed or joins_many(body, self._hints))

    def _may_take_back(self, scan: Scan) -> bool:
        return scan.takes_back or (scan.body is not None and (self._schedule != "tpa" or _retracts(scan.body)))

    def _test(self, flow: Flow, test: RowTest, with_ids: bool) -> Flow:
        """The rows for which a subquery has, or has not, an equal row."""
        operands = list(map(to_column, test.operands))
        rule = "absent" if test.is_negated else "present"
        if test.is_final:
            return self._unmet(flow, operands, self._build(test.body, False), test.nulls_match)
        if not test.is_null_aware:
            return self._member(flow, operands, self._build(test.body, False), rule, with_ids, test.nulls_match)
        (operand,) = test.operands
        any_row, null_row = self._build(test.body, False), self._build(test.body, False)
        (column,) = any_row.columns
        flow = self._member(flow, operands, self._build(test.body, False), rule, with_ids)
        # NULL in the subquery equals, for all we know, every operand; and a NULL operand any row of it.
        null_row = self._draft.project(null_row, [(column, f"CASE WHEN {quote(column)} IS NULL THEN 0 END")])
        flow = self._member(flow, ["0"], null_row, rule, with_ids)
        any_row = self._draft.project(any_row, [(column, "0")])
        return self._member(flow, [f"CASE WHEN {_operand_sql(operand)} IS NULL THEN 0 END"], any_row, rule, with_ids)

    def _member(
        self, flow: Flow, operands: list[str], matches: Flow, rule: str, with_ids: bool, nulls_match: bool = False
    ) -> Flow:
        """The rows of a flow whose operands some row of another equals, or none; NULL equals nothing, unless asked."""
        columns = flow.columns
        flow, keys, matches = self._meeting(flow, operands, matches)
        content = (*columns, *(flow.ids if with_ids else ()))
        ids = flow.ids if with_ids else ()
        return self._membership(flow, matches, MembershipSpec(
            rule, content, keys, matches.columns, (flow.life_us, matches.life_us), flow.expires_by_negatives,
            nulls_match,
        ), columns=columns, ids=ids)  # fmt: skip

    def _unmet(self, flow: Flow, operands: list[str], matches: Flow, nulls_match: bool) -> Flow:
        """The rows of a flow whose operands no row of another has equalled as long as they were there."""
        columns = flow.columns
        flow, keys, matches = self._meeting(replace(flow, ids=()), operands, matches)
        assert flow.life_us is not None
        assert matches.life_us is not None
        spec = UnmetSpec(columns, keys, matches.columns, (flow.life_us, matches.life_us), nulls_match)
        distribution = flow.distribution.renamed({name: [name] for name in columns})
        return flow.then(spec, matches, columns=columns, life_us=None, distribution=distribution)

    def _meeting(self, flow: Flow, operands: list[str], matches: Flow) -> tuple[Flow, tuple[str, ...], Flow]:
        """A flow with operands as columns, and another, such that they meet where those equal its columns."""
        keys = tuple(f"_operand.{idx}" for idx in range(len(operands)))
        items = [*((name, quote(name)) for name in flow.columns), *zip(keys, operands)]
        flow, matches = self._draft.project(flow, items), replace(matches, ids=())
        flow, matches = self._draft.meet(flow, keys, matches, matches.columns)
        return flow, keys, matches

    def _membership(
        self, flow: Flow, matches: Flow, spec: MembershipSpec, columns: tuple[str, ...], ids: tuple[str, ...]
    ) -> Flow:
        distribution = flow.distribution.renamed({name: [name] for name in columns})
        return flow.then(spec, matches, columns=columns, ids=ids, retracts=True, distribution=distribution)

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
        flow = self._membership(left, right, spec, names, ids)
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


def _is_final(body: Body) -> bool:
    """Whether a query shows what is final alone, when its window is over."""
    return isinstance(body, Select) and any(scan.source.is_final for scan in scans_of(body.input))


def _emits_once(body: Body) -> bool:
    """Whether a query shows each row once, when nothing can change it."""
    return isinstance(body, Select) and body.bound.emits_once


def _operand_sql(expr: exp.Expr) -> str:
    """An expression as the operand of an operator: in brackets, unless it is a name."""
    sql = to_column(expr)
    return sql if isinstance(without_read(expr), exp.Column) else f"({sql})"


def _unhashable_unread(query: Select) -> Iterator[str]:
    """A test tells rows apart by all that is read of them, beside which a window that counts rows keeps all columns."""
    read = {name for expr in read_on_top(query) for name in columns_of(expr)}
    for scan in scans_of(query.input):
        for name in scan.columns:
            type, column = scan.source.schema.field(name).type, f"{scan.source.alias}.{name}"
            if is_hashable(type):
                continue
            if column not in read:
                yield column
            else:
                raise PlanError(
                    f"`IN` and `EXISTS` cannot pass on `{scan.source.alias}.{name}`, whose values of type {type} they "
                    "cannot tell apart; leave the column out, or cast it in a subquery",
                    query.bound.text,
                    query.bound.spans["select"],
                )


def _graphs(body: Body) -> Iterator[WindowGraph | IntervalGraph]:
    for each in bodies_of(body):
        graph = (each.bound.window_graph or each.bound.interval_graph) if isinstance(each, Select) else None
        if graph is not None:
            yield graph


def _retracts(body: Body) -> bool:
    """Whether a part of a query takes rows back before they expire."""
    if isinstance(body, SetOperation):
        return body.bound.operation != "union" or _retracts(body.left) or _retracts(body.right)
    if body.is_grouped or body.tests or body.bound.chooses:
        return True
    return any(scan.takes_back or (scan.body is not None and _retracts(scan.body)) for scan in scans_of(body.input))


def _time_type(infos: list[StreamInfo]) -> pa.DataType:
    """Of `_ts`: integers if all streams tell time in integers, else a timestamp, with zone if any of them has one."""
    types = [info.schema.field(info.time).type for info in infos]
    if all(pa.types.is_integer(type) for type in types):
        return pa.int64()
    is_zoned = any(pa.types.is_timestamp(type) and type.tz is not None for type in types)
    return pa.timestamp("us", tz="UTC" if is_zoned else None)
