"""Parsed query to bound query: every name found, every type known, every stream with its window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sash.errors import BindError, PlanError, Span, suggest
from sash.sql import duck
from sash.sql.expressions import ScalarBinder, span_of
from sash.sql.parsed import ParsedSelect, ParsedSource
from sash.sql.query import BoundQuery, Catalog, CountWindow, Output, Source, Window
from sash.sql.scope import Scope, column_in

_RESERVED = ("_op", "_ts", "_expires")
_RESERVED_PREFIX = "_id."


def bind(select: ParsedSelect, catalog: Catalog) -> BoundQuery:
    """What a parsed query means over the streams and relations of a catalog.

    Raises BindError where a name or a type is wrong, PlanError where the query cannot run.
    """
    sources = _bind_sources(select, catalog)
    _check_streams(select, sources)
    scope = Scope(sources, select.text)
    conjuncts = [scope.equate(source, name) for source, item in zip(sources, select.sources) for name in item.using]
    conjuncts += [scope.resolve(part) for condition in select.conditions for part in _split(condition)]
    try:
        with ScalarBinder(scope.columns(), select.text) as scalars:
            outputs = tuple(_bind_outputs(select, scope, scalars))
            for conjunct in conjuncts:
                scalars.bind_condition(conjunct)
    except RecursionError:
        raise PlanError("an expression of the query is too long; split it over several columns or queries") from None
    return BoundQuery(
        text=select.text,
        sources=sources,
        outputs=outputs,
        conjuncts=tuple(conjuncts),
        hints=select.hints,
        emit_changes=select.emit_changes,
        spans=select.spans,
    )


def _bind_sources(select: ParsedSelect, catalog: Catalog) -> tuple[Source, ...]:
    sources: dict[str, Source] = {}
    for item in select.sources:
        source = _bind_source(item, select, catalog)
        other = sources.get(source.alias.lower())
        if other is not None:
            name = item.name.name
            example = f"`{name} {source.alias}2`" if item.alias else f"`{name} A, {name} B`"
            reason = f"`{source.alias}` stands twice in `FROM`; give each an alias of its own, as in {example}"
            raise BindError(reason, select.text, item.span)
        sources[source.alias.lower()] = source
    return tuple(sources.values())


def _bind_source(item: ParsedSource, select: ParsedSelect, catalog: Catalog) -> Source:
    name = item.name.name.lower()
    if name not in catalog:
        reason = f"there is no stream or table `{item.name.name}`; {suggest(name, catalog)}"
        raise BindError(reason, select.text, span_of(item.name))
    alias = (item.alias or item.name).name
    source = Source(name=name, alias=alias, info=catalog[name], window=None, span=item.span)
    _check_columns(source, select.text)
    return replace(source, window=_bind_window(source, item, select))


def _check_columns(source: Source, text: str) -> None:
    """DuckDB cannot tell columns apart that differ in case alone, nor an alias with a dot from a column's name."""
    if "." in source.alias:
        raise BindError(f"the alias `{source.alias}` has a dot in it; give another", text, source.span)
    if source.alias.lower().startswith(("_id", "_key")):
        raise BindError(f"the alias `{source.alias}` is one that Sash uses itself; give another", text, source.span)
    seen: dict[str, str] = {}
    for name in source.info.schema.names:
        if name.lower() in seen:
            reason = f"in `{source.name}`, `{seen[name.lower()]}` and `{name}` are one column to SQL; rename one"
            raise BindError(reason, text, source.span)
        seen[name.lower()] = name
    if field := duck.unreadable_column(source.info.schema):
        reason = f"`{source.name}.{field.name}` is {field.type}, which DuckDB cannot read; convert or drop the column"
        raise BindError(reason, text, source.span)


def _bind_window(source: Source, item: ParsedSource, select: ParsedSelect) -> Window | None:
    clause = item.window
    if not source.is_stream:
        if clause is not None:
            written = select.text[clause.span.start : clause.span.end]
            reason = f"`{source.name}` is a table, and only streams have windows; remove `{written}`"
            raise BindError(reason, select.text, clause.span)
        return None
    if clause is None:
        return select.window.window if select.window else None
    if isinstance(clause.window, CountWindow):
        columns = tuple(column_in(source, name, select.text).name for name in clause.partition_by)
        return replace(clause.window, partition_by=columns)
    return clause.window


def _check_streams(select: ParsedSelect, sources: tuple[Source, ...]) -> None:
    streams = [source for source in sources if source.is_stream]
    if not streams:
        raise PlanError("the query reads no stream, only tables; add a stream", select.text, select.spans["from"])
    for stream in streams:
        if stream.window is None and len(streams) > 1:
            remedy = f"add `WINDOW 1 MINUTE` at the end or `[RANGE 1 MINUTE]` after `{stream.alias}`"
            reason = f"window missing on the join: `{stream.alias}` would have to be kept for ever; {remedy}"
            raise PlanError(reason, select.text, stream.span)


def _bind_outputs(select: ParsedSelect, scope: Scope, scalars: ScalarBinder) -> Iterator[Output]:
    taken: set[str] = set()
    for alias, expr, span in _output_exprs(select, scope):
        scalar = scalars.bind(expr)
        name = alias or (expr.name if isinstance(expr, (exp.Column, exp.Dot)) else scalar.name)
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
            reason = f"`{name}` is a name that Sash gives to columns of its own; use `AS` to give another"
            raise BindError(reason, select.text, span)
        yield Output(_unique(name, taken), expr, scalar.type)


def _output_exprs(select: ParsedSelect, scope: Scope) -> Iterator[tuple[str, exp.Expr, Span | None]]:
    """The outputs with their aliases and places, `*` written out."""
    for output in select.outputs:
        span = span_of(output)
        star = output.this if isinstance(output, exp.Column) else output
        if not isinstance(star, exp.Star):
            yield output.alias, scope.resolve(output.unalias()), span
        elif any(star.args.values()):
            reason = "`*` with exceptions cannot run in this version; list the columns"
            raise PlanError(reason, select.text, span)
        else:
            yield from (("", column, span) for column in scope.expand(output))


def _unique(name: str, taken: set[str]) -> str:
    """The name, or like DuckDB's the first of `name_1`, `name_2` … that is free."""
    unique, n_tried = name, 0
    while unique.lower() in taken:
        n_tried += 1
        unique = f"{name}_{n_tried}"
    taken.add(unique.lower())
    return unique


def _split(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The conjuncts of a condition, less those that are simply TRUE."""
    for part in condition.unnest().flatten() if isinstance(condition.unnest(), exp.And) else [condition]:
        inner = part.unnest()
        if isinstance(inner, exp.And):
            yield from _split(inner)
        elif not (isinstance(inner, exp.Boolean) and inner.this):
            yield inner
