"""GROUP BY and aggregates as operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.operators.evaluator import quote
from sash.operators.group_by import GroupBySpec
from sash.operators.grouping import Call, Grouping
from sash.operators.partial_aggregate import ROWS, PartialAggregateSpec, can_add_up, count_name, sum_name
from sash.operators.running_group_by import RunningGroupBySpec
from sash.plan.column_names import times_of, type_of
from sash.plan.draft import Draft, conjunction
from sash.plan.flow import Flow
from sash.plan.logical import Select
from sash.sql.bound_query import Aggregate, DerivedInfo
from sash.sql.expressions import to_column, to_duckdb
from sash.store.batch import ID_PREFIX

ROW_ID = f"{ID_PREFIX}_row"
TIME = "_time"
ADDED_UP = ("count", "sum", "avg")
"""Aggregates that can be put together from what parts of the tuples add to them."""


class GroupByClause:
    """Builds the grouping of one SELECT. If a row `replaces` the older one of its group, nothing takes that back."""

    def __init__(self, draft: Draft, query: Select, replaces: bool):
        self._draft = draft
        self._query = query
        self._bound = query.bound
        self._replaces = replaces
        _refuse_order_of_subqueries(query)
        exprs = [aggregate.argument for aggregate in self._bound.aggregates if aggregate.argument is not None]
        self._arguments = {sql: f"_arg.{idx}" for idx, sql in enumerate(dict.fromkeys(map(to_column, exprs)))}
        self._types = {self._arguments[to_column(expr)]: type_of(expr, self._bound) for expr in exprs}

    def build(self, flow: Flow, with_ids: bool) -> Flow:
        """The groups of a flow's tuples: columns `_group.0` …, and aggregates `_agg.0` …"""
        keys = [(f"_group.{idx}", to_column(group.expr)) for idx, group in enumerate(self._bound.groups or ())]
        time = _time_sql(self._query)
        items = [*keys, *((name, sql) for sql, name in self._arguments.items()), *([(TIME, time)] if time else [])]
        flow = self._draft.project(replace(flow, ids=()), items)
        if self._adds_up(flow):
            return self._in_parts(flow, with_ids)
        names = tuple(name for name, _ in keys)
        flow = self._draft.gather(flow, names)
        calls = tuple(
            Call(aggregate.function, self._argument(aggregate), f"_agg.{idx}", aggregate.type)
            for idx, aggregate in enumerate(self._bound.aggregates)
        )
        having = conjunction(self._bound.having)
        grouping = self._grouping(names, calls, having, TIME if time else None, with_ids)
        return self._grouped(flow, _group_by_spec(grouping, flow))

    def _adds_up(self, flow: Flow) -> bool:
        """Whether parts of a global aggregate are worked out where the tuples are: not if they are in one place."""
        is_spread = flow.distribution.slot is None and flow.distribution.classes != ()
        is_moving = flow.life_us is not None or flow.retracts
        return (
            is_spread
            and is_moving
            and self._bound.groups == ()
            and all(aggregate.function in ADDED_UP for aggregate in self._bound.aggregates)
            and all(map(can_add_up, self._types.values()))
        )

    def _in_parts(self, flow: Flow, with_ids: bool) -> Flow:
        """Each partition group says what an instant adds; one group adds up what all say."""
        partial = PartialAggregateSpec(tuple(self._types), flow.life_us, flow.expires_by_negatives)
        flow = flow.then(partial, columns=partial.columns, life_us=None, retracts=False)
        flow = self._draft.distribute(flow, ())
        calls = tuple(Call("sum", name, f"_all{name}", _sum_type(name, self._types)) for name in partial.columns)
        values = [self._put_together(each) for each in self._bound.aggregates]
        having = conjunction(condition.transform(_replace_aggregate, values) for condition in self._bound.having)
        grouping = self._grouping((), calls, having, None, with_ids)
        items = [(f"_agg.{idx}", value) for idx, value in enumerate(values)]
        return self._draft.project(self._grouped(flow, _group_by_spec(grouping, flow)), items)

    def _put_together(self, aggregate: Aggregate) -> str:
        """An aggregate, of sums over all that the parts say."""
        argument = self._argument(aggregate)
        count = quote(f"_all{count_name(argument) if argument else ROWS}")
        if aggregate.function == "count":
            return f"CAST(coalesce({count}, 0) AS BIGINT)"
        total = quote(f"_all{sum_name(argument or '')}")
        if aggregate.function == "avg":
            total = f"exact_mean(CAST({total} AS VARCHAR), CAST({count} AS BIGINT))"
        return f"CASE WHEN {count} > 0 THEN {total} END"

    def _argument(self, aggregate: Aggregate) -> str | None:
        return None if aggregate.argument is None else self._arguments[to_column(aggregate.argument)]

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
            columns=(*spec.keys, *(call.name for call in spec.calls)),
            ids=(spec.id_column,) if spec.id_column else (),
            life_us=None,
            retracts=True,
            distribution=flow.distribution.renamed({name: [name] for name in spec.keys}),
        )


def _replace_aggregate(node: exp.Expr, values: Sequence[str]) -> exp.Expr:
    """An aggregate in an expression, written as what it is put together of, which stays as it is written."""
    is_aggregate = isinstance(node, exp.Column) and node.table == "_agg"
    return exp.Paren(this=exp.Var(this=values[int(node.name)])) if is_aggregate else node


def _group_by_spec(grouping: Grouping, flow: Flow) -> GroupBySpec | RunningGroupBySpec:
    """Where no tuple ever leaves, nothing of it has to be kept."""
    common = {field.name: getattr(grouping, field.name) for field in fields(grouping)}
    if flow.life_us is None and not flow.retracts:
        return RunningGroupBySpec(**common)
    return GroupBySpec(**common, window_us=flow.life_us, expires_by_negatives=flow.expires_by_negatives)


def _sum_type(part: str, types: dict[str, pa.DataType]) -> pa.DataType:
    scales = {sum_name(name): type.scale for name, type in types.items() if pa.types.is_decimal(type)}
    return pa.decimal128(38, scales.get(part, 0))


def _refuse_order_of_subqueries(query: Select) -> None:
    """FIRST and LAST go by the time of rows, which those of a subquery do not have."""
    bound = query.bound
    ordered = [aggregate.function.upper() for aggregate in bound.aggregates if aggregate.function in ("first", "last")]
    for source in bound.sources if ordered else ():
        if isinstance(source.info, DerivedInfo):
            raise PlanError(
                f"`{ordered[0]}` goes by the time of rows, which those of the subquery `{source.alias}` do not have; "
                "leave it out, or take it of a stream itself",
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
