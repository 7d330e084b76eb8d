"""Items of SELECT with functions OVER rows: what is taken out of them, and what is left.

    SELECT k, v - AVG(v + w) OVER (PARTITION BY k) AS d FROM s

    functions    0: AVG of "_over.0", for each "_over.1"
    hidden       "_over.0" = v + w, "_over.1" = k, "_over.2" = v
    left         _hidden.2 - _over.0

In its place in the query within, an item leaves a mark, so that all that follows from the order of items stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.bound_over import OVER
from sash.sql.bound_query import BoundQuery
from sash.sql.expressions import stands_alone
from sash.sql.outputs import IS_HIDDEN
from sash.sql.over_calls import WrittenOver, read_over
from sash.sql.reading import spelled_name
from sash.sql.scope import place

HIDDEN = "_hidden"
_MARK = "over_item"
"""Where what stands in the place of an item has in `meta` which it is."""


@dataclass(frozen=True, slots=True)
class TakenFunction:
    """A function, with the numbers of the hidden columns that it reads."""

    written: WrittenOver
    argument: int | None
    default: int | None
    partition_by: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(slots=True)
class TakenItems:
    """What is taken out of items, one after the other."""

    text: str
    hidden: list[exp.Alias] = field(default_factory=list[exp.Alias])
    """Columns that the query within has to compute, behind those of SELECT."""
    functions: list[TakenFunction] = field(default_factory=list[TakenFunction])
    exprs: list[exp.Expr] = field(default_factory=list[exp.Expr])
    """What is left of items, over columns of `_hidden` and `_over` by number."""

    def take(self, output: exp.Expr) -> exp.Expr:
        """What stands in the place of an item; one without such functions stays."""
        if find_window(output) is None:
            return output
        name = output.alias or spelled_name(output.unalias(), self.text)
        mark = exp.Literal.string(name)
        mark.meta[_MARK] = len(self.exprs)
        self.exprs.append(output.unalias().transform(self._take_part))
        stands = exp.Alias(this=mark, alias=exp.to_identifier(name, quoted=True))
        stands.meta.update({key: output.meta[key] for key in (IS_HIDDEN,) if key in output.meta})
        return stands

    def hide_something(self) -> None:
        """A row has a column, also if nothing of it is shown or read, as in `ROW_NUMBER() OVER ()`."""
        if not self.hidden:
            self._hide(exp.Literal.number(0))

    def _take_part(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return place(exp.column(str(self._function(node)), OVER, quoted=True), node)
        if find_window(node) is not None or not _is_computed(node):
            return node
        return place(exp.column(str(self._hide(node)), HIDDEN, quoted=True), node)

    def _function(self, node: exp.Window) -> int:
        written = read_over(node, self.text)
        known = [each.written for each in self.functions]
        if written in known:
            return known.index(written)
        taken = TakenFunction(
            written,
            None if written.argument is None else self._hide(written.argument),
            None if written.default is None else self._hide(written.default),
            tuple(map(self._hide, written.partition_by)),
            tuple(self._hide(each.this) for each in written.order),
        )
        self.functions.append(taken)
        return len(known)

    def _hide(self, expr: exp.Expr) -> int:
        number = len(self.hidden)
        column = exp.Alias(this=expr.copy(), alias=exp.to_identifier(f"{OVER}.{number}", quoted=True))
        column.meta[IS_HIDDEN] = True
        self.hidden.append(column)
        return number


def find_window(expr: exp.Expr) -> exp.Window | None:
    """The first function OVER rows in an expression, subqueries apart."""
    nodes = expr.walk(prune=lambda node: isinstance(node, exp.Query))
    return next((node for node in nodes if isinstance(node, exp.Window)), None)


def mark_of(expr: exp.Expr) -> int | None:
    """The item in whose place an expression stands."""
    return expr.meta.get(_MARK)


def check_marks(block: BoundQuery) -> None:
    """PlanError if the name of an item with such functions is used in the same SELECT."""
    for expr in _expressions(block):
        mark = next((node for node in expr.walk() if mark_of(node) is not None), None)
        if mark is not None:
            reason = f"`{mark.name}` is a function `OVER` rows, and cannot be used in the same SELECT"
            raise PlanError(f"{reason}; select it in a subquery in `FROM`", block.text, block.spans.get("select"))


def _expressions(block: BoundQuery) -> Iterator[exp.Expr]:
    yield from (output.expr for output in block.outputs if mark_of(output.expr) is None)
    yield from (group.expr for group in block.groups or ())
    yield from block.having
    yield from (expr for aggregate in block.aggregates for expr in aggregate.reads)


def _is_computed(node: exp.Expr) -> bool:
    """Whether a part of an item is one that the query within can compute, and must."""
    is_whole = isinstance(node, (exp.Column, exp.Subquery)) or stands_alone(node)
    return is_whole and node.find(exp.Column, exp.Query, exp.AggFunc, exp.Anonymous) is not None
