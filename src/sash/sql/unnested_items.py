"""The items of FROM that subqueries in expressions have become, and how they are joined with what was there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from sash.errors import PlanError, Span
from sash.sql.catalog import UNNESTED
from sash.sql.expressions import span_of
from sash.sql.join_trees import INNER, ParsedJoin, ParsedTree
from sash.sql.parsed import ParsedSelect, ParsedSource


@dataclass(frozen=True, slots=True)
class _Joined:
    """A subquery that has become an item of FROM."""

    kind: str
    source: ParsedSource
    on: exp.Expr | None = None


class UnnestedItems:
    """What has been taken out of one SELECT so far."""

    def __init__(self, text: str):
        self.lifted: list[ParsedSource] = []
        """Those that are joined with groups, not with what is grouped."""
        self.is_lifting = False
        """Whether what is added now stands beside aggregates."""
        self._text = text
        self._joined: list[_Joined] = []
        self._n_aliases = 0

    def __bool__(self) -> bool:
        return bool(self._joined or self.lifted)

    @property
    def sources(self) -> list[ParsedSource]:
        """The items of FROM, in the order of their numbers."""
        return [each.source for each in self._joined]

    def next_alias(self) -> str:
        self._n_aliases += 1
        return f"{UNNESTED} {self._n_aliases}"

    def add(
        self,
        kind: str,
        alias: str,
        query: ParsedSelect,
        names: Sequence[str],
        node: exp.Expr,
        conditions: Sequence[exp.Expr],
        unique: tuple[str, ...] | None = None,
    ) -> None:
        """Joins a query, whose columns get these names, in the place of a subquery that stands at `node`."""
        name = exp.to_identifier(alias, quoted=True)
        columns = tuple(exp.to_identifier(each, quoted=True) for each in names)
        span = span_of(node) or Span(0, 0)
        source = ParsedSource(name, name, None, (), span, query, columns=columns, is_unnested=True, unique=unique)
        if not self.is_lifting:
            self._joined.append(_Joined(kind, source, all_of(conditions)))
        elif kind == INNER:
            self.lifted.append(source)
        else:
            reason = "beside aggregates, a subquery cannot be compared with anything"
            remedy = (
                "group by what it says in a query around the one that says it, or aggregate in a subquery in `FROM`"
            )
            raise PlanError(f"{reason}; {remedy}, and put this one into the query around that", self._text, span)

    def joined_to(self, trees: Sequence[ParsedTree], first: int) -> tuple[ParsedTree, ...]:
        """FROM with the items, which are numbered from `first` on: first what is joined with every row, then what is
        looked up.
        """
        numbered = list(enumerate(self._joined, first))
        plain = [*trees, *(number for number, each in numbered if each.kind == INNER)]
        others = [(number, each) for number, each in numbered if each.kind != INNER]
        if not others:
            return tuple(plain)
        tree = reduce(lambda left, right: ParsedJoin(INNER, left, right, None, (), False), plain)
        for number, each in others:
            tree = ParsedJoin(each.kind, tree, number, each.on, (), False)
        return (tree,)


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """All conditions as one, if there are any."""
    return exp.and_(*conditions, copy=True) if conditions else None


def without_on(trees: Sequence[ParsedTree]) -> tuple[ParsedTree, ...]:
    """Inner joins whose conditions stand in WHERE."""
    return tuple(
        tree
        if isinstance(tree, int)
        else replace(tree, left=without_on((tree.left,))[0], right=without_on((tree.right,))[0], on=None)
        for tree in trees
    )
