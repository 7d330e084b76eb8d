"""The first rows of generated queries: ORDER BY … LIMIT, QUALIFY and DISTINCT ON, as text and as plain SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from support.generated.choices import Choices

ORDERS = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
Order = tuple[tuple[str, str], ...]
"""Expressions, each with how it is ordered."""


@dataclass(frozen=True, slots=True)
class Qualify:
    """The first rows of each partition, as a function counts."""

    function: str
    partition_by: tuple[str, ...]
    order: Order
    last: int
    first: int = 0

    @property
    def text(self) -> str:
        partition = f"PARTITION BY {', '.join(self.partition_by)}" if self.partition_by else ""
        over = " ".join(filter(None, (partition, order_by(self.order))))
        if self.first:
            return f" QUALIFY {self.function}() OVER ({over}) BETWEEN {self.first + 1} AND {self.last}"
        return f" QUALIFY {self.function}() OVER ({over}) <= {self.last}"


@dataclass(frozen=True, slots=True)
class Ranks:
    """What a query has of these clauses."""

    qualify: Qualify | None = None
    distinct_on: tuple[str, ...] = ()
    order: Order = ()
    words: tuple[str, ...] = ()
    """How ORDER BY names what it orders by, if not as expressions."""
    n_rows: int | None = None
    n_skipped: int = 0
    with_ties: bool = False
    spelling: str = field(default="limit", compare=False)

    @property
    def text(self) -> str:
        qualify = self.qualify.text if self.qualify else ""
        words = self.words or tuple(expr for expr, _ in self.order)
        order = order_by(tuple((word, how) for word, (_, how) in zip(words, self.order, strict=True)))
        text = f"{qualify} {order}" if order else qualify
        if self.n_rows is None:
            return text
        skipped = f" OFFSET {self.n_skipped}" if self.n_skipped else ""
        if self.with_ties or self.spelling == "fetch":
            return f"{text}{skipped} FETCH FIRST {self.n_rows} ROWS {'WITH TIES' if self.with_ties else 'ONLY'}"
        return f"{text} LIMIT {self.n_rows}{skipped}"

    def plain(self, expr: str) -> str:
        """`ORDER BY … LIMIT` of a subquery that selects an expression, which places rows that are equal in order."""
        order = order_by((*((each, explicit(how)) for each, how in self.order), (expr, " NULLS LAST")))
        return f" {order} LIMIT {self.n_rows} OFFSET {self.n_skipped}"

    @property
    def steps(self) -> list[Qualify]:
        """One choice of rows after the other."""
        found = [self.qualify] if self.qualify else []
        if self.distinct_on:
            found.append(Qualify("row_number", self.distinct_on, self.order, 1))
        if self.n_rows is not None:
            function = "rank" if self.with_ties else "row_number"
            found.append(Qualify(function, (), self.order, self.n_skipped + self.n_rows, self.n_skipped))
        return found

    @property
    def features(self) -> list[str]:
        names = {"DISTINCT ON": self.distinct_on, "LIMIT": self.n_rows, "OFFSET": self.n_skipped}
        found = [name for name, is_there in names.items() if is_there]
        found += ["WITH TIES"] if self.with_ties else []
        return [*found, f"QUALIFY {self.qualify.function}()"] if self.qualify else found


FEATURES = (
    *("DISTINCT ON", "LIMIT", "OFFSET", "WITH TIES"),
    *(f"QUALIFY {name}()" for name in ("row_number", "rank", "dense_rank")),
)


def draw_ranks(choices: Choices, known: Sequence[str], shown: Sequence[tuple[str, str]], is_distinct: bool) -> Ranks:
    """Clauses over expressions that are known, or over the columns shown, expressions and names, after DISTINCT."""
    exprs = [expr for expr, _ in shown]
    order = _draw_order(choices, exprs if is_distinct or choices.chance(40) else [*known, *exprs])
    words = _draw_words(choices, order, shown)
    kind = choices.weighted({"limit": 6, "qualify": 6, "on": 2, "both": 1})
    if is_distinct and kind == "on":
        kind = "limit"
    ranks = Ranks()
    if kind in ("qualify", "both"):
        function = choices.weighted({"row_number": 4, "rank": 2, "dense_rank": 1})
        first = choices.one((0, 0, 1)) if function == "row_number" else 0
        partition_by = tuple(dict.fromkeys(choices.some(known, 2)))
        qualify = Qualify(function, partition_by, _draw_order(choices, known), first + choices.one((1, 2, 3)), first)
        ranks = replace(ranks, qualify=qualify)
    if kind == "on":
        ranks = replace(ranks, distinct_on=tuple(dict.fromkeys((choices.one(known),))), order=order, words=words)
    if kind in ("limit", "both") or (kind == "on" and choices.chance(30)):
        with_ties = bool(order) and choices.chance(30)
        n_skipped = choices.one((0, 0, 1, 2))
        ranks = replace(ranks, order=order, words=words, n_rows=choices.one((1, 2, 3, 5)), n_skipped=n_skipped)
        ranks = replace(ranks, with_ties=with_ties, spelling=choices.one(("limit", "limit", "fetch")))
    return ranks


def _draw_order(choices: Choices, exprs: Sequence[str]) -> Order:
    found = dict.fromkeys(choices.one(exprs) for _ in range(choices.weighted({1: 5, 2: 2, 0: 1})))
    return tuple((expr, choices.one(ORDERS)) for expr in found)


def _draw_words(choices: Choices, order: Order, shown: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Sometimes by the name of a column, or by its position."""
    if not choices.chance(40):
        return ()
    places = {expr: place for place, (expr, _) in reversed(list(enumerate(shown)))}
    words = []
    for expr, _ in order:
        if expr in places:
            words.append(choices.one((shown[places[expr]][1], str(places[expr] + 1))))
        else:
            words.append(expr)
    return tuple(words)


def plain_steps(sql: str, ranks: Ranks, shown: Sequence[tuple[str, str]], is_distinct: bool) -> str:
    """Plain SQL of the rows that are left of `sql` at every instant `_i`. Of `shown`, expressions and names, it has the
    names as columns, and behind them `_h0`, `_h1` … for what `hidden_of` says. `is_distinct` if equal rows become one
    after QUALIFY.

    Rows that are equal in order are placed by the columns shown, and then by what is read after.
    """
    names, steps = [name for _, name in shown], ranks.steps
    place = {expr: f"_h{number}" for number, expr in enumerate(hidden_of(ranks))}
    for number, step in enumerate(steps):
        if is_distinct and step is not ranks.qualify:
            sql, is_distinct = _selected(sql, names, "DISTINCT "), False
            place = dict(shown)
        later = list(dict.fromkeys(place[each] for each in _read_by(steps[number + 1 :])))
        sql = _plain_step(sql, step, place, [*names, *later])
    return _selected(sql, names, "DISTINCT " if is_distinct else "")


def _selected(sql: str, names: Sequence[str], distinct: str) -> str:
    return f"SELECT {distinct}{', '.join(f'q.{name}' for name in ('_i', *names))} FROM ({sql}) q"


def _read_by(steps: Sequence[Qualify]) -> list[str]:
    return [expr for step in steps for expr in (*step.partition_by, *(each for each, _ in step.order))]


def _plain_step(sql: str, step: Qualify, place: Mapping[str, str], kept: Sequence[str]) -> str:
    """The rows that a step leaves, with the columns that are kept, by which equal ones are placed."""
    partition = ", ".join(f"q.{name}" for name in ("_i", *(place[each] for each in step.partition_by)))
    keys = [f"q.{place[expr]}{explicit(how)}" for expr, how in step.order]
    total = ", ".join([*keys, *(f"q.{name} NULLS LAST" for name in kept)])
    number = f"row_number() OVER (PARTITION BY {partition} ORDER BY {total})"
    order = f" ORDER BY {', '.join(keys)}" if keys else ""
    rank = number if step.function == "row_number" else f"{step.function}() OVER (PARTITION BY {partition}{order})"
    columns = ", ".join(f"q.{name}" for name in ("_i", *kept))
    within = f"SELECT {columns}, {number} AS _n, {rank} AS _r FROM ({sql}) q"
    return f"SELECT * FROM ({within}) p WHERE p._n > {step.first} AND p._r <= {step.last}"


def hidden_of(ranks: Ranks) -> list[str]:
    """The expressions that rows are ordered and partitioned by."""
    return list(dict.fromkeys(_read_by(ranks.steps)))


def explicit(how: str) -> str:
    """As DuckDB means it, also to others."""
    return how if "NULLS" in how else f"{how} NULLS LAST"


def order_by(order: Order) -> str:
    return f"ORDER BY {', '.join(f'{expr}{how}' for expr, how in order)}" if order else ""
