"""A SELECT as parsed: sqlglot's tree taken apart into what binding needs, and nothing let through unread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from sash.errors import ParseError, PlanError, Span
from sash.sql.expressions import span_of
from sash.sql.windows import WindowClause

_READ = {
    exp.Select: {"expressions", "from_", "joins", "where", "hint"},
    exp.Table: {"this", "alias", "joins"},
    exp.TableAlias: {"this"},
    exp.Join: {"this", "on", "using", "kind"},
}
"""The parts of a tree that are read here. A part that is not would silently be left out of the answer."""

_PARTS = {
    "columns": "a list of column names after an alias",
    "db": "a name with a schema",
    "pivots": "`PIVOT`",
    "sample": "`TABLESAMPLE`",
    "side": "an outer join",
}
_KINDS = (None, "INNER", "CROSS")


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """One item of FROM. `using` holds the columns that JOIN … USING equates with those of the items before."""

    name: exp.Identifier
    alias: exp.Identifier | None
    window: WindowClause | None
    using: tuple[exp.Identifier, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ParsedSelect:
    """A SELECT whose names are still the user's. All spans are offsets in `text`, the whole script or query."""

    text: str
    outputs: tuple[exp.Expr, ...]
    sources: tuple[ParsedSource, ...]
    conditions: tuple[exp.Expr, ...]
    window: WindowClause | None = None
    hints: tuple[str, ...] = ()
    emit_changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict)


def read_select(tree: exp.Select, text: str) -> ParsedSelect:
    """Take a SELECT apart; PlanError for anything in it that this version does not run."""
    _refuse_unread(tree, text)
    if tree.args.get("from_") is None:
        raise PlanError("the query reads no stream; add `FROM` and a stream", text, span_of(*tree.expressions))
    joins = list(_joins(tree))
    sources = tuple(_read_source(item, using, text) for item, using in _items(tree, joins))
    hint = tree.args.get("hint")
    return ParsedSelect(
        text=text,
        outputs=tuple(tree.expressions),
        sources=sources,
        conditions=tuple(_conditions(tree, joins)),
        window=tree.meta.get("window"),
        hints=tuple(word.name for word in hint.expressions) if hint else (),
        emit_changes="emit_changes" in tree.meta,
        spans=dict(_spans(tree, sources)),
    )


def _conditions(tree: exp.Select, joins: Iterable[exp.Join]) -> Iterator[exp.Expr]:
    yield from (join.args["on"] for join in joins if join.args.get("on"))
    if where := tree.args.get("where"):
        yield where.this


def _spans(tree: exp.Select, sources: Iterable[ParsedSource]) -> Iterator[tuple[str, Span]]:
    yield "from", Span(min(source.span.start for source in sources), max(source.span.end for source in sources))
    if window := tree.meta.get("window"):
        yield "window", window.span
    clauses = {"select": tree.expressions, "where": [tree.args.get("where")], "hint": [tree.args.get("hint")]}
    for clause, nodes in clauses.items():
        if span := span_of(*filter(None, nodes)):
            yield clause, span


def _joins(node: exp.Expr) -> Iterator[exp.Join]:
    """All joins below a SELECT or table, innermost first: `a JOIN b JOIN c ON … ON …` nests them in its tables."""
    if isinstance(node, exp.Select):
        yield from _joins(node.args["from_"].this)
    for join in node.args.get("joins") or ():
        yield join
        yield from _joins(join.this)


def _items(tree: exp.Select, joins: Iterable[exp.Join]) -> Iterator[tuple[exp.Expr, list[exp.Identifier]]]:
    yield tree.args["from_"].this, []
    for join in joins:
        yield join.this, join.args.get("using") or []


def _read_source(item: exp.Expr, using: list[exp.Identifier], text: str) -> ParsedSource:
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        raise PlanError("only streams and tables can stand in `FROM`; name one", text, span_of(item))
    _refuse_unread(item, text)
    alias = item.args.get("alias")
    windows = [node.meta["window"] for node in (item, alias) if node and "window" in node.meta]
    if len(windows) > 1:
        raise ParseError(f"`{item.name}` has two windows; remove one of them", text, windows[1].span)
    return ParsedSource(
        name=item.this,
        alias=alias.this if alias else None,
        window=windows[0] if windows else None,
        using=tuple(using),
        span=span_of(item.this, *([alias] if alias else [])) or Span(0, 0),
    )


def _refuse_unread(node: exp.Expr, text: str) -> None:
    """Refuse what has a place in sqlglot's tree and none in a ParsedSelect: SAMPLE, PIVOT, LATERAL, `db.name` …"""
    for part, value in node.args.items():
        children = value if isinstance(value, list) else [value]
        if value and (part not in _READ[type(node)] or (part == "kind" and value not in _KINDS)):
            span = span_of(*(child for child in children if isinstance(child, exp.Expr))) or span_of(node)
            name = _PARTS.get(part, f"`{part.strip('_').upper()}`")
            raise PlanError(f"{name} cannot run in this version; remove it", text, span)
        for child in children:
            if type(child) in (exp.Join, exp.TableAlias):
                _refuse_unread(child, text)
