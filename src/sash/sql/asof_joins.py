"""ASOF joins: each row of one part of FROM with the newest of its partners in another.

    A ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts        keys A.k = B.k; of B's rows with that key and `B.ts <= A.ts`, the
                                                       one with the greatest `B.ts`

Conditions on B alone are asked before, and so say who may be a partner; those on A alone say who may have one. Between
partners of one time the row itself decides, so all of its columns are read, by which it is the same one in every query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.sql.bound_joins import BoundJoin, BoundTree, joins_in, sources_of
from sash.sql.bound_query import AsofTerms, BoundQuery, BoundSet, Output
from sash.sql.catalog import StreamInfo
from sash.sql.expressions import span_of
from sash.sql.from_parts import FromPart, PartMaker
from sash.sql.hashable import is_hashable
from sash.sql.join_trees import ASOF, ASOF_LEFT
from sash.sql.partner_tests import PartnerTest, split_by_items

OPERATION = "asof join"
_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.GTE: (">=", "<="),
    exp.GT: (">", "<"),
    exp.LTE: ("<=", ">="),
    exp.LT: ("<", ">"),
}
"""As written, and with both sides exchanged."""
_MAX_DIGITS = 18
"""Of decimals that are compared as integers of 64 bits."""
_EXAMPLE = "as in `ON a.k = b.k AND a.ts >= b.ts`"
_REMEDY = "leave out what else there is, or ask in `WHERE` about the partner that was found, if that is meant"


def deciding_columns(trees: Iterable[BoundTree]) -> Iterator[tuple[str, str]]:
    """The columns of items, by alias and name, that decide between partners of one time: all that can be compared."""
    for join in joins_in(trees):
        for source in sources_of(join.right) if join.kind in (ASOF, ASOF_LEFT) else ():
            yield from ((source.alias, field.name) for field in source.schema if is_hashable(field.type))


def refuse_tables(join: BoundJoin, tables: Sequence[FromPart], query: BoundQuery) -> NoReturn:
    """PlanError where a side of the join has no stream."""
    names = ", ".join(f"`{source.alias}`" for part in tables for source in part.sources)
    remedy = (
        "declare when its rows are valid, and read it `FOR SYSTEM_TIME AS OF` the stream's time, or make it a stream"
    )
    raise PlanError(f"`{join.kind} JOIN` is of streams, but {names} is a table; {remedy}", query.text, join.span)


@dataclass(frozen=True, slots=True)
class AsofBinder:
    """Two parts of FROM, both with streams, and the join that asks for the newest partners."""

    maker: PartMaker
    join: BoundJoin
    left: FromPart
    right: FromPart

    def bind(self) -> FromPart:
        own, others = split_by_items(list(self.join.conjuncts), self.left.aliases, constants_too=True)
        inside, between = split_by_items(others, self.right.aliases)
        keys, comparison, times = self._read(between)
        keeps_all = self.join.kind == ASOF_LEFT
        left, right = self.left, self.right.where(inside)
        if own and keeps_all:
            # NULL is nobody's partner: a row that does not satisfy the conditions on itself has none.
            case = exp.Case().when(exp.and_(*own, copy=True), times[0].expr)
            times = replace(times[0], expr=case), times[1]
        elif own:
            left = left.where(own)
        shown = [self._shown(part) for part in (left, right)]
        sides = [_Side(outputs) for outputs in shown]
        pairs = dict.fromkeys((sides[0].name(one), sides[1].name(other)) for one, other in keys)
        terms = AsofTerms(
            tuple(pairs),
            (sides[0].name(times[0]), sides[1].name(times[1])),
            comparison,
            keeps_all,
            tuple(self._deciding([output.name for output in shown[1]])),
            is_final=self.maker.query.emits_once,
        )
        blocks = self.maker.selecting(left, sides[0].outputs), self.maker.selecting(right, sides[1].outputs)
        outputs = [
            replace(output, expr=exp.column(exp.to_identifier(output.name, quoted=True)))
            for side in shown
            for output in side
        ]
        query = self.maker.query
        block = BoundSet(
            query.text, OPERATION, True, blocks[0], blocks[1], tuple(outputs), spans=query.spans, asof=terms
        )
        return self.maker.wrapped(block, FromPart((), left.places | right.places))

    def _shown(self, part: FromPart) -> list[Output]:
        return [self.maker.column(alias, name) for alias, name in self.maker.columns(part.aliases)]

    def _deciding(self, names: list[str]) -> Iterator[str]:
        """Declared tie-breakers of a stream before all other columns."""
        first = [
            f"{source.alias}.{name}"
            for source in sources_of(self.join.right)
            if isinstance(source.info, StreamInfo)
            for name in source.info.tie
        ]
        yield from sorted(names, key=lambda name: first.index(name) if name in first else len(first))

    def _read(self, conjuncts: list[exp.Expr]) -> tuple[list[tuple[Output, Output]], str, tuple[Output, Output]]:
        """The equalities, and the comparison with the times that it compares."""
        test = PartnerTest(self.maker, self.join, self.left, self.right)
        keys: list[tuple[Output, Output]] = []
        found: list[tuple[str, tuple[Output, Output]]] = []
        for conjunct in conjuncts:
            if (key := test.as_key(conjunct)) is not None:
                keys.append(key)
            elif (times := self._times(conjunct, test)) is not None:
                found.append(times)
            else:
                self._refuse(f"compares both sides by equalities and their times, {_EXAMPLE}; {_REMEDY}", conjunct)
        if not found:
            self._refuse(f"needs a comparison of times, {_EXAMPLE}")
        if len(found) > 1:
            self._refuse(f"goes by one comparison of times, {_EXAMPLE}; {_REMEDY}", conjuncts[-1])
        return keys, *found[0]

    def _times(self, conjunct: exp.Expr, test: PartnerTest) -> tuple[str, tuple[Output, Output]] | None:
        if type(conjunct) not in _COMPARISONS:
            return None
        written, exchanged = _COMPARISONS[type(conjunct)]
        sides = conjunct.this, conjunct.expression
        for comparison, (one, other) in ((written, sides), (exchanged, sides[::-1])):
            if self._is_of(one, self.left) and self._is_of(other, self.right):
                typed = test.typed_sides(self.maker.output(one), self.maker.output(other))
                if typed is None or not _is_time(typed[0].type):
                    self._refuse(f"goes by times or numbers; compare such, {_EXAMPLE}", conjunct)
                return comparison, typed
        return None

    def _is_of(self, expr: exp.Expr, part: FromPart) -> bool:
        read = {column.table for column in expr.find_all(exp.Column)}
        return bool(read) and read <= part.aliases

    def _refuse(self, reason: str, at: exp.Expr | None = None) -> NoReturn:
        span = (span_of(at) if at is not None else None) or self.join.span
        raise PlanError(f"`{self.join.kind} JOIN` {reason}", self.maker.query.text, span)


class _Side:
    """The columns of a side: those that are shown, then what is compared, if it is none of them."""

    def __init__(self, shown: Sequence[Output]):
        self.outputs = list(shown)

    def name(self, output: Output) -> str:
        """What an output is called among the columns of the side."""
        known = next((each.name for each in self.outputs if each.expr == output.expr), None)
        if known is None:
            known = f"_key.{len(self.outputs)}"
            self.outputs.append(replace(output, name=known))
        return known


def _is_time(type_: pa.DataType) -> bool:
    is_time = pa.types.is_temporal(type_) and not pa.types.is_interval(type_)
    is_short = pa.types.is_decimal(type_) and type_.precision <= _MAX_DIGITS
    return is_time or pa.types.is_integer(type_) or pa.types.is_floating(type_) or is_short
