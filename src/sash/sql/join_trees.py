"""How the items of FROM are joined, as written.

    FROM c, a LEFT JOIN b ON … JOIN d ON …        two trees:  c    and    (a LEFT b) JOIN d
    FROM a LEFT JOIN b JOIN d ON … ON …           one:        a LEFT (b JOIN d)
    FROM a LEFT JOIN (b JOIN d ON …) ON …         the same

Where all joins are inner ones the trees do not matter: every condition holds for every row of the answer. What stands
beside an outer join has to know which side of it is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from sqlglot import exp

INNER, LEFT, RIGHT, FULL, SEMI, ANTI = "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"
ASOF, ASOF_LEFT = "ASOF", "ASOF LEFT"


@dataclass(frozen=True, slots=True)
class ParsedJoin:
    """Two parts of FROM that are joined."""

    kind: str
    """INNER, LEFT, RIGHT, FULL, SEMI, ANTI, ASOF or ASOF LEFT; a cross join is an inner one."""
    left: ParsedTree
    right: ParsedTree
    on: exp.Expr | None
    using: tuple[exp.Identifier, ...]
    is_natural: bool


ParsedTree: TypeAlias = ParsedJoin | int
"""A join, or a source by its number in FROM."""


def read_join_trees(select: exp.Select) -> tuple[ParsedTree, ...]:
    """FROM as trees, one for each part between commas; sources are numbered as they are written."""
    numbers = count()
    trees = [_item(select.args["from_"].this, numbers)]
    for join in select.args.get("joins") or ():
        if join.meta.get("is_comma"):
            trees.append(_item(join.this, numbers))
        else:
            trees[-1] = _join(trees[-1], join, numbers)
    return tuple(trees)


def joins_of(tree: ParsedTree) -> Iterator[ParsedJoin]:
    """The joins of a tree, those within others first."""
    if isinstance(tree, ParsedJoin):
        yield from joins_of(tree.left)
        yield from joins_of(tree.right)
        yield tree


def numbers_of(tree: ParsedTree) -> list[int]:
    """The sources of a tree, in the order of FROM."""
    return [tree] if isinstance(tree, int) else [*numbers_of(tree.left), *numbers_of(tree.right)]


def are_plain(trees: tuple[ParsedTree, ...]) -> bool:
    """Whether all joins are inner ones that say what they join by."""
    return all(join.kind == INNER and not join.is_natural for tree in trees for join in joins_of(tree))


def within_brackets(item: exp.Expr) -> exp.Expr | None:
    """What stands between the brackets of `(a JOIN b ON …)`, which is no subquery and has no name."""
    if not isinstance(item, exp.Subquery) or item.args.get("alias"):
        return None
    inner = item.this
    is_item = inner.args.get("alias") or within_brackets(inner) if isinstance(inner, exp.Subquery) else None
    return inner if is_item or not isinstance(inner, exp.Query) else None


def _item(item: exp.Expr, numbers: Iterator[int]) -> ParsedTree:
    inner = within_brackets(item)
    tree: ParsedTree = next(numbers) if inner is None else _item(inner, numbers)
    for join in item.args.get("joins") or ():
        tree = _join(tree, join, numbers)
    return tree


def _join(left: ParsedTree, join: exp.Join, numbers: Iterator[int]) -> ParsedJoin:
    side, kind = join.args.get("side"), join.args.get("kind")
    if join.args.get("method") == ASOF:
        kind = ASOF_LEFT if side == LEFT else ASOF
    else:
        kind = side or (kind if kind in (SEMI, ANTI) else INNER)
    return ParsedJoin(
        kind,
        left,
        _item(join.this, numbers),
        join.args.get("on"),
        tuple(join.args.get("using") or ()),
        join.args.get("method") == "NATURAL",
    )
