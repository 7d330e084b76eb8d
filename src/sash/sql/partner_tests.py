"""Whether a row of one part of FROM has a partner in another: the condition of a join as a lookup in a subquery.

    ON A.k = B.k AND A.v > 5 AND B.w < 3      CASE WHEN A.v > 5 THEN A.k END in SELECT B.k FROM B WHERE B.w < 3
    ON A.k = B.k AND A.v < B.w                (A.k, A.v) in SELECT A.k, A.v FROM A JOIN B ON A.k = B.k AND A.v < B.w

The second way does for any condition, as rows with equal values there have the same partners; it keeps the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError
from sash.sql.bound_joins import BoundJoin
from sash.sql.bound_query import MembershipCondition, Output
from sash.sql.casts import without_read
from sash.sql.from_parts import NOTHING, FromPart, PartMaker
from sash.sql.hashable import check_hashable, is_hashable
from sash.sql.memberships import can_compare
from sash.sql.scope import Aliases
from sash.sql.sets import cast, compared_types


def split_by_items(
    conjuncts: list[exp.Expr], aliases: Aliases, constants_too: bool = False
) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The conjuncts that read these items alone, and the others."""
    own: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for conjunct in conjuncts:
        read = {column.table for column in conjunct.find_all(exp.Column)}
        (own if read <= aliases and (read or constants_too) else others).append(conjunct)
    return own, others


def _key_name(number: int, output: Output) -> str:
    """What a key is called in plans: like its column, with a number where it may not be the only one."""
    column = without_read(output.expr)
    name = f"{column.table}.{column.name}" if isinstance(column, exp.Column) else "key"
    return f"{name}#{number}" if number else name


@dataclass(frozen=True, slots=True)
class PartnerTest:
    """The rows of `left` for which `right` has a row such that all conjuncts of the join hold, or has none."""

    maker: PartMaker
    join: BoundJoin
    left: FromPart
    right: FromPart

    def bind(self, is_negated: bool) -> MembershipCondition:
        own, others = split_by_items(list(self.join.conjuncts), self.left.aliases, constants_too=True)
        inside, between = split_by_items(others, self.right.aliases)
        keys = [self.as_key(conjunct) for conjunct in between]
        pairs = [key for key in keys if key is not None]
        if len(pairs) < len(keys):
            return self._by_pairs(is_negated)
        operands = [operand.expr for operand, _ in pairs]
        outputs = [replace(output, name=_key_name(number, output)) for number, (_, output) in enumerate(pairs)]
        if own:
            # NULL equals nothing: a row that does not satisfy the conditions on itself has no partner.
            outputs, operands = outputs or [NOTHING], operands or [NOTHING.expr]
            operands[0] = exp.Case().when(exp.and_(*own, copy=True), operands[0])
        block = self.maker.selecting(self.right.where(inside), outputs)
        is_final = self.maker.query.emits_once
        return MembershipCondition(block, tuple(operands), is_negated, False, self.join.span, is_final=is_final)

    def _by_pairs(self, is_negated: bool) -> MembershipCondition:
        columns = {
            (column.table, column.name)
            for conjunct in self.join.conjuncts
            for column in conjunct.find_all(exp.Column)
            if column.table in self.left.aliases
        }
        outputs = [output for column in sorted(columns) for output in self._told_apart(*column)]
        pairs = self.maker.beside(self.left, self.right).where(self.join.conjuncts)
        block = self.maker.selecting(pairs, outputs)
        operands = tuple(output.expr for output in outputs)
        return MembershipCondition(
            block,
            operands,
            is_negated,
            False,
            self.join.span,
            nulls_match=True,
            is_final=self.maker.query.emits_once,
        )

    def _told_apart(self, alias: str, name: str) -> Iterator[Output]:
        """A column, such that whatever a condition makes of its values is the same where this is."""
        output = self.maker.column(alias, name)
        check_hashable([output], f"`{self.join.kind} JOIN`", self.maker.query.text)
        yield output
        if pa.types.is_floating(output.type):
            # Zeros of either sign are equal, but what is made of them need not be.
            sign = exp.Anonymous(this="signbit", expressions=[output.expr.copy()])
            yield Output(f"{output.name}.sign", sign, pa.bool_(), "BOOLEAN")

    def as_key(self, conjunct: exp.Expr) -> tuple[Output, Output] | None:
        """The sides of an equality between the two parts, in the type in which they are compared."""
        if not isinstance(conjunct, exp.EQ) or conjunct.find(exp.Collate):
            return None
        for sides in ((conjunct.this, conjunct.expression), (conjunct.expression, conjunct.this)):
            reads = [{column.table for column in side.find_all(exp.Column)} for side in sides]
            if all(read and read <= part.aliases for read, part in zip(reads, (self.left, self.right), strict=True)):
                left, right = map(self.maker.output, sides)
                return self.typed_sides(left, right)
        return None

    def typed_sides(self, left: Output, right: Output) -> tuple[Output, Output] | None:
        """Two values in the type in which they are compared; None if they cannot be told apart there."""
        if left.sql_type != right.sql_type:
            if not can_compare(left, right, "{} = {}"):
                return None
            try:
                (common,) = compared_types([left], [right], self.maker.query.text)
            except BindError:
                return None
            left, right = cast(left, common), cast(right, common)
        return (left, right) if is_hashable(left.type) else None
