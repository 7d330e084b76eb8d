"""What a subquery compares with the query around it: the conjuncts of its WHERE that use columns from outside.

    SELECT MAX(v) FROM R WHERE R.k = A.k AND R.v > 5      R.k = A.k; inside of it R.k, outside A.k
    SELECT 1 FROM R WHERE R.v > A.v                       R.v > A.v; no equality

A name is looked for inside first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.expressions import span_of, split_conjuncts
from sash.sql.parsed import ParsedSelect
from sash.sql.scope import Scope, is_loop_variable

_KEY = "key"


@dataclass(frozen=True, slots=True)
class Correlation:
    """A subquery without the conjuncts that use columns from outside, and these."""

    query: ParsedSelect
    parts: tuple[exp.Expr, ...] = ()
    pairs: tuple[tuple[exp.Expr, exp.Expr], ...] = ()
    """Of parts that are equalities: their side inside and their side outside."""
    inner: Scope | None = None

    @property
    def is_by_equality(self) -> bool:
        return len(self.pairs) == len(self.parts)

    def require_equalities(self, text: str) -> None:
        """PlanError where something from outside is compared otherwise."""
        if not self.is_by_equality:
            known = [pair[0].parent for pair in self.pairs]
            part = next(each for each in self.parts if each.unnest() not in known)
            reason = (
                "only `[NOT] EXISTS` and `[NOT] IN` by themselves in `WHERE`, or with AND, can compare columns from "
                "outside otherwise than by equality; put it there, or `LEFT JOIN` it and `GROUP BY` a key of the rows"
            )
            raise PlanError(reason, text, span_of(part))

    def keyed(self, alias: str) -> tuple[ParsedSelect, list[exp.Expr], list[str]]:
        """The subquery with the inner sides of its equalities as columns, these over an item of that alias, and the
        names of the columns.
        """
        names = [f"{_KEY}{place}" for place in range(len(self.pairs))]
        conditions: list[exp.Expr] = [
            exp.EQ(this=column_of(alias, name), expression=outside.copy())
            for name, (_, outside) in zip(names, self.pairs)
        ]
        return replace(self.query, outputs=tuple(inside for inside, _ in self.pairs)), conditions, names

    def over(self, alias: str) -> tuple[ParsedSelect, list[exp.Expr], list[str]]:
        """The same of any conditions: the columns are all that these read of the inside."""
        columns: list[exp.Expr] = []

        def move(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or self.inner is None or not self.inner.has(node):
                return node
            if node not in columns:
                columns.append(node.copy())
            return column_of(alias, f"{_KEY}{columns.index(node)}", node)

        conditions = [part.transform(move) for part in self.parts]
        columns = columns or [exp.Literal.number(0)]  # an item of FROM has a column
        names = [f"{_KEY}{place}" for place in range(len(columns))]
        return replace(self.query, outputs=tuple(columns)), conditions, names


def find_correlation(query: ParsedSelect, inner: Scope, outer: Scope) -> Correlation:
    """What the WHERE of a subquery compares with the outside; inner subqueries keep to themselves."""
    plain: list[exp.Expr] = []
    parts: list[exp.Expr] = []
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    for part in split_conjuncts(query.where):
        if part.find(exp.Query) or not uses_outer(part, inner, outer):
            plain.append(part)
            continue
        parts.append(part)
        if pair := split_equality(part, inner, outer):
            pairs.append(pair)
    made = replace(query, written=query.written or query)
    if not parts:
        return Correlation(made)
    where = exp.and_(*plain, copy=True) if plain else None
    return Correlation(replace(made, where=where), tuple(parts), tuple(pairs), inner)


def split_equality(part: exp.Expr, inner: Scope, outer: Scope) -> tuple[exp.Expr, exp.Expr] | None:
    """The side of an equality that reads the inside alone, and the one that reads the outside."""
    equality = part.unnest()
    if not isinstance(equality, exp.EQ):
        return None
    for inside, outside in ((equality.this, equality.expression), (equality.expression, equality.this)):
        is_apart = not uses_outer(inside, inner, outer) and all(not inner.has(column) for column in columns_in(outside))
        if is_apart and columns_in(inside):
            return inside, outside
    return None


def uses_outer(expr: exp.Expr, inner: Scope, outer: Scope) -> bool:
    return any(not inner.has(column) and outer.has(column) for column in columns_in(expr))


def columns_in(expr: exp.Expr) -> list[exp.Column]:
    return [column for column in expr.find_all(exp.Column) if not is_loop_variable(column)]


def column_of(alias: str, name: str, origin: exp.Expr | None = None) -> exp.Column:
    """A column of an item of FROM, as if it stood where another did."""
    column = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
    span = span_of(origin) if origin is not None else None
    if span:
        column.meta.update(start=span.start, end=span.end - 1)
    return column
