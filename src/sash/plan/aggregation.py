"""GROUP BY and aggregates as operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.operators.accumulators import BOUNDED
from sash.operators.accumulators.manner import CallManner, SortKey
from sash.operators.evaluator import quote
from sash.operators.group_by import GroupBySpec
from sash.operators.grouping import Call, Grouping
from sash.operators.partial_aggregate import ROWS, PartialAggregateSpec, can_add_up, count_name, sum_name
from sash.operators.running_group_by import RunningGroupBySpec
from sash.plan.column_names import ROW_ID, times_of, type_of
from sash.plan.draft import Draft, conjunction
from sash.plan.flow import Flow
from sash.plan.logical import Scan, Select
from sash.plan.rules.follow_session_ends import is_end_of
from sash.sql.bound_aggregates import Aggregate
from sash.sql.catalog import DerivedInfo
from sash.sql.expressions import to_column, to_duckdb

TIME = "_time"
ADDED_UP = ("count", "count_if", "sum", "avg")
"""Aggregates that can be put together from what parts of the tuples add to them."""


@dataclass(frozen=True, slots=True)
class AddedPart:
    """What parts of the tuples add to: a column of numbers, in SQL over what aggregates read."""

    name: str
    sql: str
    type: pa.DataType


class GroupByClause:
    """Builds the grouping of one SELECT. If a row `replaces` the older one of its group, nothing takes that back."""

    def __init__(self, draft: Draft, query: Select, replaces: bool):
        self._draft = draft
        self._query = query
        self._bound = query.bound
        self._replaces = replaces
        _refuse_order_of_subqueries(query)
        exprs = [expr for aggregate in self._bound.aggregates for expr in aggregate.reads]
        self._read = {sql: f"_arg.{idx}" for idx, sql in enumerate(dict.fromkeys(map(to_column, exprs)))}
        """What aggregates read, and under which names."""

    def build(self, flow: Flow, with_ids: bool) -> Flow:
        """The groups of a flow's tuples: columns `_group.0` …, and aggregates `_agg.0` …"""
        keys = [(f"_group.{idx}", to_column(group.expr)) for idx, group in enumerate(self._bound.groups or ())]
        time = _time_sql(self._query)
        items = [*keys, *((name, sql) for sql, name in self._read.items()), *([(TIME, time)] if time else [])]
        flow = self._draft.project(replace(flow, ids=()), items)
        if self._adds_up(flow):
            return self._in_parts(flow, with_ids)
        ends = self._session_ends()
        names = tuple(name for name, _ in keys if name not in {end.name for end in ends})
        flow = self._draft.gather(flow, names)
        calls = tuple(self._call(aggregate, f"_agg.{idx}") for idx, aggregate in enumerate(self._bound.aggregates))
        calls = (*ends, *calls)
        having = conjunction(self._bound.having)
        grouping = self._grouping(names, calls, having, TIME if time else None, with_ids)
        grouping = replace(grouping, moving=tuple(end.name for end in ends))
        return self._grouped(flow, _group_by_spec(grouping, flow))

    def _session_ends(self) -> tuple[Call, ...]:
        """Where groups are whole sessions: their ends, which move, as the latest that a row gives."""
        scan = self._query.input
        if not isinstance(scan, Scan) or not scan.ends_above:
            return ()
        groups = enumerate(self._bound.groups or ())
        ends = [(f"_group.{idx}", group.type) for idx, group in groups if is_end_of(scan, group.expr)]
        return tuple(Call("max", name, name, type_) for name, type_ in ends)

    def _adds_up(self, flow: Flow) -> bool:
        """Whether parts of a global aggregate are worked out where the tuples are: not if they are in one place."""
        is_spread = flow.distribution.slot is None and flow.distribution.classes != ()
        is_moving = flow.life_us is not None or flow.retracts
        return (
            is_spread
            and is_moving
            and self._bound.groups == ()
            and all(each.function in ADDED_UP and not each.is_distinct for each in self._bound.aggregates)
            and all(can_add_up(part.type) for part in self._parts())
        )

    def _in_parts(self, flow: Flow, with_ids: bool) -> Flow:
        """Each partition group says what an instant adds; one group adds up what all say."""
        parts = {part.name: part for part in self._parts()}
        if any(part.sql != quote(part.name) for part in parts.values()):
            flow = self._draft.project(flow, [(part.name, part.sql) for part in parts.values()])
        partial = PartialAggregateSpec(tuple(parts), flow.life_us, flow.expires_by_negatives)
        flow = flow.then(partial, columns=partial.columns, life_us=None, retracts=False)
        flow = self._draft.distribute(flow, ())
        calls = tuple(Call("sum", name, f"_all{name}", _sum_type(name, parts.values())) for name in partial.columns)
        results = tuple((f"_agg.{idx}", self._put_together(each)) for idx, each in enumerate(self._bound.aggregates))
        grouping = self._grouping((), calls, conjunction(self._bound.having), None, with_ids)
        return self._grouped(flow, _group_by_spec(replace(grouping, results=results), flow))

    def _put_together(self, aggregate: Aggregate) -> str:
        """An aggregate, of sums over all that the parts say."""
        part = self._part(aggregate)
        count = quote(f"_all{count_name(part.name) if part else ROWS}")
        if aggregate.function == "count":
            return f"CAST(coalesce({count}, 0) AS BIGINT)"
        assert part is not None
        total = quote(f"_all{sum_name(part.name)}")
        if aggregate.function == "avg":
            total = f"exact_mean(CAST({total} AS VARCHAR), CAST({count} AS BIGINT))"
        return f"CASE WHEN {count} > 0 THEN {total} END"

    def _parts(self) -> list[AddedPart]:
        return [part for part in map(self._part, self._bound.aggregates) if part is not None]

    def _part(self, aggregate: Aggregate) -> AddedPart | None:
        """What an aggregate that can be put together adds up; None if it counts all rows."""
        argument, passes = self._name(aggregate.argument), self._name(aggregate.filter)
        name, sql, type = argument or "", quote(argument) if argument else "1", pa.int32()
        if aggregate.function == "count_if":
            name, sql = f"{name}.int", f"CAST({sql} AS INTEGER)"
        elif aggregate.argument is not None:
            type = type_of(aggregate.argument, self._bound)
        if passes is not None:
            name, sql = f"{name}.if{passes}", f"CASE WHEN {quote(passes)} THEN {sql} END"
        return AddedPart(name, sql, type) if name else None

    def _name(self, expr: exp.Expr | None) -> str | None:
        return None if expr is None else self._read[to_column(expr)]

    def _call(self, aggregate: Aggregate, name: str) -> Call:
        argument, passes = self._name(aggregate.argument), self._name(aggregate.filter)
        keys = tuple(self._read[to_column(each.expr)] for each in aggregate.order)
        return Call(aggregate.function, argument, name, aggregate.type, passes, keys, _manner(aggregate))

    def _grouping(
        self, keys: tuple[str, ...], calls: tuple[Call, ...], having: str | None, time: str | None, with_ids: bool
    ) -> Grouping:
        return Grouping(
            keys=keys,
            calls=calls,
            having=having,
            retracts=not self._replaces,
            time=time,
            id_column=ROW_ID if with_ids else None,
        )

    def _grouped(self, flow: Flow, spec: GroupBySpec | RunningGroupBySpec) -> Flow:
        return flow.then(
            spec,
            columns=(*spec.keys, *spec.made),
            ids=(spec.id_column,) if spec.id_column else (),
            life_us=None,
            retracts=True,
            distribution=flow.distribution.renamed({name: [name] for name in spec.keys}),
        )


def _group_by_spec(grouping: Grouping, flow: Flow) -> GroupBySpec | RunningGroupBySpec:
    """Where no tuple ever leaves, nothing of it has to be kept, unless an aggregate goes by all values."""
    common = {field.name: getattr(grouping, field.name) for field in fields(grouping)}
    is_bounded = all(call.function in BOUNDED and not call.manner.is_distinct for call in grouping.calls)
    if flow.life_us is None and not flow.retracts and is_bounded:
        return RunningGroupBySpec(**common)
    return GroupBySpec(**common, window_us=flow.life_us, expires_by_negatives=flow.expires_by_negatives)


def _manner(aggregate: Aggregate) -> CallManner:
    keys = tuple(SortKey(each.is_descending, each.nulls_first) for each in aggregate.order)
    fraction = aggregate.fraction.as_integer_ratio() if aggregate.fraction is not None else None
    return CallManner(aggregate.is_distinct, keys, fraction, aggregate.is_descending, aggregate.separator)


def _sum_type(name: str, parts: Iterable[AddedPart]) -> pa.DataType:
    scales = {sum_name(part.name): part.type.scale for part in parts if pa.types.is_decimal(part.type)}
    return pa.decimal128(38, scales.get(name, 0))


def _refuse_order_of_subqueries(query: Select) -> None:
    """FIRST and the like go by the time of rows, which those of a subquery do not have."""
    bound = query.bound
    ordered = [aggregate.function for aggregate in bound.aggregates if aggregate.is_timed]
    for source in bound.sources if ordered else ():
        if isinstance(source.info, DerivedInfo):
            raise PlanError(
                f"`{ordered[0].upper()}` goes by the time of rows, which those of the subquery `{source.title}` do not "
                f"have; order it, as in `{ordered[0].upper()}(x ORDER BY x)`, or take it of a stream itself",
                bound.text,
                source.span,
            )


def _time_sql(query: Select) -> str | None:
    """The time of a row that is made of rows of streams: the latest of theirs, in microseconds."""
    infos = {source.alias: source.info for source in query.bound.sources}
    times: list[str] = []
    for column in times_of(query):
        type, sql = infos[column.table].schema.field(column.name).type, to_duckdb(column)
        times.append(sql if pa.types.is_integer(type) else f"epoch_us({sql})")
    return f"greatest({', '.join(times)})" if len(times) > 1 else next(iter(times), None)
