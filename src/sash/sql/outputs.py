"""The columns of a SELECT's answer: their expressions, names and types, with or without aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sash.errors import BindError, Span
from sash.sql.aggregates import AggregateBinder, find_aggregate
from sash.sql.bound_query import BoundQuery, Output
from sash.sql.expressions import Scalar, ScalarBinder, span_of, split_conjuncts
from sash.sql.parsed import ParsedSelect
from sash.sql.scope import Scope
from sash.sql.stars import expand_star, star_of

_RESERVED = ("_op", "_ts", "_expires")
_RESERVED_PREFIX = "_id."
IS_HIDDEN = "is_hidden"
"""Where an item of SELECT has in `meta` that it is there for ORDER BY or the like alone."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of SELECT with `*` written out: its alias, if any, and its expression over the columns of FROM."""

    alias: str
    expr: exp.Expr
    span: Span | None
    is_hidden: bool = False
    """Whether it is there for ORDER BY or the like alone."""


def is_aggregating(select: ParsedSelect) -> bool:
    """Whether the answer of a SELECT is made of groups of rows."""
    return select.groups is not None or select.having is not None or any(map(find_aggregate, select.outputs))


def bind_outputs(query: BoundQuery, select: ParsedSelect, scope: Scope, scalars: ScalarBinder) -> BoundQuery:
    """The query with its outputs and, if it aggregates, with its groups, aggregates and HAVING."""
    items = list(_items(select, scope))
    if not items and any(map(star_of, select.outputs)):
        raise BindError("`EXCLUDE` leaves no column to select; leave one", select.text, span_of(*select.outputs))
    if not is_aggregating(select):
        found = [scalars.bind(item.expr) for item in items]
        return replace(query, outputs=tuple(_name_outputs(items, found, select.text)))
    aliases = {item.alias.lower(): item.expr for item in items if item.alias}
    aggregates = AggregateBinder(select, scope, scalars, aliases)
    groups = aggregates.bind_groups([item.expr for item in items if not item.is_hidden])
    rewritten = [replace(item, expr=aggregates.rewrite(item.expr)) for item in items]
    having = tuple(aggregates.rewrite_having(part) for part in split_conjuncts(select.having))
    with ScalarBinder(scope.beside(aggregates.columns()), select.text) as over_groups:
        found = [over_groups.bind(item.expr) for item in rewritten]
        for condition in having:
            over_groups.bind_condition(condition)
    named = [replace(scalar, name=item.alias or aggregates.name_of(item.expr)) for scalar, item in zip(found, items)]
    return replace(
        query,
        outputs=tuple(_name_outputs(rewritten, named, select.text)),
        groups=groups,
        aggregates=aggregates.aggregates,
        having=having,
    )


def _items(select: ParsedSelect, scope: Scope) -> Iterator[Item]:
    aliases = {output.alias.lower(): output.unalias() for output in select.outputs if output.alias}
    for output in select.outputs:
        span = span_of(output)
        if output.meta.get(IS_HIDDEN):
            yield Item(output.alias, scope.resolve(_expand(output.unalias(), scope, aliases)), span, True)
            continue
        if star_of(output) is None:
            yield Item(output.alias, scope.resolve(output.unalias()), span)
        else:
            yield from (Item(alias, expr, span) for alias, expr in expand_star(output, scope, select.text))


def _expand(expr: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """An expression with aliases of SELECT written out, where no column has the name."""

    def expand(node: exp.Expr) -> exp.Expr:
        is_name = isinstance(node, exp.Column) and len(node.parts) == 1 and not scope.has(node)
        return exp.Paren(this=aliases[node.name.lower()].copy()) if is_name and node.name.lower() in aliases else node

    return expr.transform(expand)


def _name_outputs(items: Iterable[Item], scalars: Iterable[Scalar], text: str) -> Iterator[Output]:
    taken: set[str] = set()
    for item, scalar in zip(items, scalars):
        name = item.alias or scalar.name
        if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIX):
            reason = f"`{name}` is a name that Sash gives to columns of its own; use `AS` to give another"
            raise BindError(reason, text, item.span)
        yield Output(_unique(name, taken), item.expr, scalar.type, scalar.sql_type)


def _unique(name: str, taken: set[str]) -> str:
    """The name, or like DuckDB's the first of `name_1`, `name_2` … that is free."""
    unique, n_tried = name, 0
    while unique.lower() in taken:
        n_tried += 1
        unique = f"{name}_{n_tried}"
    taken.add(unique.lower())
    return unique
