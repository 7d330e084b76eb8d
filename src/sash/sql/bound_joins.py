"""The joins of FROM with every name found: what each reads, and which columns USING makes one of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from sash.errors import BindError, Span
from sash.sql.aggregates import refuse_aggregates
from sash.sql.as_of import period_conditions
from sash.sql.catalog import Source
from sash.sql.expressions import span_of, split_conjuncts
from sash.sql.join_trees import ANTI, ASOF, ASOF_LEFT, INNER, SEMI, ParsedJoin, ParsedTree
from sash.sql.parsed import ParsedSelect
from sash.sql.scope import Aliases, Scope


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """A join of two parts of FROM; `conjuncts` are ON, or what USING and NATURAL mean, taken apart at AND."""

    kind: str
    left: BoundTree
    right: BoundTree
    conjuncts: tuple[exp.Expr, ...]
    span: Span


BoundTree: TypeAlias = BoundJoin | Source


def sources_of(tree: BoundTree) -> Iterator[Source]:
    """The items of FROM in a tree, in their order."""
    if isinstance(tree, Source):
        yield tree
    else:
        yield from sources_of(tree.left)
        yield from sources_of(tree.right)


def aliases_in(tree: BoundTree) -> Aliases:
    return frozenset(source.alias for source in sources_of(tree))


def joins_in(trees: Iterable[BoundTree]) -> Iterator[BoundJoin]:
    """The joins of trees, those within others first."""
    for tree in trees:
        if isinstance(tree, BoundJoin):
            yield from joins_in((tree.left, tree.right))
            yield tree


def conditions_in(trees: Iterable[BoundTree]) -> Iterator[exp.Expr]:
    """What any of the joins asks of rows."""
    return (conjunct for join in joins_in(trees) for conjunct in join.conjuncts)


def bind_trees(select: ParsedSelect, sources: tuple[Source, ...], scope: Scope) -> tuple[BoundTree, ...]:
    """The joins of a SELECT. From then on the scope knows which columns were merged, and which cannot be seen."""
    return tuple(_bind_tree(tree, select, sources, scope) for tree in select.trees)


def _bind_tree(tree: ParsedTree, select: ParsedSelect, sources: tuple[Source, ...], scope: Scope) -> BoundTree:
    if isinstance(tree, int):
        return sources[tree]
    left, right = (_bind_tree(side, select, sources, scope) for side in (tree.left, tree.right))
    span = next(iter(sources_of(right))).span
    sides = aliases_in(left), aliases_in(right)
    names = list(tree.using)
    if tree.is_natural:
        names = scope.common_names(*sides)
        if not names:
            reason = (
                "`NATURAL JOIN` finds no column that both sides have; use `JOIN … ON`, or `CROSS JOIN` if all is meant"
            )
            raise BindError(reason, select.text, span)
    if tree.kind != INNER and not names and tree.on is None:
        raise BindError(f"`{tree.kind} JOIN` does not say by what; put `ON` or `USING` behind it", select.text, span)
    merged: list[exp.Expr] = [scope.merge(name, sides, tree.kind) for name in names]
    if merged and tree.kind in (ASOF, ASOF_LEFT):
        # As in DuckDB, the last one is the time: the partner's is not later.
        merged[-1] = exp.GTE(**merged[-1].args)
    periods = _periods((left, right), sides, select)
    conjuncts = (*merged, *periods, *_bind_on(tree, select, scope, sides))
    if tree.kind in (SEMI, ANTI):
        scope.hide(sides[1])
    return BoundJoin(tree.kind, left, right, conjuncts, span)


def _bind_on(
    tree: ParsedJoin, select: ParsedSelect, scope: Scope, sides: tuple[Aliases, Aliases]
) -> Iterator[exp.Expr]:
    for part in split_conjuncts(tree.on):
        refuse_aggregates(part, select.text, "`WHERE` or `ON`", "use `HAVING`, or aggregate in a subquery in `FROM`")
        conjunct = scope.resolve(part)
        _check_joined(conjunct, "`ON`", sides, select)
        yield conjunct


def _periods(parts: Iterable[BoundTree], sides: tuple[Aliases, Aliases], select: ParsedSelect) -> Iterator[exp.Expr]:
    """What FOR SYSTEM_TIME asks of the rows of a table: the join that it stands in looks for such rows alone."""
    for part in parts:
        for condition in period_conditions(part) if isinstance(part, Source) else ():
            _check_joined(condition, "`FOR SYSTEM_TIME`", sides, select)
            yield condition


def _check_joined(condition: exp.Expr, clause: str, sides: tuple[Aliases, Aliases], select: ParsedSelect) -> None:
    for column in condition.find_all(exp.Column):
        if column.table not in sides[0] | sides[1]:
            remedy = "join it before, with `CROSS JOIN` in place of a comma"
            reason = f"{clause} cannot use `{column.table}`, which is not joined yet where it stands; {remedy}"
            raise BindError(reason, select.text, span_of(column) or span_of(condition))
