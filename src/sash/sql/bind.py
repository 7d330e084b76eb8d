"""Parsed query to bound query: every name found, every type known, every stream with its window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from sash.errors import BindError, PlanError, Span
from sash.sql.aggregates import AggregateBinder, find_aggregate, refuse_aggregates
from sash.sql.expressions import Scalar, ScalarBinder, span_of, split_conjuncts
from sash.sql.hashable import check_hashable
from sash.sql.memberships import Surroundings, bind_membership
from sash.sql.parsed import ParsedQuery, ParsedSelect
from sash.sql.query import Block, BoundQuery, Catalog, Membership, Output
from sash.sql.scope import Scope
from sash.sql.sets import bind_set
from sash.sql.sources import Context, bind_sources
from sash.sql.subqueries import is_membership

_RESERVED = ("_op", "_ts", "_expires")
_RESERVED_PREFIX = "_id."


@dataclass(frozen=True, slots=True)
class Item:
    """An item of SELECT with `*` written out: its alias, if any, and its expression over the columns of FROM."""

    alias: str
    expr: exp.Expr
    span: Span | None


def bind(query: ParsedQuery, catalog: Catalog) -> Block:
    """What a parsed query means over the streams and relations of a catalog.

    Raises BindError where a name or a type is wrong, PlanError where the query cannot run.
    """
    try:
        return _bind_block(query, Context(catalog, _bind_block))
    except RecursionError:
        raise PlanError("an expression of the query is too long; split it over several columns or queries") from None


def _bind_block(query: ParsedQuery, context: Context) -> Block:
    return _bind_select(query, context) if isinstance(query, ParsedSelect) else bind_set(query, context)


def _bind_select(select: ParsedSelect, context: Context) -> BoundQuery:
    context = context.within(select, _keeper(select, context))
    sources = bind_sources(select, context)
    scope = Scope(sources, select.text, context.outside)
    conjuncts = [scope.equate(source, name) for source, item in zip(sources, select.sources) for name in item.using]
    with ScalarBinder(scope.columns(), select.text) as scalars:
        where, memberships = _bind_where(Surroundings(select, scope, scalars, context))
        conjuncts += [scope.resolve(part) for condition in select.on for part in split_conjuncts(condition)] + where
        for conjunct in conjuncts:
            refuse_aggregates(
                conjunct, select.text, "`WHERE` or `ON`", "use `HAVING`, or aggregate in a subquery in `FROM`"
            )
        query = BoundQuery(
            text=select.text,
            sources=sources,
            outputs=(),
            conjuncts=tuple(conjuncts),
            hints=select.hints,
            emit_changes=select.emit_changes,
            spans=select.spans,
            memberships=memberships,
            is_distinct=select.is_distinct,
        )
        query = _bind_outputs(query, select, scope, scalars)
        for conjunct in conjuncts:
            scalars.bind_condition(conjunct)
    if query.is_distinct:
        check_hashable(query.outputs, "`DISTINCT`", select.text)
    return query


def _keeper(select: ParsedSelect, context: Context) -> str | None:
    """What in a SELECT has to keep the rows of its streams."""
    if sum(context.is_stream(item) for item in select.sources) > 1:
        return "the join"
    if select.is_distinct:
        return "`DISTINCT`"
    if select.groups is not None:
        return "`GROUP BY`"
    if select.having is not None or any(map(find_aggregate, select.outputs)):
        return "the aggregate"
    if select.where is not None and any(map(is_membership, split_conjuncts(select.where))):
        return "the subquery in `WHERE`"
    return None


def _bind_where(around: Surroundings) -> tuple[list[exp.Expr], tuple[Membership, ...]]:
    where = around.select.where
    parts = list(split_conjuncts(where)) if where is not None else []
    conjuncts = [around.scope.resolve(part) for part in parts if not is_membership(part)]
    return conjuncts, tuple(bind_membership(part, around) for part in parts if is_membership(part))


def _bind_outputs(query: BoundQuery, select: ParsedSelect, scope: Scope, scalars: ScalarBinder) -> BoundQuery:
    items = list(_items(select, scope))
    if select.groups is None and select.having is None and not any(find_aggregate(item.expr) for item in items):
        return replace(query, outputs=tuple(_name_outputs(items, map(scalars.bind, [i.expr for i in items]), select)))
    aggregates = AggregateBinder(
        select, scope, scalars, {item.alias.lower(): item.expr for item in items if item.alias}
    )
    groups = aggregates.bind_groups([item.expr for item in items])
    exprs = [aggregates.rewrite(item.expr) for item in items]
    having = (
        [aggregates.rewrite_having(part) for part in split_conjuncts(select.having)]
        if select.having is not None
        else []
    )
    with ScalarBinder(aggregates.columns(), select.text) as rewritten:
        scalars_ = [rewritten.bind(expr) for expr in exprs]
        for condition in having:
            rewritten.bind_condition(condition)
    named = (replace(scalar, name=aggregates.name_of(item.expr)) for scalar, item in zip(scalars_, items))
    outputs = _name_outputs(items, named, select)
    return replace(
        query,
        outputs=tuple(replace(output, expr=expr) for output, expr in zip(outputs, exprs)),
        groups=groups,
        aggregates=aggregates.aggregates,
        having=tuple(having),
    )


def _name_outputs(
    items: list[Item], scalars: Iterator[Scalar] | list[Scalar], select: ParsedSelect
) -> Iterator[Output]:
    taken: set[str] = set()
    for item, scalar in zip(items, scalars):
        name = item.alias or (item.expr.name if isinstance(item.expr, (exp.Column, exp.Dot)) else scalar.name)
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
            reason = f"`{name}` is a name that Sash gives to columns of its own; use `AS` to give another"
            raise BindError(reason, select.text, item.span)
        yield Output(_unique(name, taken), item.expr, scalar.type)


def _items(select: ParsedSelect, scope: Scope) -> Iterator[Item]:
    for output in select.outputs:
        span = span_of(output)
        star = output.this if isinstance(output, exp.Column) else output
        if not isinstance(star, exp.Star):
            yield Item(output.alias, scope.resolve(output.unalias()), span)
        elif any(star.args.values()):
            reason = "`*` with exceptions cannot run in this version; list the columns"
            raise PlanError(reason, select.text, span)
        else:
            yield from (Item("", column, span) for column in scope.expand(output))


def _unique(name: str, taken: set[str]) -> str:
    """The name, or like DuckDB's the first of `name_1`, `name_2` … that is free."""
    unique, n_tried = name, 0
    while unique.lower() in taken:
        n_tried += 1
        unique = f"{name}_{n_tried}"
    taken.add(unique.lower())
    return unique
