"""Takes sqlglot's tree of a query apart into what binding needs, and lets nothing through unread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from sqlglot import exp

from sash.errors import ParseError, PlanError, Span
from sash.sql.expressions import span_of
from sash.sql.join_trees import read_join_trees, within_brackets
from sash.sql.parsed import NamedQueries, ParsedQuery, ParsedSelect, ParsedSet, ParsedSource, refuse_statement_clauses
from sash.sql.parsed_ranks import read_ranks
from sash.sql.rank_conditions import refuse_windows

_RANKS = ("order", "limit", "offset")
_READ: dict[type[exp.Expr], set[str]] = {
    exp.Select: {"expressions", "from_", "joins", "where", "hint", "distinct", "group", "having", "with_"}
    | {"qualify", *_RANKS},
    exp.Union: {"this", "expression", "distinct", "with_", *_RANKS},
    exp.Except: {"this", "expression", "distinct", "with_", *_RANKS},
    exp.Intersect: {"this", "expression", "distinct", "with_", *_RANKS},
    exp.With: {"expressions"},
    exp.CTE: {"this", "alias", "materialized"},
    exp.Subquery: {"this", "alias", "joins"},
    exp.Table: {"this", "alias", "joins", "version"},
    exp.TableAlias: {"this", "columns"},
    exp.Join: {"this", "on", "using", "kind", "side", "method"},
    exp.Distinct: {"on"},
    exp.Group: {"expressions", "all"},
}
"""The parts of a tree that are read here. A part that is not would silently be left out of the answer."""
_PARTS = {
    "db": ("a name with a schema", "declare the table or stream under a name of its own"),
    "pivots": ("`PIVOT`", "write an aggregate with `FILTER (WHERE …)` for each column"),
    "recursive": ("`WITH RECURSIVE`", "write its steps as joins, each with the one before"),
    "sample": ("`TABLESAMPLE`", "say in `WHERE` which rows are meant"),
}
_KINDS = (None, "INNER", "CROSS", "OUTER", "SEMI", "ANTI")
_OPERATIONS: dict[type[exp.SetOperation], str] = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}


def read_query(tree: exp.Expr, text: str, named: NamedQueries | None = None) -> ParsedQuery:
    """Take a query apart; PlanError for anything in it that this version does not run."""
    while isinstance(tree, exp.Subquery):
        _refuse_unread(tree, text)
        tree = tree.this
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        raise PlanError("only a SELECT can stand here; write one", text, span_of(tree))
    _refuse_unread(tree, text)
    named = {**(named or {}), **_read_with(tree, text)}
    return _read_select(tree, text, named) if isinstance(tree, exp.Select) else _read_set(tree, text, named)


def _read_with(tree: exp.Query, text: str) -> dict[str, exp.Query]:
    with_ = tree.args.get("with_")
    if not with_:
        return {}
    _refuse_unread(with_, text)
    queries: dict[str, exp.Query] = {}
    for item in with_.expressions:
        _refuse_unread(item, text)
        if item.alias.lower() in queries:
            raise ParseError(f"`{item.alias}` stands twice in `WITH`; rename one", text, span_of(item.args["alias"]))
        queries[item.alias.lower()] = item.this
        item.this.meta["columns"] = item.args["alias"].args.get("columns") or []
    return queries


def _read_set(tree: exp.SetOperation, text: str, named: NamedQueries) -> ParsedSet:
    left, right = (read_query(side, text, named) for side in (tree.this, tree.expression))
    for side in (left, right):
        refuse_statement_clauses(side, "a part of a set operation", hints_too=side is right)
    spans = {"window": tree.meta["window"].span} if "window" in tree.meta else {}
    spans |= {clause: span for clause, span in left.spans.items() if clause in ("select", "from", "hint")}
    return ParsedSet(
        text=text,
        tree=tree,
        operation=_OPERATIONS[type(tree)],
        word=f"{tree.meta['word']}{'' if tree.args.get('distinct') else ' ALL'}",
        is_all=not tree.args.get("distinct"),
        left=left,
        right=right,
        window=tree.meta.get("window"),
        hints=left.hints,
        emit_changes="emit_changes" in tree.meta,
        spans=spans,
        named=named,
        ranks=read_ranks(tree, text),
    )


def _read_select(tree: exp.Select, text: str, named: NamedQueries) -> ParsedSelect:
    if tree.args.get("from_") is None:
        raise PlanError("the query reads no stream; add `FROM` and a stream", text, span_of(*tree.expressions))
    for clause in filter(None, (tree.args.get(each) for each in ("where", "group", "having"))):
        refuse_windows(clause, text)
    joins = list(_joins(tree))
    items = enumerate(_items(tree, joins))
    sources = tuple(_read_source(item, using, text, named, number) for number, (item, using) in items)
    hint, having, group = (tree.args.get(clause) for clause in ("hint", "having", "group"))
    return ParsedSelect(
        text=text,
        tree=tree,
        outputs=tuple(tree.expressions),
        sources=sources,
        on=tuple(join.args["on"] for join in joins if join.args.get("on")),
        trees=read_join_trees(tree),
        where=tree.args["where"].this if tree.args.get("where") else None,
        groups=tuple(group.expressions) if group else None,
        groups_all=bool(group and group.args.get("all")),
        having=having.this if having else None,
        is_distinct=bool(tree.args.get("distinct")),
        window=tree.meta.get("window"),
        pair_windows=tree.meta.get("pair_windows", ()),
        hints=tuple(word.name for word in hint.expressions) if hint else (),
        emit_changes="emit_changes" in tree.meta,
        spans=dict(_spans(tree, sources)),
        named=named,
        ranks=read_ranks(tree, text),
    )


def _spans(tree: exp.Select, sources: Iterable[ParsedSource]) -> Iterator[tuple[str, Span]]:
    yield "from", Span(min(source.span.start for source in sources), max(source.span.end for source in sources))
    if window := tree.meta.get("window"):
        yield "window", window.span
    if pairs := tree.meta.get("pair_windows"):
        yield "window", Span(pairs[0].span.start, pairs[-1].span.end)
    clauses = {"select": tree.expressions} | {clause: [tree.args.get(clause)] for clause in ("where", "hint")}
    for clause, nodes in clauses.items():
        if span := span_of(*filter(None, nodes)):
            yield clause, span


def _joins(node: exp.Expr) -> Iterator[exp.Join]:
    """All joins below a SELECT or table, innermost first: `a JOIN b JOIN c ON … ON …` nests them in its tables."""
    if isinstance(node, exp.Select):
        yield from _joins(node.args["from_"].this)
    if (inner := within_brackets(node)) is not None:
        yield from _joins(inner)
    for join in node.args.get("joins") or ():
        yield join
        yield from _joins(join.this)


def _items(tree: exp.Select, joins: Iterable[exp.Join]) -> Iterator[tuple[exp.Expr, list[exp.Identifier]]]:
    yield _first_within(tree.args["from_"].this), []
    for join in joins:
        yield _first_within(join.this), join.args.get("using") or []


def _first_within(item: exp.Expr) -> exp.Expr:
    """The item that a join in brackets begins with."""
    while (inner := within_brackets(item)) is not None:
        item = inner
    return item


def _read_source(
    item: exp.Expr, using: list[exp.Identifier], text: str, named: NamedQueries, number: int
) -> ParsedSource:
    """An item of FROM; a subquery without a name gets one as in DuckDB."""
    is_subquery = isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query)
    if not is_subquery and not (isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier)):
        raise PlanError("only streams, tables and subqueries can stand in `FROM`; name one", text, span_of(item))
    _refuse_unread(item, text)
    alias = item.args.get("alias")
    name = (alias and alias.this) if is_subquery else item.this
    if not isinstance(name, exp.Identifier):
        name = exp.to_identifier(f"unnamed_subquery{number + 1 if number else ''}")
    windows = [node.meta["window"] for node in (item, alias) if node and "window" in node.meta]
    if len(windows) > 1:
        raise ParseError(f"`{item.name}` has two windows; remove one of them", text, windows[1].span)
    return ParsedSource(
        name=name,
        alias=alias.this if alias else None,
        window=windows[0] if windows else None,
        using=tuple(using),
        span=span_of(item if is_subquery else item.this, *([alias] if alias else [])) or Span(0, 0),
        query=_read_subquery(item, text, named),
        as_of=item.args["version"].expression if item.args.get("version") else None,
        columns=tuple(_read_names(item, alias, named)),
    )


def _read_names(item: exp.Expr, alias: exp.Expr | None, named: NamedQueries) -> list[exp.Identifier]:
    """The names that columns are given behind an alias, and behind those the ones that WITH gives."""
    own: list[exp.Identifier] = (alias.args.get("columns") if alias else None) or []
    given: list[exp.Identifier] = []
    if not isinstance(item, exp.Subquery) and item.name.lower() in named:
        given = named[item.name.lower()].meta.get("columns", [])
    return [*own, *given[len(own) :]]


def _read_subquery(item: exp.Expr, text: str, named: NamedQueries) -> ParsedQuery | None:
    """The query behind an item of FROM, if it is one or is called like one."""
    if isinstance(item, exp.Subquery):
        return read_query(item.this, text, named)
    name = item.name.lower()
    if name not in named:
        return None
    earlier = dict(list(named.items())[: list(named).index(name)])
    return read_query(named[name], text, earlier)


def _refuse_unread(node: exp.Expr, text: str) -> None:
    """Refuse what has a place in sqlglot's tree and none in a ParsedQuery: SAMPLE, PIVOT, LATERAL, `db.name` …"""
    for part, value in node.args.items():
        children = cast(list[Any], value) if isinstance(value, list) else [value]
        if value and (part not in _READ[type(node)] or (part == "kind" and value not in _KINDS)):
            span = span_of(*(child for child in children if isinstance(child, exp.Expr))) or span_of(node)
            name, remedy = _PARTS.get(part, (f"`{part.strip('_').upper()}`", "write the query without it"))
            raise PlanError(f"{name} cannot run in this version; {remedy}", text, span)
        for child in children:
            if type(child) in (exp.Join, exp.TableAlias, exp.Distinct, exp.Group):
                _refuse_unread(child, text)
