"""Hypothesis strategies for whole query plans: operators stacked upon each other, as text, with their input.

A query is made from the top down: what is above says which of the columns `k`, `j` and `v` it needs, and what is below
gives them, from a stream or from another query, until there are no operators left to spend. As in
`sash.testing.strategies`, what stands first among choices is what is common and what cases shrink to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from sash.frames import Relation, Stream, relation
from sash.testing.case import Case
from sash.testing.strategies import MAX_ROWS, TIME_TYPES, schemas, st, streams, tables

MAX_OPERATORS = 5
Columns: TypeAlias = tuple[str, ...]

_FAMILIES = ("number", "string", "number", "instant", "boolean")
_ALL: Columns = ("k", "j", "v")
_SOME: tuple[Columns, ...] = (("k", "v"), ("v",), ("k",), ("k", "j"), _ALL)
_LENGTHS = (5, 2, 3, 1, 9, 20)
_SLIDES = (2, 3, 4, 1)
_COUNTS = (2, 1, 3, 4)
_BRACKETS = (
    " [RANGE {length} us]",
    " [ROWS {count}]",
    " [PARTITION BY k ROWS {count}]",
    " [NOW]",
    " [RANGE {length} us SLIDE {slide} us]",
)
_LANDMARKS = (" [UNBOUNDED]", " [SINCE TIMESTAMP '1970-01-01 00:00:00.000003']")
_ENDLESS = (*_LANDMARKS, "")
_WINDOWS = (
    " WINDOW {length} us",
    " WINDOW {length} us",
    " WINDOW {count} ROWS",
    " WINDOW {length} us SLIDE {slide} us",
)
_SET_OPERATIONS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "MINUS")
_FILTERS = {
    "v": ("{x}.v > 1", "{x}.v IN (1, 2)", "{x}.v BETWEEN 0 AND 2", "({x}.v IS NULL OR {x}.v = 1)", "{x}.v % 2 = 0"),
    "k": ("{x}.k IS NOT NULL", "{x}.k = {x}.k"),
    "j": ("{x}.j IS NOT NULL",),
}
_PLAIN_AGGREGATES = ("count(*)", "sum({x}.v)", "min({x}.v)", "max({x}.v)", "count({x}.v)")
_WHOLE_AGGREGATES = ("count(*)", "CAST(sum({x}.v) AS BIGINT)", "min({x}.v)", "max({x}.v)", "count({x}.v)")
_ENDLESS_AGGREGATES = (
    *_PLAIN_AGGREGATES,
    "avg({x}.v)",
    "round(stddev({x}.v), 6)",
    "sum({x}.v * 2) + 1",
    "sum({x}.v) FILTER (WHERE {x}.v > 1)",
    "arg_max({x}.v, -{x}.v)",
)
_TOP_AGGREGATES = (
    *_ENDLESS_AGGREGATES,
    "count(DISTINCT {x}.v)",
    "median({x}.v)",
    "sum(DISTINCT {x}.v)",
    "mode({x}.v)",
    "quantile_disc({x}.v, 0.3)",
    "len(list({x}.v ORDER BY {x}.v DESC))",
)
# Over streams only: of what an operator puts out, the order in which it entered is not known to the oracle.
_ORDERED_AGGREGATES = ("first({x}.v)", "last({x}.v)")
_ENDLESS_HAVING = ("count(*) > 1", "sum({x}.v) > 2", "max({x}.v) = 2", "min({x}.v) IS NULL")
_HAVING = (*_ENDLESS_HAVING, "count(DISTINCT {x}.v) = 1")
_FEATURES = ("group", "join", "membership", "subquery", "distinct")
_SELDOM = st.sampled_from((False, False, False, True))
_SOMETIMES = st.booleans()


@st.composite
def plans(draw: st.DrawFn, is_late: bool = False, max_rows: int = MAX_ROWS) -> Case:
    """A query of up to five operators over up to three streams, perhaps with a relation, and their rows."""
    families = draw(st.tuples(*[st.sampled_from(_FAMILIES)] * 2))
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    schema = draw(schemas(families, time))
    names = "abc"[: draw(st.sampled_from((2, 1, 3)))]
    frames: dict[str, Stream | Relation] = {name: draw(streams(schema, max_rows, is_late)) for name in names}
    if draw(_SOMETIMES):
        frames["r"] = relation(draw(tables(schema.remove(schema.get_field_index("ts")), 4)))
    return Case(draw(plan_texts(frames)), frames)


@st.composite
def plan_texts(draw: st.DrawFn, frames: Mapping[str, Stream | Relation]) -> str:
    """The text of a query over the frames, which have columns `k`, `j` and `v`."""
    writer = _Writer(draw, frames, n_left=draw(st.sampled_from((2, 1, *range(3, MAX_OPERATORS + 1), 0))))
    text = writer.endless_query() if draw(st.sampled_from((False,) * 9 + (True,))) else writer.whole_query()
    return text + (" EMIT CHANGES" if draw(_SOMETIMES) else "")


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of FROM."""

    text: str
    alias: str
    columns: Columns
    is_table: bool


@dataclass
class _Writer:
    """Writes a query, operator by operator."""

    draw: st.DrawFn
    frames: Mapping[str, Stream | Relation]
    n_left: int
    """How many operators may still be used."""
    n_aliases: int = 0
    has_window: bool = False
    """Whether a query around the current place has a window."""

    def whole_query(self) -> str:
        """A query with the outputs that it likes best."""
        window = self._choose_window(_SOMETIMES)
        with self._under(window):
            body = self._top_select() if self.draw(_SOMETIMES) else self._body(self._one(_SOME))
        return body + window

    def endless_query(self) -> str:
        """One in which rows may stay for ever, as nothing above has to keep them."""
        self.n_left = 0
        kind = self._one(("group", "filter", "union", "subquery"))
        if kind == "group":
            items = [self._stream(self._one(_LANDMARKS))]
            items += [self._relation()] if "r" in self.frames and self.draw(_SELDOM) else []
            return self._grouped(items, self._where(items), _ENDLESS_AGGREGATES)
        if kind == "subquery":
            sides = self._endless_select(_LANDMARKS), self._endless_select(_LANDMARKS)
            item = _Item(f"({' UNION ALL '.join(sides)}) {(alias := self._alias())}", alias, ("k", "v"), is_table=False)
            return self._grouped([item], self._where([item]), _ENDLESS_AGGREGATES)
        text = self._endless_select(_ENDLESS)
        return text if kind == "filter" else f"{text} UNION ALL {self._endless_select(_ENDLESS)}"

    def _endless_select(self, windows: Sequence[str]) -> str:
        item = self._stream(self._one(windows))
        return f"SELECT {item.alias}.k, {item.alias}.v FROM {item.text}{self._where([item])}"

    def _query(self, columns: Columns) -> str:
        """What stands in brackets: a query for these columns, perhaps with a window of its own."""
        window = self._choose_window(_SELDOM)
        with self._under(window):
            return self._body(columns) + window

    def _body(self, columns: Columns) -> str:
        if not self._spend(_SOMETIMES):
            return self._select(columns)
        sides = [self._side(columns) for _ in range(self._one((2, 2, 2, 3)))]
        return sides[0] + "".join(f" {self._one(_SET_OPERATIONS)} {side}" for side in sides[1:])

    def _side(self, columns: Columns) -> str:
        """A side of a set operation."""
        return f"({self._query(columns)})" if self.n_left > 1 and self.draw(_SELDOM) else self._select(columns)

    def _select(self, columns: Columns) -> str:
        """A SELECT of exactly these columns, under these names."""
        features = self._features()
        items = self._items(columns, features)
        where = self._where(items, "membership" in features)
        outputs = {column: f"{items[0].alias}.{column}" for column in columns}
        group = ""
        if "group" in features:
            if "v" in columns:
                outputs["v"] = self._aggregate(items, _WHOLE_AGGREGATES)
            keys = [outputs[column] for column in columns if column != "v"]
            group = f" GROUP BY {', '.join(keys)}{self._having(items)}" if keys else ""
        written = ", ".join(f"{output} AS {column}" for column, output in outputs.items())
        return f"SELECT {_distinct(features)}{written} FROM {_from(items)}{where}{group}"

    def _top_select(self) -> str:
        features = self._features()
        items = self._items(self._one(_SOME), features)
        where = self._where(items, "membership" in features)
        if "group" in features:
            return self._grouped(items, where, _TOP_AGGREGATES, _distinct(features))
        outputs = [f"{item.alias}.{column}" for item in items for column in item.columns]
        chosen = self.draw(st.lists(st.sampled_from(("*", *outputs)), min_size=1, max_size=3))
        listed = "*" if "*" in chosen else ", ".join(chosen)
        return f"SELECT {_distinct(features)}{listed} FROM {_from(items)}{where}"

    def _grouped(self, items: list[_Item], where: str, pool: Sequence[str], distinct: str = "") -> str:
        """A SELECT with up to two keys, rarely not all of them shown, and up to three aggregates."""
        columns = [f"{item.alias}.{column}" for item in items for column in item.columns]
        with_parity = [*columns, *(f"{column} % 2" for column in columns if column.endswith(".v"))]
        keys = self.draw(st.lists(st.sampled_from(with_parity), max_size=2, unique=True))
        shown = keys[:-1] if self.draw(_SELDOM) else keys
        aggregates = [f"{self._aggregate(items, pool)} AS x{number}" for number in range(self._one((1, 2, 3)))]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        outputs = ", ".join([*shown, *aggregates])
        having = self._having(items, _ENDLESS_HAVING if pool is _ENDLESS_AGGREGATES else _HAVING)
        return f"SELECT {distinct}{outputs} FROM {_from(items)}{where}{group}{having}"

    def _aggregate(self, items: list[_Item], pool: Sequence[str]) -> str:
        if pool is _TOP_AGGREGATES:
            pool = (*pool, *(f"count(DISTINCT {{x}}.{column})" for column in "kj"))
        if len(items) == 1 and items[0].is_table:
            pool = (*pool, *_ORDERED_AGGREGATES)
        item = self._one(items)
        fitting = [call for call in pool if _fits(call, item.columns)]
        return self._one(fitting).format(x=item.alias)

    def _having(self, items: list[_Item], pool: Sequence[str] = _HAVING) -> str:
        if not self.draw(_SELDOM):
            return ""
        item = self._one(items)
        conditions = [condition for condition in pool if _fits(condition, item.columns)]
        return f" HAVING {self._one(conditions).format(x=item.alias)}"

    def _features(self) -> list[str]:
        """What a SELECT has besides outputs and filters."""
        n_features = min(self.n_left, self._one((1, 2, 2, 1, 0)))
        self.n_left -= n_features
        return self.draw(st.lists(st.sampled_from(_FEATURES), min_size=n_features, max_size=n_features, unique=True))

    def _items(self, columns: Columns, features: list[str]) -> list[_Item]:
        """One or two items; the first has all columns asked for."""
        items = [self._subquery(columns) if "subquery" in features else self._stream(self._bracket())]
        if "join" in features:
            items.append(self._relation() if "r" in self.frames and self.draw(_SOMETIMES) else self._item(columns))
        return items

    def _item(self, columns: Columns) -> _Item:
        return self._subquery(columns) if self._spend(_SELDOM) else self._stream(self._bracket())

    def _subquery(self, columns: Columns) -> _Item:
        columns = tuple(column for column in _ALL if column in {*columns, *self._one(_SOME)})
        alias = self._alias()
        return _Item(f"({self._query(columns)}) {alias}", alias, columns, is_table=False)

    def _stream(self, window: str) -> _Item:
        alias = self._alias()
        name = self._one([name for name, frame in self.frames.items() if isinstance(frame, Stream)])
        return _Item(f"{name} {alias}{window}", alias, _ALL, is_table=True)

    def _relation(self) -> _Item:
        return _Item(f"r {(alias := self._alias())}", alias, _ALL, is_table=True)

    def _where(self, items: list[_Item], has_membership: bool = False) -> str:
        conditions = []
        if len(items) == 2 and self._one((True, True, True, False)):
            column = self._one([column for column in items[0].columns if column in items[1].columns] or [""])
            conditions += [f"{items[0].alias}.{column} = {items[1].alias}.{column}"] if column else []
        for item in items:
            if self.draw(_SELDOM):
                pool = [template for column in item.columns for template in _FILTERS[column]]
                conditions.append(self._one(pool).format(x=item.alias))
        if has_membership:
            conditions.append(self._membership(items[0]))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _membership(self, item: _Item) -> str:
        negation = self._one(("", "NOT "))
        column = self._one(item.columns)
        if self.draw(_SOMETIMES):
            return f"{item.alias}.{column} {negation}IN ({self._query((column,))})"
        other = self._item((column,))
        conditions = [f"{other.alias}.{column} = {item.alias}.{column}"] if self._one((True, True, False)) else []
        conditions += [self._one(_FILTERS[column]).format(x=other.alias)] if self.draw(_SELDOM) else []
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{negation}EXISTS (SELECT 1 FROM {other.text}{where})"

    def _bracket(self) -> str:
        is_own = not self.has_window or self.draw(_SELDOM)
        return self._filled(self._one(_BRACKETS)) if is_own else ""

    def _choose_window(self, is_given: st.SearchStrategy[bool]) -> str:
        return self._filled(self._one(_WINDOWS)) if self.draw(is_given) else ""

    @contextmanager
    def _under(self, window: str) -> Iterator[None]:
        before = self.has_window
        self.has_window = before or bool(window)
        yield
        self.has_window = before

    def _filled(self, window: str) -> str:
        """A window with the numbers that it lacks."""
        numbers = {"length": _LENGTHS, "slide": _SLIDES, "count": _COUNTS}
        return window.format(**{name: self._one(pool) for name, pool in numbers.items() if f"{{{name}}}" in window})

    def _spend(self, is_wanted: st.SearchStrategy[bool]) -> bool:
        """Whether one more operator is used."""
        is_used = self.n_left > 0 and self.draw(is_wanted)
        self.n_left -= is_used
        return is_used

    def _one(self, pool: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(pool))

    def _alias(self) -> str:
        self.n_aliases += 1
        return f"{'ABCDEFGH'[(self.n_aliases - 1) % 8]}{(self.n_aliases - 1) // 8 or ''}"


def _fits(template: str, columns: Columns) -> bool:
    """Whether an item with these columns has what a template reads."""
    return all(f"{{x}}.{column}" not in template or column in columns for column in _ALL)


def _distinct(features: list[str]) -> str:
    return "DISTINCT " if "distinct" in features else ""


def _from(items: list[_Item]) -> str:
    return ", ".join(item.text for item in items)
