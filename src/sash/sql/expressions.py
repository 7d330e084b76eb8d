"""Scalar expressions: where they stand, how DuckDB reads them, what they are called and of which type they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from sash.errors import BindError, PlanError, Span
from sash.sql.casts import cast_to, without_read
from sash.sql.comparisons import are_comparable, comparisons_in, conditions_in, family_of
from sash.sql.constants import find_excess
from sash.sql.dialect import Sash
from sash.sql.functions import refusal
from sash.sql.scalar_answers import Answers, Selected

_WHOLE = (exp.Binary, exp.Between, exp.Bracket, exp.Case, exp.Cast, exp.Func, exp.In, exp.Unary)
_PARTIAL = (exp.Alias, exp.If, exp.Kwarg, exp.PropertyEQ, exp.Slice)
MERGED = "merged"
"""Where an expression has in `meta` the name of the column that it stands for."""
_MAX_PARTS = 200
"""Finding the culprit asks DuckDB once for every part; in a longer expression the whole of it is blamed."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """What DuckDB says of an expression: the name of its column, and its type, in DuckDB's own words too."""

    name: str
    type: pa.DataType
    sql_type: str


def span_of(*exprs: exp.Expr) -> Span | None:
    """The stretch of text that expressions were read from, if any part of them remembers its place."""
    places = [node.meta for expr in exprs for node in expr.walk() if "start" in node.meta]
    if not places:
        return None
    return Span(min(place["start"] for place in places), max(place["end"] for place in places) + 1)


def to_duckdb(expr: exp.Expr) -> str:
    """A bound expression as SQL for DuckDB, over a relation whose columns are called `alias.column`."""
    flat = expr.transform(_as_flat_column)
    return flat.sql(dialect=Sash, normalize_functions=False, comments=False, unsupported_level=ErrorLevel.RAISE)


def to_column(expr: exp.Expr) -> str:
    """The same for an expression that is a column by itself, which travels as it is and need not be told its type."""
    return to_duckdb(without_read(expr))


def _as_flat_column(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Column):
        return exp.to_identifier(f"{node.table}.{node.name}" if node.table else node.name, quoted=True)
    return node


def split_conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conjuncts of a condition, less those that are simply TRUE; none if there is no condition."""
    if condition is None:
        return
    for part in condition.unnest().flatten() if isinstance(condition.unnest(), exp.And) else [condition]:
        inner = part.unnest()
        if isinstance(inner, exp.And):
            yield from split_conjuncts(inner)
        elif not (isinstance(inner, exp.Boolean) and inner.this):
            yield inner


class ScalarBinder:
    """Has DuckDB bind scalar expressions over columns called `alias.column`; a context manager.

    What DuckDB would find wrong only on the first row that breaks it is found wrong here, as far as types tell.
    """

    def __init__(self, columns: pa.Schema, text: str):
        self._text = text
        self._columns = columns.names
        self._answers = Answers(columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()

    def bind(self, expr: exp.Expr) -> Scalar:
        """The name and type of an expression; BindError or PlanError, underlined, when it has none or may not run."""
        self._blame(expr, self._refusal, PlanError)
        self._check_constants(expr)
        self._blame(expr, self._misfit, BindError)
        self._check_conditions(expr)
        self._check_comparisons(expr)
        self._check_literals(expr)
        self._check_collations(expr)
        scalar = self._describe(expr)
        return replace(scalar, name=column_named(expr) or scalar.name)

    def bind_condition(self, expr: exp.Expr) -> None:
        """Like `bind`, of an expression that must be true or false."""
        self.bind(expr)
        self._check_is_condition(expr)

    def bind_aggregate(self, call: exp.Expr) -> Scalar:
        """The name and type of the call of an aggregate over a bound argument."""
        self._blame(call, self._misfit, BindError)
        return self._describe(call)

    def name_of(self, expr: exp.Expr, groups: Sequence[exp.Expr]) -> str:
        """The name that DuckDB gives to an expression of a SELECT that aggregates by these groups."""
        by = [f"({to_duckdb(group)})" for group in groups if group.find(exp.Column)]
        grouping = f" GROUP BY {', '.join(by)}" if by else ""
        if name := column_named(expr):
            return name
        return self._plain(self._answers.ask(f"SELECT {to_duckdb(expr)} FROM sources{grouping}").names[0])

    def _describe(self, expr: exp.Expr) -> Scalar:
        found = self._read(expr)
        return Scalar(self._plain(found.names[0]), found.arrow_types[0], str(found.types[0]))

    def _blame(self, expr: exp.Expr, fault: Callable[[exp.Expr], str | None], error: type) -> None:
        """Raise at the smallest part of the expression that has the fault already."""
        if fault(expr) is None:
            return
        parts = [part for part in expr.walk(bfs=False) if part is not expr and stands_alone(part)]
        candidates = reversed(parts) if len(parts) <= _MAX_PARTS else ()
        for part in (*candidates, expr):
            if reason := fault(part):
                raise error(reason, self._text, span_of(part) or span_of(expr))

    def _refusal(self, expr: exp.Expr) -> str | None:
        try:
            return refusal(to_duckdb(expr))
        except UnsupportedError as error:
            return f"DuckDB has no such SQL ({error}); write it otherwise"

    def _misfit(self, expr: exp.Expr) -> str | None:
        try:
            self._read(expr)
        except duckdb.Error as error:
            return _reword(self._plain(str(error)))
        return None

    def _check_constants(self, expr: exp.Expr) -> None:
        """Before DuckDB has worked any of them out."""
        if excess := find_excess(expr):
            call, reason = excess
            raise PlanError(reason, self._text, span_of(call) or span_of(expr))

    def _check_conditions(self, expr: exp.Expr) -> None:
        for condition in conditions_in(expr):
            self._check_is_condition(condition)

    def _check_is_condition(self, expr: exp.Expr) -> None:
        type_ = self._read(expr).types[0]
        if type_.id not in ("boolean", "null"):
            reason = f"a condition must be true or false, and this is {type_}; compare it with something"
            raise BindError(reason, self._text, span_of(expr))

    def _check_comparisons(self, expr: exp.Expr) -> None:
        for node, *sides in comparisons_in(expr):
            types = self._read(*sides).types
            families = [family_of(type_) for type_ in types]
            if are_comparable(*families):
                continue
            for constant, other in ((0, 1), (1, 0)):
                if families[constant] == "string" and not sides[constant].find(exp.Column):
                    self._check_converts(cast_to(sides[constant], str(types[other])), node)
                    break
            else:
                raise BindError(incompatible(str(types[0]), str(types[1]), "compared"), self._text, span_of(node))

    def _check_literals(self, expr: exp.Expr) -> None:
        for cast in expr.find_all(exp.Cast):
            if isinstance(cast.this, exp.Literal):
                self._check_converts(cast, cast)

    def _check_collations(self, expr: exp.Expr) -> None:
        """A collation holds for a comparison of its own; the strings that travel are compared by their bytes."""
        for collate in expr.find_all(exp.Collate):
            if not collate.find_ancestor(exp.Predicate):
                reason = "a collation reaches no further than a comparison in `WHERE`, `ON`, `HAVING` or `CASE`"
                remedy = "make the strings alike, as in `lower(…)`"
                raise PlanError(f"{reason}; {remedy}", self._text, span_of(collate))

    def _check_converts(self, cast: exp.Cast, node: exp.Expr) -> None:
        try:
            self._answers.ask(f"SELECT {to_duckdb(cast)}")
        except duckdb.Error:
            reason = f"{cast.this.sql(dialect=Sash)} cannot be converted to {cast.to.sql(dialect=Sash)}; correct it"
            raise BindError(reason, self._text, span_of(cast.this) or span_of(node)) from None

    def _read(self, *exprs: exp.Expr) -> Selected:
        return self._answers.ask(f"SELECT {', '.join(map(to_duckdb, exprs))} FROM sources")

    def _plain(self, text: str) -> str:
        """DuckDB's text with columns as the user writes them."""
        for name in self._columns:
            quoted = name.replace('"', '""')
            text = text.replace(f'"{quoted}"', name)
        return text


def column_named(expr: exp.Expr) -> str | None:
    """The name of the column that an expression is, also if it is one of two that USING has made one."""
    column = without_read(expr)
    return column.name if isinstance(column, (exp.Column, exp.Dot)) else expr.meta.get(MERGED)


def stands_alone(part: exp.Expr) -> bool:
    """Whether DuckDB can bind this part of an expression without the rest."""
    if part.find_ancestor(exp.Lambda, exp.Comprehension):
        return False
    return isinstance(part, _WHOLE) and not isinstance(part, _PARTIAL)


def _reword(message: str) -> str:
    """An error of DuckDB's binder in our words."""
    first, *rest = re.sub(r"^[\w ]+ Error: ", "", message).replace("_LITERAL", "").split("\n")
    if unknown := re.search(r"Function with name (\S+) does not exist", first):
        near = re.search(r'Did you mean "(.+)"', rest[0] if rest else "")
        return f"there is no function `{unknown[1]}`; " + (f"did you mean `{near[1]}`?" if near else "check its name")
    if call := re.search(r"argument types '(.+)'\. You|function call \"(.+)\"\. In", first):
        return f"no function or operator fits `{call[1] or call[2]}`; cast an argument to a type that one takes"
    if mixed := re.search(r"Cannot (\w+) (?:values|types) of (?:type )?(.+?) and (?:type )?(\S+)", first):
        verb = {"compare": "compared", "mix": "mixed"}.get(mixed[1], "combined")
        return incompatible(mixed[2], mixed[3], verb)
    if misread := re.search(r'syntax error at or near "(.+)"', first):
        return f"this is not an expression, because of its `{misread[1]}`; check its syntax"
    return (first if first[:2].isupper() else first[:1].lower() + first[1:]).rstrip(".!")


def incompatible(left: str, right: str, verb: str) -> str:
    target = right if left == "VARCHAR" else left
    return f"{left} and {right} cannot be {verb}; cast one of them, as in `CAST(… AS {target})`"
