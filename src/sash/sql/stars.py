"""`*` and `alias.*` as DuckDB has them: all columns, less some, with others in their place, or under other names.

* EXCLUDE (a, S.b)  REPLACE (c / 100 AS c)  RENAME (d AS e)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sash.errors import BindError, suggest
from sash.sql.casts import without_read
from sash.sql.expressions import column_named, span_of
from sash.sql.scope import Scope


@dataclass(frozen=True, slots=True)
class StarException:
    """What stands in place of some columns of `*`; they are named as the user does, with or without their item."""

    word: str
    column: exp.Column
    expr: exp.Expr | None = None
    """Of REPLACE."""
    alias: str = ""
    """Of REPLACE and RENAME."""

    def matches(self, name: str, expr: exp.Expr) -> bool:
        if name.lower() != self.column.name.lower():
            return False
        own = without_read(expr)
        table = own.table if isinstance(own, exp.Column) else ""
        return not self.column.table or self.column.table.lower() == table.lower()


def star_of(output: exp.Expr) -> exp.Star | None:
    """The `*` that an item of SELECT is."""
    star = output.this if isinstance(output, exp.Column) else output
    return star if isinstance(star, exp.Star) else None


def replacements_of(output: exp.Expr) -> list[exp.Expr]:
    """The expressions that stand behind REPLACE."""
    star = star_of(output)
    return [] if star is None else [each.this for each in star.args.get("replace") or ()]


def expand_star(output: exp.Expr, scope: Scope, text: str) -> Iterator[tuple[str, exp.Expr]]:
    """The columns behind `*`, each with the name that it was given, if any."""
    star = star_of(output)
    assert star is not None
    exceptions = _read(star, text)
    columns = [(column_named(column) or "", column) for column in scope.expand(output)]
    for each in exceptions:
        _check(each, columns, scope, text)
    for name, column in columns:
        found = next((each for each in exceptions if each.matches(name, column)), None)
        if found is None:
            yield "", column
        elif found.word != "EXCLUDE":
            yield found.alias, column if found.expr is None else scope.resolve(found.expr)


def _check(exception: StarException, columns: list[tuple[str, exp.Expr]], scope: Scope, text: str) -> None:
    name, n_found = exception.column.name, sum(exception.matches(*column) for column in columns)
    if exception.column.table and scope.is_merged(name):
        reason = f"`{name}` is one column of both sides of the join; write it without `{exception.column.table}`"
    elif not n_found:
        remedy = suggest(name, {name for name, _ in columns})
        reason = f"there is no column `{exception.column.sql()}` for `{exception.word}`; {remedy}"
    elif n_found > 1 and exception.word != "EXCLUDE":
        reason = f"`{name}` is ambiguous; put the name of an item of FROM before each `*`"
    else:
        return
    raise BindError(reason, text, span_of(exception.column))


def _read(star: exp.Star, text: str) -> list[StarException]:
    found = [StarException("EXCLUDE", _column(each, text)) for each in star.args.get("except_") or ()]
    for each in star.args.get("replace") or ():
        column = exp.Column(this=each.args["alias"])
        found.append(StarException("REPLACE", column, each.this, each.alias))
    for each in star.args.get("rename") or ():
        found.append(StarException("RENAME", _column(each.this, text), None, each.alias))
    for place, each in enumerate(found):
        if any(each.column.sql().lower() == other.column.sql().lower() for other in found[:place]):
            reason = f"`{each.column.sql()}` stands twice behind `*`; remove one"
            raise BindError(reason, text, span_of(each.column))
    return found


def _column(node: exp.Expr, text: str) -> exp.Column:
    if isinstance(node, exp.Identifier):
        return exp.Column(this=node)
    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        raise BindError("only a column can stand here; name one", text, span_of(node))
    return node
