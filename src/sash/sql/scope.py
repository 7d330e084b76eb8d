"""The names that a query's expressions may use, and the columns they stand for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias, TypeVar

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, PlanError, QueryError, suggest
from sash.sql.casts import read_as
from sash.sql.catalog import UNNESTED, Source
from sash.sql.expressions import MERGED, span_of
from sash.sql.join_trees import FULL, RIGHT
from sash.sql.rank_conditions import refuse_windows
from sash.sql.subqueries import refuse_subqueries

_UNCORRELATED = "only the `WHERE` of one that stands in an expression can; or join the two, by `ON`"
T = TypeVar("T", bound=exp.Expr)
Aliases: TypeAlias = frozenset[str]
"""Items of FROM, as declared."""


class Scope:
    """The columns of the items of FROM. Names match without regard to case; what comes back is as declared.

    `outside` holds aliases of the queries around it, in lower case, to say of them that they cannot be used.
    """

    def __init__(self, sources: Sequence[Source], text: str, outside: Collection[str] = ()):
        self._sources = {source.alias.lower(): source for source in sources}
        self._text = text
        self._outside = outside
        self._merged: set[tuple[str, str]] = set()
        self._values: dict[tuple[str, str], exp.Expr] = {}
        """What a column stands for that USING has merged with another, if not for itself."""
        self._hidden: set[str] = set()
        self.aliases: Collection[str] = ()
        """What SELECT calls its items, in lower case, to say of them that other expressions cannot use them."""

    def replace(self, sources: Sequence[Source]) -> None:
        """Takes items of FROM again, with more known of them."""
        self._sources |= {source.alias.lower(): source for source in sources}

    def columns(self) -> pa.Schema:
        """All columns, called `alias.column`, also those that no name means."""
        named = ((source, field) for source in self._sources.values() for field in source.schema)
        return pa.schema([field.with_name(f"{source.alias}.{field.name}") for source, field in named])

    def beside(self, groups: pa.Schema) -> pa.Schema:
        """The columns of groups, and of subqueries that stand for values beside them."""
        return pa.schema([*groups, *(field for field in self.columns() if field.name.startswith(UNNESTED))])

    def equate(self, source: Source, name: exp.Identifier) -> exp.EQ:
        """The equality behind USING. From then on the name alone means the column of the item before."""
        before = list(self._visible(until=source))
        left = self._find(name, before)
        right = column_in(source, name, self._text)
        self._merged.add((source.alias, right.name))
        return exp.EQ(this=self._read(left), expression=self._read(right))

    def merge(self, name: exp.Identifier, sides: tuple[Aliases, Aliases], kind: str) -> exp.EQ:
        """The equality behind USING in a join of two parts of FROM. From then on the name alone means what a row has,
        of whichever side it comes.
        """
        found = [self._find(name, list(self._visible(among=side))) for side in sides]
        left, right = (self._value(column) for column in found)
        self._merged.add((found[1].table, found[1].name))
        kept = found[0].table, found[0].name
        if kind == FULL:
            self._values[kept] = exp.Coalesce(this=left.copy(), expressions=[right.copy()])
            self._values[kept].meta[MERGED] = found[0].name
        elif kind == RIGHT:
            self._values[kept] = right
        return exp.EQ(this=left.copy(), expression=right.copy())

    def common_names(self, left: Aliases, right: Aliases) -> list[exp.Identifier]:
        """The names of columns that NATURAL joins two parts of FROM by."""
        known = {name.lower() for _, name in self._visible(among=right)}
        names = dict.fromkeys(name for _, name in self._visible(among=left) if name.lower() in known)
        return [exp.to_identifier(name, quoted=True) for name in names]

    def is_merged(self, name: str) -> bool:
        """Whether USING or NATURAL has made one column of two of this name."""
        return any(name.lower() == column.lower() for _, column in self._merged)

    def hide(self, aliases: Aliases) -> None:
        """Items of FROM whose rows are looked for and not shown: no name means their columns from now on."""
        self._hidden.update(alias.lower() for alias in aliases)

    def expand(self, star: exp.Expr) -> list[exp.Expr]:
        """The columns behind `*` or `alias.*`."""
        if isinstance(star, exp.Column):
            source = self._source(star.args["table"])
            return [read(source, name, star) for name in source.shown]
        columns = [_make_column(source, name, star) for source, name in self._visible()]
        return [place(self._value(column), star) for column in columns]

    def resolve(self, expr: exp.Expr) -> exp.Expr:
        """A copy of the expression in which every column is `alias.column`, with struct fields behind it as Dots.

        Where DuckDB would take a column for another type than it has, it is told.
        """
        refuse_subqueries(expr, self._text)
        refuse_windows(expr, self._text)
        return expr.transform(self._resolve_node)

    def has(self, column: exp.Column) -> bool:
        """Whether the name, of one or more parts, is of a column here; it may still be ambiguous.

        `t.k` is not that of a column `t` without a field `k`: it may be of an item `t` of the query outside.
        """
        first, *fields = (part.name for part in column.parts)
        return (bool(fields) and first.lower() in self._sources) or self._has_path(first, fields)

    def _has_path(self, first: str, fields: Sequence[str]) -> bool:
        """Whether a name alone is of a column here, and it has the first field that is asked of it."""
        known = ((source.schema.field(name).type, name) for source, name in self._visible())
        types = [type_ for type_, name in known if name.lower() == first.lower()]
        return any(not fields or _match(fields[0], list(_fields(type_))) is not None for type_ in types)

    def _resolve_node(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            name = node.expression.name
            raise BindError(f"a call cannot follow a dot; write `{name}(…)`", self._text, span_of(node))
        if not isinstance(node, exp.Column):
            return node
        if is_loop_variable(node):
            return node.to_dot()
        return place(self._resolve(node.parts), node)

    def _resolve(self, parts: list[exp.Expr]) -> exp.Expr:
        names = [part for part in parts if isinstance(part, exp.Identifier)]
        if len(names) < len(parts):
            raise BindError("`*` cannot stand inside an expression; name the columns", self._text, span_of(*parts))
        first, *fields = names
        if fields and first.name.lower() in self._sources:
            column = column_in(self._source(first), fields.pop(0), self._text)
            return self._descend(column, self._read(column), fields)
        is_outside = first.name.lower() in self._outside and not self._has_path(first.name, [f.name for f in fields])
        if fields and (is_outside or not self._has_path(first.name, ())):
            raise self._unknown_source(first)
        column = self._find(first, list(self._visible()))
        return self._descend(column, self._value(column), fields)

    def _descend(self, column: exp.Column, expr: exp.Expr, fields: list[exp.Identifier]) -> exp.Expr:
        type_ = self._sources[column.table.lower()].schema.field(column.name).type
        for field in fields:
            types = _fields(type_)
            name = _match(field.name, list(types))
            if name is None:
                place = expr.sql().replace('"', "")
                reason = f"`{place}` has no field `{field.name}`; {suggest(field.name, types)}"
                raise BindError(reason, self._text, span_of(field))
            expr, type_ = exp.Dot(this=expr, expression=_quoted(name, field)), types[name]
        return expr

    def _value(self, column: exp.Column) -> exp.Expr:
        """What a name alone means that was found to be of this column."""
        value = self._values.get((column.table, column.name))
        return self._read(column) if value is None else place(value.copy(), column)

    def _read(self, column: exp.Column) -> exp.Expr:
        return read(self._sources[column.table.lower()], column.name, column)

    def _find(self, name: exp.Identifier, candidates: list[tuple[Source, str]]) -> exp.Column:
        found = [(source, column) for source, column in candidates if column.lower() == name.name.lower()]
        if len(found) > 1:
            choices = " or ".join(f"`{source.alias}.{column}`" for source, column in found)
            raise BindError(f"`{name.name}` is ambiguous; write {choices}", self._text, span_of(name))
        if not found:
            raise self._unknown_column(name, [column for _, column in candidates])
        return _make_column(*found[0], name)

    def _visible(self, until: Source | None = None, among: Aliases | None = None) -> Iterator[tuple[Source, str]]:
        """The columns that a name alone may mean, of all items, of those before one, or of some."""
        for source in self._sources.values():
            if until is not None and source.alias == until.alias:
                return
            if source.alias.startswith(UNNESTED):
                continue
            if source.alias.lower() in self._hidden or (among is not None and source.alias not in among):
                continue
            yield from ((source, name) for name in source.shown if (source.alias, name) not in self._merged)

    def _source(self, name: exp.Identifier) -> Source:
        if name.name.lower() not in self._sources or name.name.lower() in self._hidden:
            raise self._unknown_source(name)
        return self._sources[name.name.lower()]

    def _unknown_source(self, name: exp.Identifier) -> QueryError:
        if name.name.lower() in self._hidden:
            reason = f"`SEMI JOIN` and `ANTI JOIN` do not show columns of `{name.name}`, only whether it has a row"
            return BindError(f"{reason}; use them in its `ON` alone", self._text, span_of(name))
        if name.name.lower() in self._outside:
            reason = f"the subquery cannot use `{name.name}`, which stands outside it; {_UNCORRELATED}"
            return PlanError(reason, self._text, span_of(name))
        aliases = [source.alias for source in self._sources.values()]
        return BindError(f"`FROM` names no `{name.name}`; {suggest(name.name, aliases)}", self._text, span_of(name))

    def _unknown_column(self, name: exp.Identifier, known: list[str]) -> BindError:
        source = self._sources.get(name.name.lower())
        if source is not None:
            reason = f"`{source.alias}` is no column; write `{source.alias}.*` or one of its columns"
        elif name.name.lower() in self.aliases:
            reason = f"`{name.name}` is a name that SELECT gives, and no column; write what it stands for"
            reason += ", or select it in a subquery in `FROM`"
        else:
            reason = f"there is no column `{name.name}`; {suggest(name.name, set(known))}"
        return BindError(reason, self._text, span_of(name))


def column_in(source: Source, name: exp.Identifier, text: str) -> exp.Column:
    """The column that a name means in one item of FROM."""
    names = source.shown
    declared = _match(name.name, names)
    if declared is None:
        reason = f"`{source.alias}` has no column `{name.name}`; {suggest(name.name, names)}"
        raise BindError(reason, text, span_of(name))
    return _make_column(source, declared, name)


def read(source: Source, name: str, origin: exp.Expr | None = None) -> exp.Expr:
    """A column of an item of FROM, by its declared name, as a value of the type that it has in the query."""
    column = _make_column(source, name, origin)
    type_ = dict(source.info.sql_types).get(name)
    return column if type_ is None else read_as(column, type_)


def is_loop_variable(column: exp.Column) -> bool:
    """Whether the column is the `x` of `[… for x in …]`; unlike those of lambdas, sqlglot takes it for a column."""
    loop = column.find_ancestor(exp.Comprehension)
    while loop is not None and loop.expression.name.lower() != column.parts[0].name.lower():
        loop = loop.find_ancestor(exp.Comprehension)
    return loop is not None


def _fields(type_: pa.DataType) -> dict[str, pa.DataType]:
    """The types of the fields of a struct."""
    return {field.name: field.type for field in type_.fields} if pa.types.is_struct(type_) else {}


def _match(name: str, names: list[str]) -> str | None:
    return next((known for known in names if known.lower() == name.lower()), None)


def _make_column(source: Source, name: str, origin: exp.Expr | None) -> exp.Column:
    return exp.Column(this=_quoted(name, origin), table=_quoted(source.alias, origin))


def _quoted(name: str, origin: exp.Expr | None) -> exp.Identifier:
    """A name as declared that stands where the user's spelling of it stood, if there was one."""
    identifier = exp.to_identifier(name, quoted=True)
    return place(identifier, origin) if origin is not None else identifier


def place(expr: T, origin: exp.Expr) -> T:
    """The expression as if it stood where `origin` does."""
    if span := span_of(origin):
        expr.meta.update(start=span.start, end=span.end - 1)
    return expr
