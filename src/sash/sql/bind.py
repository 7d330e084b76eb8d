"""Parsed query to bound query: every name found, every type known, every stream with its window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.aggregates import refuse_aggregates
from sash.sql.as_of import bind_as_of, period_conditions
from sash.sql.bound_joins import bind_trees, conditions_in
from sash.sql.bound_query import Block, BoundQuery
from sash.sql.catalog import Catalog, Source
from sash.sql.expressions import ScalarBinder, split_conjuncts
from sash.sql.final_results import check_final, emits_once
from sash.sql.hashable import check_hashable
from sash.sql.interval_joins import bind_intervals
from sash.sql.join_trees import are_plain
from sash.sql.lifting import lift
from sash.sql.memberships import Surroundings, bind_membership
from sash.sql.outer_joins import restructure
from sash.sql.outputs import bind_outputs, is_aggregating
from sash.sql.over_rows import bind_over, has_over
from sash.sql.pair_windows import bind_window_graph
from sash.sql.parsed import ParsedQuery, ParsedSelect
from sash.sql.ranks import bind_ranks
from sash.sql.reading import check_reading, check_syntax
from sash.sql.scope import Scope
from sash.sql.sets import bind_set
from sash.sql.sources import Context, bind_lifted, bind_sources
from sash.sql.subqueries import is_membership
from sash.sql.unbounded_state import may_grow
from sash.sql.unnesting import unnest


def bind(query: ParsedQuery, catalog: Catalog) -> Block:
    """What a parsed query means over the streams and relations of a catalog.

    Raises BindError where a name or a type is wrong, PlanError where the query cannot run.
    """
    try:
        grows = may_grow(query.tree)
        return replace(_bind_block(query, Context(catalog, _bind_block, may_grow=grows)), may_grow=grows)
    except RecursionError:
        raise PlanError("an expression of the query is too long; split it over several columns or queries") from None


def _bind_block(query: ParsedQuery, context: Context) -> Block:
    if query.ranks is not None:
        return bind_ranks(query, context)
    if not isinstance(query, ParsedSelect):
        return bind_set(query, context)
    return bind_over(query, context) if has_over(query) else _bind_select(query, context)


def _bind_select(select: ParsedSelect, context: Context) -> BoundQuery:
    written = select.written or select
    check_syntax(written)
    select = unnest(select, context)
    context = context.within(select, _keeper(select, context))
    sources, lifted = bind_sources(select, context), bind_lifted(select, context)
    scope = Scope((*sources, *lifted), select.text, context.outside)
    scope.aliases = {output.alias.lower() for output in written.outputs if output.alias}
    sources = bind_as_of(select, sources, scope)
    trees = () if are_plain(select.trees) else bind_trees(select, sources, scope)
    using = [] if trees else _equalities(select, sources, scope)
    # What stands in a join has its period there.
    alone = [source for source in sources if not trees or source in trees]
    periods = [condition for source in alone for condition in period_conditions(source)]
    with ScalarBinder(scope.columns(), select.text) as scalars:
        around = Surroundings(select, scope, scalars, context)
        query = BoundQuery(
            text=select.text,
            sources=sources,
            outputs=(),
            conjuncts=(*using, *periods, *_conjuncts(select, scope, () if trees else select.on)),
            hints=select.hints,
            emit_changes=select.emit_changes,
            spans=select.spans,
            memberships=tuple(
                replace(bind_membership(part, around), is_final=emits_once(select, sources))
                for part in split_conjuncts(select.where)
                if is_membership(part)
            ),
            emits_once=emits_once(select, sources),
            is_distinct=select.is_distinct,
            window_graph=bind_window_graph(select, sources),
            interval_graph=bind_intervals(select, sources),
        )
        query = bind_outputs(query, select, scope, scalars)
        for conjunct in (*query.conjuncts, *conditions_in(trees)):
            scalars.bind_condition(conjunct)
        query = restructure(query, trees, scalars) if trees and not context.is_at_rest else query
    query = lift(query, lifted) if lifted else query
    if query.is_distinct:
        check_hashable(query.outputs, "`DISTINCT`", select.text)
    check_final(select, query)
    check_reading(written)
    return query


def _keeper(select: ParsedSelect, context: Context) -> str | None:
    """What in a SELECT has to keep the rows of its streams."""
    if sum(context.is_stream(item) for item in select.sources if not item.is_unnested) > 1:
        return "the join"
    if select.is_distinct:
        return "`DISTINCT`"
    if is_aggregating(select):
        return "the aggregate" if select.groups is None else "`GROUP BY`"
    if any(context.is_stream(item) for item in select.sources if item.is_unnested):
        return "the subquery"
    if any(map(is_membership, split_conjuncts(select.where))):
        return "the subquery in `WHERE`"
    return None


def _equalities(select: ParsedSelect, sources: tuple[Source, ...], scope: Scope) -> list[exp.EQ]:
    """What USING means where all joins are inner ones."""
    return [scope.equate(source, name) for source, item in zip(sources, select.sources) for name in item.using]


def _conjuncts(select: ParsedSelect, scope: Scope, on: tuple[exp.Expr, ...]) -> Iterator[exp.Expr]:
    """The conditions of ON and WHERE, less those that look into a subquery."""
    parts = [part for condition in on for part in split_conjuncts(condition)]
    for part in [*parts, *(part for part in split_conjuncts(select.where) if not is_membership(part))]:
        refuse_aggregates(part, select.text, "`WHERE` or `ON`", "use `HAVING`, or aggregate in a subquery in `FROM`")
        yield scope.resolve(part)
