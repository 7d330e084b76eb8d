"""Parts of FROM while it is taken apart: what they are made of, and how a part becomes a query of its own.

In the user's query columns are `alias.column`. In a part that has become a subquery, `_joined A+B`, the column `A.x` is
called just that, so that outside it is `"_joined A+B"."A.x"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from sash.sql.bound_query import Block, BoundQuery, BoundSet, MembershipCondition, OuterLookup, Output
from sash.sql.casts import cast_to
from sash.sql.catalog import JOINED, Source
from sash.sql.expressions import ScalarBinder
from sash.sql.scope import Aliases, read
from sash.sql.sources import derive

NOTHING = Output("_nothing", exp.Literal.number(0), pa.int32(), "INTEGER")
"""A column of a query that is asked for none."""


@dataclass(frozen=True, slots=True)
class FromPart:
    """Some items of FROM, joined: what a SELECT may have in FROM and WHERE.

    Expressions name columns as the user's query does; `places` says in which source the columns of an item are found,
    which is itself, or the subquery that it has become a part of.
    """

    sources: tuple[Source, ...]
    places: dict[str, str]
    conjuncts: tuple[exp.Expr, ...] = ()
    lookups: tuple[OuterLookup, ...] = ()
    tests: tuple[MembershipCondition, ...] = ()

    @property
    def aliases(self) -> Aliases:
        return frozenset(self.places)

    @property
    def has_stream(self) -> bool:
        return any(source.is_stream for source in self.sources)

    def where(self, conjuncts: Iterable[exp.Expr]) -> FromPart:
        return replace(self, conjuncts=(*self.conjuncts, *conjuncts))

    def locate(self, expr: exp.Expr) -> exp.Expr:
        """An expression of the user's query over the sources of this part."""
        return expr.transform(self._locate_column)

    def locate_outputs(self, outputs: Iterable[Output]) -> tuple[Output, ...]:
        return tuple(replace(output, expr=self.locate(output.expr)) for output in outputs)

    def under(self, query: BoundQuery) -> BoundQuery:
        """The query with this part as its FROM and WHERE."""
        lookups = (replace(each, conjuncts=tuple(map(self.locate, each.conjuncts))) for each in self.lookups)
        tests = (replace(each, operands=tuple(map(self.locate, each.operands))) for each in self.tests)
        conjuncts = tuple(map(self.locate, self.conjuncts))
        return replace(
            query, sources=self.sources, conjuncts=conjuncts, lookups=tuple(lookups), memberships=tuple(tests)
        )

    def _locate_column(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or self.places.get(node.table, node.table) == node.table:
            return node
        name = exp.to_identifier(f"{node.table}.{node.name}", quoted=True)
        name.meta.update(node.this.meta)
        return exp.Column(this=name, table=exp.to_identifier(self.places[node.table], quoted=True))


@dataclass
class PartMaker:
    """Makes queries of the parts of one SELECT's FROM."""

    query: BoundQuery
    scalars: ScalarBinder
    needed: set[tuple[str, str]]
    """The columns that are read of any item, by alias and name."""
    _sources: dict[str, Source] = field(init=False)
    _taken: set[str] = field(init=False, default_factory=set[str])

    def __post_init__(self) -> None:
        self._sources = {source.alias: source for source in self.query.sources}

    def beside(self, left: FromPart, right: FromPart) -> FromPart:
        """Both in an inner join; lookups come last in a SELECT, so what has some becomes a subquery before."""
        left, right = (self.wrapped(self.block(side), side) if side.lookups else side for side in (left, right))
        return FromPart(
            left.sources + right.sources,
            left.places | right.places,
            left.conjuncts + right.conjuncts,
            tests=left.tests + right.tests,
        )

    def columns(self, aliases: Aliases) -> list[tuple[str, str]]:
        """The columns that are needed of some items, in the order of FROM."""
        return [
            (alias, name)
            for alias, source in self._sources.items()
            for name in source.schema.names
            if alias in aliases and (alias, name) in self.needed
        ]

    def column(self, alias: str, name: str) -> Output:
        return replace(self.output(read(self._sources[alias], name)), name=f"{alias}.{name}")

    def output(self, expr: exp.Expr) -> Output:
        scalar = self.scalars.bind(expr)
        return Output(scalar.name, expr, scalar.type, scalar.sql_type)

    def block(self, part: FromPart, padded: Aliases | None = None) -> BoundQuery:
        """A SELECT of all columns that are needed of a part; NULL for those of other items, if it is padded."""
        columns = self.columns(padded or part.aliases)
        found = [(alias, self.column(alias, name)) for alias, name in columns]
        outputs = [
            output if alias in part.aliases else replace(output, expr=cast_to(exp.Null(), output.sql_type))
            for alias, output in found
        ]
        return self.selecting(part, outputs or [NOTHING])

    def selecting(self, part: FromPart, outputs: Sequence[Output]) -> BoundQuery:
        """A SELECT of these columns of a part."""
        query = BoundQuery(self.query.text, (), (), (), spans=self.query.spans)
        return replace(part.under(query), outputs=part.locate_outputs(outputs))

    def union(self, left: Block, right: Block) -> BoundSet:
        """The rows of both, whose columns are the same."""
        outputs = [replace(each, expr=exp.column(exp.to_identifier(each.name, quoted=True))) for each in left.outputs]
        return BoundSet(self.query.text, "union", True, left, right, tuple(outputs), spans=self.query.spans)

    def wrapped(self, block: Block, part: FromPart) -> FromPart:
        """A block, whose columns are those of a part, as an item of FROM."""
        alias = f"{JOINED} {'+'.join(part.places)}"
        while alias.lower() in self._taken:
            alias += "+"
        self._taken.add(alias.lower())
        return FromPart((derive(block, alias),), dict.fromkeys(part.places, alias))
