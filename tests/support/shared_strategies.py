"""Hypothesis strategies for queries that share a join: sets of queries, their streams, and what happens while they run.

As in `sash.testing.strategies`, what stands first among choices is what is common and what cases shrink to: two queries
over two streams, there from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sash.frames import Relation, Stream, relation, table_catalog
from sash.testing.case import Step
from sash.testing.strategies import TIME_TYPES, arrival_cuts, schemas, streams, tables
from support.shared_case import Add, Drop, Event, Pause, Resume, SharedCase

SCHEDULES = ("lwo", "swf", "mqt")
MAX_ROWS = 7
FEW, MOST = 2, 30

_SELDOM = st.sampled_from((False, False, False, False, True))
_SOMETIMES = st.sampled_from((False, False, True))
_OFTEN = st.sampled_from((True, False))
_N_QUERIES = st.sampled_from((2, 3, 2, 3, 4, 5, 2, 3, 2, 3, 4, 2, 3, None)).flatmap(
    lambda n_queries: st.integers(FEW, MOST) if n_queries is None else st.just(n_queries)
)
_FAMILIES = ("number", "boolean", "boolean", "instant", "string")
"""Most have few values, so that tuples meet."""
_LENGTHS = (5, 20, 9, 30, 3, 20, 2, 1, 1_000_000)
_ALIASES = (("A", "B"), ("A", "B"), ("B", "A"), ("x", "y"), ("one", "other"))
_KEYS: tuple[tuple[str, ...], ...] = (
    ("{x}.k = {y}.k",),
    ("{x}.k = {y}.k", "{x}.j = {y}.j"),
    ("{x}.v = {y}.v",),
    ("{x}.v % 2 = {y}.v % 2",),
    ("{x}.v + 1 = {y}.v",),
)
_FILTERS = (
    "{x}.v > 1",
    "{x}.v IN (1, 2)",
    "{x}.v >= 1",
    "{x}.v BETWEEN 0 AND 2",
    "{x}.v <= 2",
    "{x}.v <> 3",
    "{x}.k IS NOT NULL",
    "({x}.v IS NULL OR {x}.v = 1)",
    "{x}.v IS NULL",
    "NOT ({x}.v > 1)",
    "1 = 0",
)
_RESIDUALS = ("{x}.v < {y}.v", "{x}.v <> {y}.v", "{x}.v + {y}.v > 3", "({x}.v IS NULL OR {y}.v > 1)", "{x}.j = {y}.j")
_EXPRESSIONS = ("{x}.v + {y}.v AS both", "coalesce({x}.v, -1)", "{x}.v IS NULL AS is_null", "'it''s' AS tag")
_AGGREGATES = (
    "count(*)",
    "sum({x}.v)",
    "min({y}.v)",
    "max({x}.v)",
    "avg({y}.v)",
    "count(DISTINCT {x}.v)",
    "count(DISTINCT {y}.k)",
    "median({x}.v)",
)
_HAVING = ("count(*) > 1", "sum({x}.v) > 2", "max({y}.v) = 2", "min({x}.v) IS NULL")
_SET_OPERATIONS = ("UNION ALL", "EXCEPT", "UNION", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
_TOPS = ("join", "join", "group", "distinct", "global", "set operation", "subquery")
_UNSHARED = (
    "SELECT A.v, B.v AS w FROM {one} A [ROWS 2], {other} B [ROWS 2] WHERE {keys}",
    "SELECT A.v, B.v AS w FROM {one} A [ROWS 3], {other} B [RANGE 5 us] WHERE {keys}",
    "SELECT A.v, B.v AS w, C.v AS u FROM {one} A, {other} B, c C WHERE {keys} AND B.v = C.v WINDOW 5 us",
    "SELECT A.k, count(*) AS n FROM {one} A GROUP BY A.k WINDOW 5 us",
    "SELECT A.v, A.k FROM {other} A WHERE A.v > 1 WINDOW 3 us",
    "SELECT A.v, B.v AS w FROM {one} A, {other} B WHERE A.v < B.v WINDOW 3 us",
    "SELECT A.k, B.v FROM {one} A, {other} B WHERE A.v = B.v + 2 WINDOW 9 us",
    "SELECT A.v, B.v AS w FROM {one} A, {other} B WHERE {keys} WINDOW 4 us SLIDE 2 us",
)


@st.composite
def shared_cases(draw: st.DrawFn, is_steady: bool = False, is_late: bool = True) -> SharedCase:
    """Two to thirty queries, most of which share one join of two streams, with rows, and queries that come and go.

    If `is_steady`, all queries are there from the start to the end. Some of the rows may come too late if `is_late`.
    """
    frames = draw(_frames(is_late))
    pair = draw(st.sampled_from((("a", "b"), ("a", "b"), ("a", "b"), ("a", "b"), ("a", "a"))))
    writer = _Writer(draw, pair, draw(st.sampled_from(_KEYS)), "r" in frames)
    texts = {f"q{number}": writer.query() for number in range(draw(_N_QUERIES))}
    if "c" in frames:
        texts["apart"] = writer.unshared()
    arrivals = table_catalog(frames)[1]
    steps = draw(arrival_cuts(arrivals))
    events = [*map(Add, texts), *steps] if is_steady else draw(_comings_and_goings(list(texts), steps))
    return SharedCase(texts, frames, events)


def with_schedule(case: SharedCase, schedule: str | None) -> SharedCase:
    """The case with a hint for all queries that can share their join."""
    if schedule is None:
        return case
    hint = f"SELECT /*+ {schedule} */"
    texts = {name: text if name == "apart" else text.replace("SELECT", hint, 1) for name, text in case.texts.items()}
    return SharedCase(texts, case.frames, case.events)


@st.composite
def _frames(draw: st.DrawFn, is_late: bool) -> dict[str, Stream | Relation]:
    """Streams `a` and `b`, perhaps a relation `r`, perhaps a stream `c`, which only queries read that run alone."""
    families = draw(st.tuples(*[st.sampled_from(_FAMILIES)] * 2))
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    same = st.just(draw(schemas(families, time)))
    each = schemas(families, time) if draw(_SELDOM) else same
    least = (2, MAX_ROWS, MAX_ROWS, MAX_ROWS - 1, 4, *([0] if draw(_SELDOM) else []))
    names = ("a", "b", "c") if draw(_SELDOM) else ("a", "b")
    has_late = is_late and draw(_SELDOM)
    frames: dict[str, Stream | Relation] = {
        name: draw(each.flatmap(lambda schema: streams(schema, MAX_ROWS, has_late, least))) for name in names
    }
    if draw(_SELDOM):
        frames["r"] = relation(draw(schemas(families).flatmap(lambda schema: tables(schema, 3, (1, 2, 0)))))
    return frames


@st.composite
def _comings_and_goings(draw: st.DrawFn, names: list[str], steps: Sequence[Step]) -> list[Event]:
    """The steps, and between them queries that are added, dropped, paused and resumed."""
    waiting = draw(st.lists(st.sampled_from(names), max_size=len(names) - 1, unique=True)) if len(names) > 1 else []
    running = [name for name in names if name not in waiting]
    paused: list[str] = []
    events: list[Event] = list(map(Add, running))
    for step in steps:
        for _ in range(draw(st.sampled_from((0, 1, 0, 2)))):
            moves = [(Add, waiting, running), (Drop, running, waiting), (Pause, running, paused)]
            moves += [(Resume, paused, running), (Drop, paused, waiting)]
            kind, source, goal = draw(st.sampled_from([move for move in moves if move[1]]))
            name = draw(st.sampled_from(source))
            source.remove(name)
            goal.append(name)
            events.append(kind(name))
        events.append(step)
    return events


@dataclass(frozen=True)
class _Writer:
    """Writes queries over one join."""

    draw: st.DrawFn
    pair: tuple[str, str]
    keys: Sequence[str]
    has_relation: bool

    def query(self) -> str:
        """A query with a block over the join, or two; perhaps with EMIT CHANGES."""
        top = self._one(_TOPS)
        text = self._set_operation() if top == "set operation" else self._block(top)
        return text + (" EMIT CHANGES" if self.draw(_SELDOM) else "")

    def unshared(self) -> str:
        """A query that has to run alone."""
        keys = " AND ".join(key.format(x="A", y="B") for key in self.keys)
        return self._one(_UNSHARED).format(one=self.pair[0], other=self.pair[1], keys=keys)

    def _set_operation(self) -> str:
        """Of two blocks whose columns come from the same stream, each with windows of its own."""
        blocks = [self._block("columns"), self._block("columns")]
        return f"({blocks[0]}) {self._one(_SET_OPERATIONS)} ({blocks[1]})"

    def _block(self, top: str) -> str:
        if top == "subquery":
            having = " HAVING count(*) > 1" if self.draw(_SELDOM) else ""
            return f"SELECT s.k, count(*) AS n, max(s.v) AS top FROM ({self._block('columns')}) s GROUP BY s.k{having}"
        aliases = self._one(_ALIASES)
        x, y = aliases
        if top == "group":
            pool = (f"{x}.k", f"{y}.v", f"{x}.j", f"{y}.k", f"{x}.v % 2")
            keys = self.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2, unique=True))
            having = f" HAVING {self._one(_HAVING).format(x=x, y=y)}" if self.draw(_SELDOM) else ""
            return self._select(
                ", ".join([*keys, *self._aggregates(x, y)]), aliases, f" GROUP BY {', '.join(keys)}{having}"
            )
        outputs = {
            "columns": lambda: f"{x}.k, {self._one((x, y))}.v",
            "global": lambda: ", ".join(self._aggregates(x, y)),
            "distinct": lambda: f"DISTINCT {self._columns(x, y, 2)}",
            "join": lambda: self._outputs(x, y),
        }[top]()
        return self._select(outputs, aliases)

    def _select(self, outputs: str, aliases: tuple[str, str], group: str = "") -> str:
        """The join, with windows and filters of its own."""
        window, windows = self._windows()
        items = [f"{name} {alias}{own}" for name, alias, own in zip(self.pair, aliases, windows)]
        conditions = [self._key(key, *aliases) for key in self.keys] + self._filters(aliases)
        items = items[::-1] if self.draw(_SELDOM) else items
        if self.has_relation and self.draw(_OFTEN):
            items.insert(self._one((2, 1, 0)), "r R")
            conditions.append(f"R.k = {self._one(aliases)}.k")
        elif self.draw(_SELDOM):
            return f"SELECT {outputs} FROM {' JOIN '.join(items)} ON {' AND '.join(conditions)}{group}{window}"
        return f"SELECT {outputs} FROM {', '.join(items)} WHERE {' AND '.join(conditions)}{group}{window}"

    def _key(self, key: str, x: str, y: str) -> str:
        left, right = key.format(x=x, y=y).split(" = ")
        return f"{right} = {left}" if self.draw(_SELDOM) else f"{left} = {right}"

    def _filters(self, aliases: tuple[str, str]) -> list[str]:
        """Filters of either stream, and conditions across both."""
        chosen = [self._one(_FILTERS).format(x=alias) for alias in aliases if self.draw(_SOMETIMES)]
        return chosen + ([self._one(_RESIDUALS).format(x=aliases[0], y=aliases[1])] if self.draw(_SELDOM) else [])

    def _windows(self) -> tuple[str, tuple[str, str]]:
        """The window of all, or one of each stream."""
        if self.draw(_OFTEN):
            return f" WINDOW {self._one(_LENGTHS)} us", ("", "")
        each = tuple(" [NOW]" if self.draw(_SELDOM) else f" [RANGE {self._one(_LENGTHS)} us]" for _ in "ab")
        return "", (each[0], each[1])

    def _outputs(self, x: str, y: str) -> str:
        kind = self._one(("values", "columns", "all", "expressions"))
        if kind == "values":
            return f"{x}.v AS v, {y}.v AS w"
        if kind == "all":
            return self._one(("*", f"{x}.*", f"{y}.*, {x}.ts"))
        if kind == "columns":
            return self._columns(x, y, 4)
        return ", ".join([f"{y}.k", self._one(_EXPRESSIONS).format(x=x, y=y)])

    def _columns(self, x: str, y: str, n_most: int) -> str:
        columns = [f"{alias}.{column}" for alias in (x, y) for column in ("k", "v", "ts", "j")]
        return ", ".join(self.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=n_most, unique=True)))

    def _aggregates(self, x: str, y: str) -> list[str]:
        calls = self.draw(st.lists(st.sampled_from(_AGGREGATES), min_size=1, max_size=3))
        return [f"{call.format(x=x, y=y)} AS x{number}" for number, call in enumerate(calls)]

    def _one(self, pool: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(pool))
