"""The items of FROM: streams, relations and subqueries, each with its columns and, for streams, its window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, PlanError, suggest
from sash.sql import duck
from sash.sql.bound_query import Block, BoundQuery, Output
from sash.sql.catalog import JOINED, UNNESTED, Catalog, DerivedInfo, RelationInfo, Source, StreamInfo
from sash.sql.expressions import span_of
from sash.sql.hashable import is_hashable, not_hashable
from sash.sql.interval_joins import bind_intervals, without_end
from sash.sql.pair_windows import bind_window_graph, with_lives
from sash.sql.parsed import ParsedQuery, ParsedSelect, ParsedSource, refuse_statement_clauses
from sash.sql.scope import column_in, read
from sash.sql.table_queries import as_relation, reads_stream, rename_table, with_unique
from sash.sql.window_kinds import WINDOW_COLUMNS, RowsWindow, SessionWindow, Window
from sash.sql.windows import WindowClause

_RESERVED_ALIASES = (
    "_id",
    "_key",
    "_group",
    "_agg",
    "_over",
    "_hidden",
    "_arg",
    "_operand",
    "_row",
    "_expires",
    "_time",
    JOINED,
    UNNESTED,
)


@dataclass(frozen=True, slots=True)
class Context:
    """Where a query stands: what it may read, and what the query around it asks of it."""

    catalog: Catalog
    bind: Callable[[ParsedQuery, Context], Block]
    """Binds a query within this one."""
    window: WindowClause | None = None
    """That of the query around it, for streams without one."""
    keeper: str | None = None
    """What around it has to keep its rows, for which all of its streams need windows."""
    may_grow: bool = False
    """Whether rows may be kept for ever: then streams need no windows."""
    is_subquery: bool = False
    outside: frozenset[str] = frozenset()
    """Aliases that stand around a subquery, in lower case, which it cannot see."""
    is_at_rest: bool = False
    """Whether it reads tables alone, so that DuckDB answers it: any query will do."""

    def within(self, query: ParsedQuery, keeper: str | None) -> Context:
        """The context of what stands in a query that has to keep rows, if `keeper` says for what."""
        return replace(self, window=query.window or self.window, keeper=keeper or self.keeper)

    def is_stream(self, item: ParsedSource) -> bool:
        """Whether the rows of an item of FROM come and go."""
        if item.query is not None:
            return reads_stream(item.query, self.catalog)
        return isinstance(self.catalog.get(item.name.name.lower()), StreamInfo)

    def subquery(self, select: ParsedSelect) -> Context:
        """The context of a subquery of a SELECT, `self` being that of what stands in the SELECT."""
        aliases = {(item.alias or item.name).name.lower() for item in select.sources}
        return replace(self, is_subquery=True, outside=self.outside | aliases)


def bind_sources(select: ParsedSelect, context: Context) -> tuple[Source, ...]:
    """The items of FROM in their order; `context` is that of what stands in the SELECT."""
    sources: dict[str, Source] = {}
    for item in select.sources:
        source = _bind_source(item, select, context)
        if source.alias.lower() in sources:
            name = item.name.name
            example = f"`{name} {source.alias}2`" if item.alias else f"`{name} A, {name} B`"
            reason = f"`{source.alias}` stands twice in `FROM`; give each an alias of its own, as in {example}"
            raise BindError(reason, select.text, item.span)
        sources[source.alias.lower()] = source
    windowed = with_lives(tuple(sources.values()), bind_window_graph(select, tuple(sources.values())))
    windowed = without_end(windowed, bind_intervals(select, windowed))
    _check_streams(select, windowed, context)
    return windowed


def bind_lifted(select: ParsedSelect, context: Context) -> tuple[Source, ...]:
    """Subqueries that stand for values beside aggregates, of one row each."""
    return tuple(_bind_source(item, select, context) for item in select.lifted)


def derive(block: Block, alias: str) -> Source:
    """A block as an item of FROM."""
    schema = pa.schema([(output.name, output.type) for output in block.outputs])
    types = ((each.name, each.sql_type) for each in block.outputs if duck.is_renamed(each.sql_type, each.type))
    info = DerivedInfo(schema, block, tuple(types))
    return Source(name=alias.lower(), alias=alias, info=info, window=None, span=block.spans["from"])


def _bind_source(item: ParsedSource, select: ParsedSelect, context: Context) -> Source:
    alias = (item.alias or item.name).name
    if item.query is not None:
        refuse_statement_clauses(item.query, "a subquery")
        source = replace(_bind_subquery(item.query, alias, context.subquery(select)), span=item.span)
    else:
        name = item.name.name.lower()
        if name not in context.catalog:
            reason = f"there is no stream or table `{item.name.name}`; {suggest(name, context.catalog)}"
            raise BindError(reason, select.text, span_of(item.name))
        source = Source(name=name, alias=alias, info=context.catalog[name], window=None, span=item.span)
    if not item.is_unnested:
        _check_alias(source, select.text)
    _check_columns(source, select.text)
    source = replace(source, window=_bind_window(source, item, select.text, context))
    source = with_names(source, item.columns, select.text) if item.columns else source
    return source if item.unique is None else with_unique(source, item.unique)


def _bind_subquery(query: ParsedQuery, alias: str, context: Context) -> Source:
    """A query as an item of FROM: what it answers, or, if it reads tables alone, a table."""
    if context.is_at_rest or reads_stream(query, context.catalog):
        return derive(context.bind(query, context), alias)
    block = context.bind(query, replace(context, is_at_rest=True))
    return replace(derive(block, alias), info=as_relation(query, block))


def with_names(source: Source, names: Sequence[exp.Identifier], text: str) -> Source:
    """An item of FROM whose first columns have these names, and nothing else of it: what its window adds comes last."""
    columns = source.schema.names
    if len(names) > len(columns):
        reason = f"{len(names)} names stand behind `{source.alias}`, which has fewer columns: {len(columns)}"
        raise BindError(f"{reason}; remove some", text, span_of(*names[len(columns) :]))
    given = dict(zip(columns, [*(name.name for name in names), *columns[len(names) :]]))
    if isinstance(source.info, RelationInfo):
        named = replace(source, name=source.alias.lower(), info=rename_table(source, given))
    elif isinstance(source.info, DerivedInfo) and isinstance(source.info.block, BoundQuery):
        outputs = [replace(output, name=given[output.name]) for output in source.info.block.outputs]
        named = replace(derive(replace(source.info.block, outputs=tuple(outputs)), source.alias), span=source.span)
    else:
        types = {field.name: field.type for field in source.schema} | dict(source.info.sql_types)
        outputs = [
            Output(given[name], read(source, name), source.schema.field(name).type, str(_sql_type(types[name])))
            for name in columns
        ]
        spans = {"from": source.span}
        block = BoundQuery(text=text, sources=(source,), outputs=tuple(outputs), conjuncts=(), spans=spans)
        named = replace(derive(block, source.alias), span=source.span)
    _check_columns(named, text)
    return named


def _sql_type(type_: pa.DataType | str) -> str:
    return type_ if isinstance(type_, str) else str(duck.type_of(type_))


def _check_alias(source: Source, text: str) -> None:
    """DuckDB cannot tell an alias with a dot from a column's name."""
    if "." in source.alias:
        raise BindError(f"the alias `{source.alias}` has a dot in it; give another", text, source.span)
    if source.alias.lower().startswith(_RESERVED_ALIASES):
        raise BindError(f"the alias `{source.alias}` is one that Sash uses itself; give another", text, source.span)


def _check_columns(source: Source, text: str) -> None:
    """DuckDB cannot tell columns apart that differ in case alone."""
    seen: dict[str, str] = {}
    for name in source.info.schema.names:
        if not name:
            reason = f"a column of `{source.name}` has an empty name, by which SQL cannot call it; rename it"
            raise BindError(reason, text, source.span)
        if name.lower() in seen:
            reason = f"in `{source.name}`, `{seen[name.lower()]}` and `{name}` are one column to SQL; rename one"
            raise BindError(reason, text, source.span)
        seen[name.lower()] = name
    if field := duck.unreadable_column(source.info.schema):
        reason = f"`{source.name}.{field.name}` is {field.type}, which DuckDB cannot read; convert or drop the column"
        raise BindError(reason, text, source.span)


def _bind_window(source: Source, item: ParsedSource, text: str, context: Context) -> Window | None:
    clause = item.window
    if isinstance(source.info, DerivedInfo):
        if clause is not None:
            reason = "a window on a subquery cannot run in this version; give the streams inside it windows"
            raise PlanError(reason, text, clause.span)
        return None
    if not source.is_stream:
        if clause is not None:
            written = text[clause.span.start : clause.span.end]
            reason = f"`{source.name}` is a table, and only streams have windows; remove `{written}`"
            raise BindError(reason, text, clause.span, _hint(source))
        return None
    if clause is None:
        return context.window.window if context.window else None
    if clause.time is not None:
        _check_time(source, clause.time, text)
    if isinstance(clause.window, RowsWindow | SessionWindow):
        columns = tuple(column_in(source, name, text).name for name in clause.partition_by)
        if isinstance(clause.window, SessionWindow):
            _check_partition(source, columns, clause, text)
        return replace(clause.window, partition_by=columns)
    return clause.window


def _check_partition(source: Source, columns: Sequence[str], clause: WindowClause, text: str) -> None:
    """The open sessions are looked up by what they are partitioned by."""
    for column, name in zip(columns, clause.partition_by, strict=True):
        type_ = source.schema.field(column).type
        if not is_hashable(type_):
            raise BindError(not_hashable(type_, "`SESSION`"), text, span_of(name))


def _check_time(source: Source, time: exp.Identifier, text: str) -> None:
    """Windows that rows have as columns are of a stream's own time."""
    assert isinstance(source.info, StreamInfo)
    if column_in(source, time, text).name != source.info.time:
        reason = f"the time of `{source.name}` is `{source.info.time}`, not `{time.name}`; name that"
        raise BindError(reason, text, span_of(time))
    for name in WINDOW_COLUMNS:
        if any(name == own.lower() for own in source.info.schema.names):
            reason = f"`{source.name}` has a column `{name}` already, which the window would add; rename it"
            raise BindError(reason, text, source.span)


def _check_streams(select: ParsedSelect, sources: tuple[Source, ...], context: Context) -> None:
    if context.is_at_rest:
        return
    streams = [source for source in sources if source.is_stream]
    if not streams:
        reason = "the query reads no stream, only tables; add a stream, or ask for rows of tables by `IN` or `EXISTS`"
        hints = (hint for hint in map(_hint, sources) if hint)
        raise PlanError(reason, select.text, select.spans["from"], next(hints, None))
    for stream in streams:
        is_endless = stream.window is None and isinstance(stream.info, StreamInfo)
        if is_endless and context.keeper and not context.may_grow:
            remedy = f"add {_window_at_the_end(select)}`[RANGE 1 MINUTE]` after `{stream.alias}`"
            reason = f"window missing on {context.keeper}: `{stream.alias}` would have to be kept for ever; {remedy}"
            raise PlanError(reason, select.text, stream.span)


def _hint(source: Source) -> str | None:
    """How a table could be a stream."""
    return source.info.hint if isinstance(source.info, RelationInfo) else None


def _window_at_the_end(select: ParsedSelect) -> str:
    """Part of a remedy; empty where windows of pairs may already stand there."""
    selects = select.tree.root().find_all(exp.Select)
    return "" if any("pair_windows" in each.meta for each in selects) else "`WINDOW 1 MINUTE` at the end or "
