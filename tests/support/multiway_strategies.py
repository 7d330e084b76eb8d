"""Hypothesis strategies for joins of many streams: graphs of windows of pairs, and queries over them with their rows.

As in `sash.testing.strategies`, what stands first among choices is what is common and what cases shrink to: two
streams, one window, a row each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, TypeAlias

from hypothesis import strategies as st

from sash.frames import Relation, Stream, relation
from sash.sql.window_graph import PairWindow
from sash.testing.case import Case
from sash.testing.strategies import TIME_TYPES, schemas, streams, tables

MAX_STREAMS = 6
MAX_ROWS = {2: 8, 3: 8, 4: 6, 5: 5, 6: 4}
"""Rows of each stream, by the number of streams: few enough to look at every combination."""

Edges: TypeAlias = list[tuple[str, str]]

_SELDOM = st.sampled_from((False, False, False, False, True))
_MOSTLY = st.sampled_from((True, True, True, False))
_LENGTHS = (5, 9, 3, 7, 2, 4, 1)
_FAMILIES = ("number", "number", "string", "instant", "boolean")
_CONDITIONS: Mapping[str, Sequence[str]] = {
    "one key": ("{x}.k = {y}.k",),
    "keys": ("{x}.k = {y}.k", "{x}.j = {y}.j", "{x}.v = {y}.v"),
    "none": (),
    "band": ("{x}.v - {y}.v BETWEEN -1 AND 1",),
    "theta": ("{x}.v <= {y}.v", "{x}.v <> {y}.v", "{x}.v + {y}.v > 2", "{x}.v < {y}.v"),
    "any": ("{x}.k = {y}.k", "{x}.j = {y}.j", "{x}.v % 2 = {y}.v % 2", "abs({x}.v - {y}.v) <= 1", "{x}.v <= {y}.v"),
}
_FILTERS = ("{x}.v > 1", "{x}.v IN (1, 2)", "{x}.k IS NOT NULL", "({x}.v IS NULL OR {x}.v = 1)", "1 = 0")
_AGGREGATES = ("count(*)", "sum({x}.v)", "min({x}.v)", "max({x}.v)", "count(DISTINCT {x}.v)", "avg({x}.v)")
_SET_OPERATIONS = ("EXCEPT", "UNION ALL", "INTERSECT", "EXCEPT ALL", "UNION")
_TOPS = ("group", "distinct", "set operation", "subquery", "member")


@st.composite
def window_graphs(draw: st.DrawFn, aliases: Sequence[str], max_length_us: int = 9) -> tuple[PairWindow, ...]:
    """Windows of pairs that connect all streams, some of them directed, without a circle."""
    known = st.sampled_from([length_us for length_us in _LENGTHS if length_us <= max_length_us])
    lengths = st.sampled_from(draw(st.lists(known, min_size=1, max_size=3)))
    edges = draw(_trees(aliases))
    kind = draw(st.sampled_from(("tree", "some more", "complete")))
    others = [pair for pair in combinations(aliases, 2) if pair not in edges]
    edges += [pair for pair in others if kind == "complete" or (kind == "some more" and draw(_SELDOM))]
    earlier = draw(st.permutations(aliases))
    is_mixed, pairs = draw(st.booleans()), []
    for one, other in edges:
        is_directed = is_mixed and draw(st.booleans())
        is_turned = earlier.index(other) < earlier.index(one) if is_directed else draw(_SELDOM)
        left, right = (other, one) if is_turned else (one, other)
        pairs.append(PairWindow(left, right, draw(lengths), is_directed))
    return tuple(pairs)


def write_windows(pairs: Sequence[PairWindow]) -> str:
    """The clause that gives pairs of streams these windows."""
    words = [f"{'D' * pair.is_directed}WINDOW ({pair.left}, {pair.right}) = {pair.length_us} us" for pair in pairs]
    return " " + " AND ".join(words)


@st.composite
def multiway_cases(
    draw: st.DrawFn,
    is_late: bool = False,
    is_join: bool = False,
    kinds: Sequence[str] = ("pairs", "pairs", "one", "each"),
) -> Case:
    """A join of two to six streams, perhaps with a relation, and their rows; unless `is_join`, perhaps with more above.

    `kinds` are the kinds of windows: of `pairs`, `one` for all, or one for `each` stream.
    """
    top = "join" if is_join or draw(_MOSTLY) else draw(st.sampled_from(_TOPS))
    n_streams = draw(st.sampled_from((2, 3, 3, 4, 5, MAX_STREAMS)))
    max_rows = MAX_ROWS[n_streams]
    names = draw(_names(n_streams))
    families = draw(st.tuples(*[st.sampled_from(_FAMILIES)] * 2))
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    same = st.just(draw(schemas(families, time)))
    each = schemas(families, time) if top == "join" else same
    # Among many streams one with a single row leaves little to join.
    least = (1 if n_streams < 4 else 2, max_rows, max_rows - 1, max_rows, *([0] if draw(_SELDOM) else []))
    frames: dict[str, Stream | Relation] = {
        name: draw(each.flatmap(lambda schema: streams(schema, max_rows, is_late, least)))
        for name in sorted(set(names))
    }
    if draw(_SELDOM):
        frames["r"] = relation(draw(schemas(families).flatmap(lambda schema: tables(schema, 3, (1, 2, 0)))))
    writer = _Writer(draw, names, "r" in frames, draw(st.sampled_from(kinds)))
    emit = draw(st.sampled_from(("", "", " EMIT CHANGES")))
    return Case(writer.query(top) + emit, frames)


@st.composite
def _names(draw: st.DrawFn, n_streams: int) -> list[str]:
    """What streams are called; seldom some are the same stream."""
    names = list("abcdef"[:n_streams])
    if draw(_SELDOM):
        names = draw(st.lists(st.sampled_from(names[: max(1, n_streams // 2)]), min_size=n_streams, max_size=n_streams))
    return names


@st.composite
def _trees(draw: st.DrawFn, aliases: Sequence[str]) -> Edges:
    """Pairs that connect all: a chain, a star, or any tree."""
    kind = draw(st.sampled_from(("chain", "any", "star")))
    if kind == "chain":
        return list(pairwise(aliases))
    numbers = range(1, len(aliases))
    parents = [draw(st.integers(0, number - 1)) if kind == "any" else 0 for number in numbers]
    return [(aliases[parent], aliases[number]) for number, parent in zip(numbers, parents)]


@dataclass(frozen=True)
class _Writer:
    """Writes a query over streams, each under an alias of its own."""

    draw: st.DrawFn
    names: Sequence[str]
    has_relation: bool
    kind: str

    @property
    def aliases(self) -> str:
        return "ABCDEF"[: len(self.names)]

    def query(self, top: str) -> str:
        if top == "group":
            keys = self.draw(
                st.lists(st.sampled_from([f"{alias}.k" for alias in self.aliases]), max_size=2, unique=True)
            )
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
            return self._select(", ".join([*keys, *self._aggregates()]), group)
        if top == "distinct":
            return self._select(f"DISTINCT {self._one(self.aliases)}.k, {self._one(self.aliases)}.v")
        if top == "set operation":
            both = [f"({self._select(f'{self._one(self.aliases)}.k')})", f"SELECT X.k FROM {self._stream('X')}"]
            return f" {self._one(_SET_OPERATIONS)} ".join(self.draw(st.permutations(both)))
        if top == "subquery":
            inner = self._select(f"{self._one(self.aliases)}.k, {self._one(self.aliases)}.v AS v")
            return f"SELECT x.k, count(*) AS n FROM ({inner}) x GROUP BY x.k"
        if top == "member":
            inner = self._select(f"{self._one(self.aliases)}.v")
            return f"SELECT X.v FROM {self._stream('X')} WHERE X.v IN ({inner})"
        return self._select(self._outputs())

    def _select(self, outputs: str, group: str = "") -> str:
        """A join of all streams."""
        windows = self._windows()
        items = [f"{name} {alias}{windows.get(alias, '')}" for name, alias in zip(self.names, self.aliases)]
        conditions = self._conditions()
        if self.has_relation:
            items.insert(self.draw(st.integers(0, len(items))), "r R")
            conditions += self._lookups()
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {outputs} FROM {', '.join(items)}{where}{group}{windows.get('', '')}"

    def _windows(self) -> dict[str, str]:
        """By alias what stands behind a stream, and under no name what stands at the end."""
        if self.kind == "pairs":
            return {"": write_windows(self.draw(window_graphs(self.aliases)))}
        if self.kind == "one":
            return {"": f" WINDOW {self._one(_LENGTHS)} us"}
        return {alias: f" [RANGE {self._one(_LENGTHS)} us]" for alias in self.aliases}

    def _conditions(self) -> list[str]:
        kind = self._one(tuple(_CONDITIONS))
        edges = self.draw(_trees(self.aliases)) if _CONDITIONS[kind] else []
        conditions = []
        for number, (one, other) in enumerate(edges):
            pool = _CONDITIONS[kind]
            if kind in ("one key", "keys") or self._one((True, True, False)):
                template = self._one(pool) if kind in ("any", "theta") else pool[number % len(pool)]
                conditions.append(template.format(x=one, y=other))
        filtered = self.draw(st.lists(st.sampled_from(self.aliases), max_size=2)) if self.draw(_SELDOM) else []
        return conditions + [self._one(_FILTERS).format(x=alias) for alias in filtered]

    def _lookups(self) -> list[str]:
        """The relation is joined to one or two streams."""
        chosen = self.draw(st.lists(st.sampled_from(self.aliases), min_size=1, max_size=2, unique=True))
        return [f"R.{column} = {alias}.{column}" for column, alias in zip("kj", chosen)]

    def _outputs(self) -> str:
        kind = self._one(("values", "some", "all"))
        if kind == "values":
            return ", ".join(f"{alias}.v AS v{number}" for number, alias in enumerate(self.aliases))
        if kind == "all":
            return self._one(("*", *(f"{alias}.*" for alias in self.aliases)))
        columns = [f"{alias}.{column}" for alias in self.aliases for column in ("k", "ts", "v", "j")]
        return ", ".join(self.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4)))

    def _aggregates(self) -> list[str]:
        calls = self.draw(st.lists(st.sampled_from(_AGGREGATES), min_size=1, max_size=2))
        return [f"{call.format(x=self._one(self.aliases))} AS x{number}" for number, call in enumerate(calls)]

    def _stream(self, alias: str) -> str:
        return f"{self._one(self.names)} {alias} [RANGE {self._one(_LENGTHS)} us]"

    def _one(self, pool: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(pool))
