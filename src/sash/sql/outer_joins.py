"""FROM with outer joins, made of what all else is made of: inner joins, lookups in relations, UNION ALL and tests.

    A LEFT JOIN R                 R a relation: each row of A is looked up when it comes (`OuterLookup`)
    A LEFT JOIN B ON c            SELECT A.*, B.* FROM A JOIN B ON c
                                  UNION ALL SELECT A.*, NULL … FROM A WHERE NOT EXISTS (SELECT 1 FROM B WHERE c)
    A FULL JOIN B ON c            that, UNION ALL SELECT NULL …, B.* FROM B WHERE NOT EXISTS (SELECT 1 FROM A WHERE c)
    A SEMI JOIN B ON c            A WHERE EXISTS (SELECT 1 FROM B WHERE c)
    A ASOF JOIN B ON c            both in an operator of their own (`sql/asof_joins.py`)

The law is the snapshot's, as each part of this has it: a row without a partner enters at once, is taken back when its
first partner comes, and returns when the last one has left before it. Rows of both parts of a UNION ALL are counted, so
equal rows are there as often as they should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NoReturn

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.asof_joins import AsofBinder, deciding_columns, refuse_tables
from sash.sql.bound_joins import BoundJoin, BoundTree, aliases_in, conditions_in
from sash.sql.bound_query import Block, BoundQuery, OuterLookup
from sash.sql.catalog import UNNESTED, Source
from sash.sql.expressions import ScalarBinder
from sash.sql.from_parts import FromPart, PartMaker
from sash.sql.hashable import is_hashable
from sash.sql.join_trees import ANTI, ASOF, ASOF_LEFT, FULL, INNER, LEFT, RIGHT, SEMI
from sash.sql.partner_tests import PartnerTest, split_by_items


def restructure(query: BoundQuery, trees: Sequence[BoundTree], scalars: ScalarBinder) -> BoundQuery:
    """The query with FROM as joined by the trees; as it is, `conjuncts` and `memberships` are those of WHERE."""
    needed = {(column.table, column.name) for expr in _read_by(query) for column in expr.find_all(exp.Column)}
    needed |= {(column.table, column.name) for expr in conditions_in(trees) for column in expr.find_all(exp.Column)}
    needed |= set(deciding_columns(trees))
    part = _Joining(query, PartMaker(query, scalars, needed)).build(trees)
    return replace(
        part.under(query),
        outputs=part.locate_outputs(query.outputs),
        groups=None if query.groups is None else part.locate_outputs(query.groups),
        aggregates=tuple(each.with_reads(part.locate) for each in query.aggregates),
    )


def _read_by(query: BoundQuery) -> Iterator[exp.Expr]:
    """What a query reads of the items of FROM."""
    yield from (output.expr for output in (query.outputs if query.groups is None else query.groups))
    yield from (expr for each in query.aggregates for expr in each.reads)
    yield from query.conjuncts
    yield from (operand for each in query.memberships for operand in each.operands)


@dataclass(frozen=True, slots=True)
class _Joining:
    """Joins the items of one SELECT's FROM."""

    query: BoundQuery
    maker: PartMaker

    def build(self, trees: Sequence[BoundTree]) -> FromPart:
        """FROM and WHERE as one part."""
        conjuncts = list(self.query.conjuncts)
        parts: list[FromPart] = []
        for tree in trees:
            own, conjuncts = split_by_items(conjuncts, aliases_in(tree))
            parts.append(self._part(tree, own))
        part = reduce(self.maker.beside, parts).where(conjuncts)
        return replace(part, tests=(*part.tests, *self.query.memberships))

    def _part(self, tree: BoundTree, conjuncts: list[exp.Expr]) -> FromPart:
        """A tree as a part, of whose rows those are kept that satisfy all conjuncts."""
        if isinstance(tree, Source):
            return FromPart((tree,), {tree.alias: tree.alias}, tuple(conjuncts))
        if tree.kind == INNER:
            conjuncts = [*conjuncts, *tree.conjuncts]
        # A condition on a side whose rows are never padded may be looked at before the join.
        left: list[exp.Expr] = []
        right: list[exp.Expr] = []
        if tree.kind in (INNER, LEFT, SEMI, ANTI, ASOF, ASOF_LEFT):
            left, conjuncts = split_by_items(conjuncts, aliases_in(tree.left))
        if tree.kind in (INNER, RIGHT):
            right, conjuncts = split_by_items(conjuncts, aliases_in(tree.right))
        sides = self._part(tree.left, left), self._part(tree.right, right)
        return self._joined(tree, *sides).where(conjuncts)

    def _joined(self, join: BoundJoin, left: FromPart, right: FromPart) -> FromPart:
        kind = join.kind
        if kind == INNER:
            return self.maker.beside(left, right)
        if kind == RIGHT:
            left, right, kind = right, left, LEFT
        self._check_tables(join, kind, left, right)
        if not right.has_stream:
            return _looked_up(kind, left, right, join)
        self._check_streams(join, kind, left, right)
        if kind in (ASOF, ASOF_LEFT):
            return AsofBinder(self.maker, join, left, right).bind()
        if kind in (SEMI, ANTI):
            test = PartnerTest(self.maker, join, left, right).bind(is_negated=kind == ANTI)
            return replace(left, tests=(*left.tests, test))
        return self._padded(join, kind, left, right)

    def _padded(self, join: BoundJoin, kind: str, left: FromPart, right: FromPart) -> FromPart:
        """The pairs, and beside them the rows of one side or both that have no partner."""
        both = self.maker.beside(left, right).where(join.conjuncts)
        block: Block = self.maker.block(both)
        for kept, other in ((left, right), (right, left))[: 2 if kind == FULL else 1]:
            test = PartnerTest(self.maker, join, kept, other).bind(is_negated=True)
            alone = replace(kept, tests=(*kept.tests, test))
            block = self.maker.union(block, self.maker.block(alone, padded=both.aliases))
        return self.maker.wrapped(block, both)

    def _check_tables(self, join: BoundJoin, kind: str, left: FromPart, right: FromPart) -> None:
        tables = [part for part in (left, right) if not part.has_stream]
        if tables and kind in (ASOF, ASOF_LEFT):
            refuse_tables(join, tables, self.query)
        names = ", ".join(f"`{source.alias}`" for part in tables for source in part.sources)
        if right in tables and len(right.sources) > 1:
            self._refuse(join, f"cannot look up {names} at once", "join them in a subquery, which is one table")
        if left in tables or (tables and kind == FULL):
            reason = f"would have to put out rows of the table {names} that no row of a stream has asked for"
            self._refuse(join, reason, "declare it as a stream, with a window that holds all of it")

    def _check_streams(self, join: BoundJoin, kind: str, left: FromPart, right: FromPart) -> None:
        if self.query.window_graph is not None:
            remedy = "give each stream a window of its own, as in `[RANGE 1 MINUTE]`"
            self._refuse(join, "of streams cannot stand beside windows of pairs", remedy)
        ordered = [each.function.upper() for each in self.query.aggregates if each.is_timed]
        if ordered and kind not in (SEMI, ANTI):
            remedy = f"order it, as in `{ordered[0]}(x ORDER BY x)`"
            self._refuse(join, f"of streams has no order of rows for `{ordered[0]}` to go by", remedy)
        kept = left.aliases | right.aliases if kind in (FULL, ASOF, ASOF_LEFT) else left.aliases
        for alias, name in self.maker.columns(kept):
            output = self.maker.column(alias, name)
            if not is_hashable(output.type):
                reason = f"of streams cannot tell values of `{alias}.{name}` apart, whose type is {output.sql_type}"
                self._refuse(join, reason, "leave the column out, or cast it in a subquery")

    def _refuse(self, join: BoundJoin, reason: str, remedy: str) -> NoReturn:
        is_made = isinstance(join.right, Source) and join.right.alias.startswith(UNNESTED)
        what = "a lookup in a subquery" if is_made else f"`{join.kind} JOIN`"
        raise PlanError(f"{what} {reason}; {remedy}", self.query.text, join.span)


def _looked_up(kind: str, left: FromPart, right: FromPart, join: BoundJoin) -> FromPart:
    """A relation beside what its rows are looked up for."""
    (relation,) = right.sources
    lookup = OuterLookup(relation.alias, kind, (*join.conjuncts, *right.conjuncts))
    places = left.places | right.places if kind == LEFT else left.places
    return replace(left, sources=(*left.sources, relation), places=places, lookups=(*left.lookups, lookup))
