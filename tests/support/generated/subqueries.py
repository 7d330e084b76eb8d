"""Subqueries in expressions of generated queries: values, and IN and EXISTS that stand under OR or are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from support.generated.choices import Choices
from support.generated.data import BOOLEAN, INSTANT, LIST, NUMBER, STRING
from support.generated.expressions import RANGE, Expression, ExpressionWriter
from support.generated.ranks import ORDERS, Ranks
from support.generated.tree import Mark, Output, Reading, Select, Test, ValueQuery

_VALUES = ("max({})", "count(*)", "min({})", "count({})", "count(*) + 1", "coalesce(max({}), 7)", "count(DISTINCT {})")
_COMPARED = ("{} > 1", "{} IS NULL", "{} <> 2", "{} < {}")
_HASHABLE = (NUMBER, STRING, BOOLEAN, INSTANT)


@dataclass
class SubqueryWriter:
    """Draws subqueries for the expressions of one SELECT. `read` gives a stream or relation for a FROM of their own."""

    choices: Choices
    read: Callable[[], Reading]
    write: Callable[[list[tuple[str, str]]], ExpressionWriter]
    outer: ExpressionWriter

    def add_to(self, select: Select) -> Select:
        """The SELECT with a subquery in a condition, or in what it shows."""
        is_value = self.choices.chance(55)
        mark: Mark = self._value() if is_value else self._test()
        marker = f"\1{len(select.marks)}\1"
        select = replace(select, marks=(*select.marks, mark))
        numbers = [place for place, output in enumerate(select.outputs) if output.family == NUMBER]
        if is_value and numbers and select.keys != () and self.choices.chance(55):
            return self._shown(select, self.choices.one(numbers), marker)
        if not is_value:
            condition = f"({self.outer.condition(1).text} OR {self.choices.one(('', 'NOT '))}{marker})"
        else:
            compared = self.choices.one(_COMPARED)
            condition = compared.format(
                marker, *([self.outer.draw(NUMBER, 0).text] if compared.count("{}") > 1 else [])
            )
        return replace(select, where=(*select.where, condition))

    def _shown(self, select: Select, place: int, marker: str) -> Select:
        """A value in the place of a number of the answer, or beside its aggregates."""
        before = select.outputs[place]
        if select.keys is not None and before.expr in select.keys:
            return replace(select, where=(*select.where, f"{marker} IS NOT NULL"))
        is_beside = select.keys is not None or self.choices.chance(30)
        expr = f"{before.expr} + {marker}" if is_beside else marker
        if select.keys is not None:
            # Beside aggregates nothing is compared with the outside.
            marks = [replace(mark, equalities=()) for mark in select.marks]
            select = replace(select, marks=tuple(marks))
        outputs = list(select.outputs)
        outputs[place] = Output(expr, before.name, NUMBER)
        return replace(select, outputs=tuple(outputs))

    def _value(self) -> ValueQuery:
        body, inner = self._body()
        number = inner.column(NUMBER)
        if number is not None and self.choices.chance(30):
            return ValueQuery(number.text, body, self._equalities(inner), self._first(inner, 1))
        expr = self.choices.one(_VALUES)
        expr = expr.format(number.text) if number is not None else "count(*)"
        return ValueQuery(expr, body, self._equalities(inner))

    def _test(self) -> Test:
        body, inner = self._body()
        is_negated = self.choices.chance(40)
        family = self.choices.one([family for _, family in self.outer.columns if family in _HASHABLE] or [NUMBER])
        column = inner.column(family)
        if column is None or self.choices.chance(45):
            ranks = self._first(inner, 2) if self.choices.chance(25) else None
            return Test(is_negated, body, None, self._equalities(inner), ranks=ranks)
        operand, body = self.outer.draw(family, 0), replace(body, outputs=(Output(column.text, "c0", family),))
        if self.choices.chance(35):
            return Test(is_negated, body, operand.text, self._equalities(inner), ranks=self._first(inner, 3))
        return Test(is_negated, body, operand.text)

    def _first(self, inner: ExpressionWriter, n_most: int) -> Ranks:
        """The first rows of a subquery, in some order or in none."""
        known = [text for text, family in inner.columns if family in _HASHABLE]
        order = tuple((expr, self.choices.one(ORDERS)) for expr in self.choices.some(known, 2)) if known else ()
        spelling = self.choices.one(("limit", "limit", "fetch"))
        return Ranks(
            order=order,
            n_rows=1 + self.choices.below(n_most),
            n_skipped=self.choices.one((0, 0, 0, 1)),
            spelling=spelling,
        )

    def _equalities(self, inner: ExpressionWriter) -> tuple[tuple[str, str], ...]:
        """Between what a subquery reads and the outside."""
        if not self.choices.chance(65):
            return ()
        family = self.choices.one([family for _, family in self.outer.columns if family in _HASHABLE] or [NUMBER])
        column, outside = inner.column(family), self.outer.column(family)
        return () if column is None or outside is None else ((column.text, outside.text),)

    def _body(self) -> tuple[Select, ExpressionWriter]:
        item = self.read()
        columns = [(f"{item.alias}.{name}", family) for name, family in item.columns if family != LIST]
        inner = self.write(columns)
        where = (_bracketed(inner.condition(1)),) if self.choices.chance(25) else ()
        return Select((item,), (), (Output("1", "c0", NUMBER),), where), inner


def draw_comparisons(choices: Choices, inner: ExpressionWriter, outer: ExpressionWriter) -> tuple[str, ...]:
    """A condition between a subquery and the outside that is no equality."""
    one, other = inner.column(NUMBER), outer.column(NUMBER)
    if one is None or other is None or not choices.chance(30):
        return ()
    return (f"{one.text} {choices.one(('<', '>=', '<>'))} {other.text}",)


def _bracketed(condition: Expression) -> str:
    return f"({condition.text})" if condition.level < RANGE else condition.text
