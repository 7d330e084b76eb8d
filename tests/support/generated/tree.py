"""Queries of generated cases as trees of their own, and as the text that Sash reads.

Expressions are text that means the same to Sash and to DuckDB; what the two read differently, windows and what follows
from them, is a node. In the expressions of a SELECT that aggregates, `\\0n\\0` stands for its n-th aggregate, and in
those of any `\\1n\\1` for its n-th subquery, `\\2n\\2` for its n-th function OVER rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from support.generated.overs import OVER_MARK, OverItem
from support.generated.ranks import Ranks

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names and families."""
MARKER = re.compile("\0(\\d+)\0")
MARK = re.compile("\1(\\d+)\1")
PARAMETERS: dict[str, tuple[Any, str]] = {
    "one": (1, "CAST(1 AS INTEGER)"),
    "half": (Decimal("0.50"), "CAST(0.50 AS DECIMAL(2, 2))"),
    "minus": (-1, "CAST(-1 AS INTEGER)"),
    "real": (1.5, "CAST(1.5 AS DOUBLE)"),
    "letter": ("a", "'a'"),
    "quoted": ("it's", "'it''s'"),
}
"""What `$name` may stand for, and the same for DuckDB."""
DECIDED = ("arg_min", "arg_max", "min_by", "max_by")
"""Aggregates whose second argument decides which value is taken."""


class Output(NamedTuple):
    """A column that a SELECT puts out."""

    expr: str
    name: str
    family: str


@dataclass(frozen=True, slots=True)
class Window:
    """`kind` is range, hop, calendar, session, rows, now, unbounded or since; `size` its length in microseconds, units
    of the calendar or rows, the gap between sessions, or the first time.

    Of windows that hop or tumble, `slide` is how far, and `offset` when one of them begins.
    """

    kind: str
    size: int = 0
    slide: int | None = None
    partition_by: tuple[str, ...] = ()
    offset: int = 0
    unit: str = ""
    """Of windows of the calendar: `day`, `week`, `month` or `year`, and the zone, if it is said."""
    zone: str | None = None
    spelling: str = ""
    """Of windows that are columns too: whose words say it, `flink` or others."""
    is_final: bool = False
    """Of windows that are columns too: whether rows are shown when they are over, and stay."""

    @property
    def is_endless(self) -> bool:
        return self.kind in ("unbounded", "since")

    @property
    def has_columns(self) -> bool:
        """Whether rows have it as columns, too."""
        return self.kind in ("hop", "calendar", "session")

    @property
    def in_brackets(self) -> str:
        slide = f" SLIDE {self.slide} us" if self.slide else ""
        partition = f"PARTITION BY {', '.join(self.partition_by)} " if self.partition_by else ""
        since = f"SINCE TIMESTAMP '1970-01-01 00:00:00.{self.size:06d}'"
        texts = {"range": f"RANGE {self.size} us{slide}", "rows": f"{partition}ROWS {self.size}", "since": since}
        return f" [{texts.get(self.kind, self.kind.upper())}]"

    def around(self, stream: str) -> str:
        """A stream with a window that rows have as columns."""
        is_flink, is_hop = self.spelling == "flink", self.kind == "hop" and self.slide != self.size
        by = ", ".join(self.partition_by)
        stream += f" PARTITION BY {f'({by})' if len(self.partition_by) > 1 else by}" if by else ""
        lengths = [*([self.slide] if is_hop else []), self.size, *([self.offset] if self.offset else [])]
        parts = [f"TABLE {stream}", "DESCRIPTOR(ts)"] if is_flink else [stream, "ts"]
        unit = self.unit or ("MICROSECONDS" if is_flink else "us")
        parts += [f"INTERVAL '{length}' {unit}" if is_flink else f"INTERVAL '{length} {unit}'" for length in lengths]
        parts += [f"'{self.zone}'"] if self.zone else []
        function = "SESSION" if self.kind == "session" else "HOP" if is_hop else "TUMBLE"
        call = f"{function}({', '.join(parts)})"
        return f"TABLE({call})" if is_flink else call

    @property
    def at_the_end(self) -> str:
        if self.kind == "rows":
            return f" WINDOW {self.size} ROWS"
        return f" WINDOW {self.size} us" + (f" SLIDE {self.slide} us" if self.slide else "")


@dataclass(frozen=True, slots=True)
class PairWindow:
    """Of two aliases; directed: the right one is not older."""

    left: str
    right: str
    length_us: int
    is_directed: bool

    @property
    def text(self) -> str:
        return f"{'D' if self.is_directed else ''}WINDOW ({self.left}, {self.right}) = {self.length_us} us"


@dataclass(frozen=True, slots=True)
class Reading:
    """A stream or relation in FROM; without a window, a stream has that of the query around it."""

    table: str
    alias: str
    columns: Columns
    is_stream: bool
    window: Window | None = None
    as_of: str | None = None
    """Of a relation: the alias of the stream at the time of whose rows its own must be valid."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A query in FROM, written there or named by WITH."""

    body: Body
    alias: str
    named: str | None = None
    names: tuple[str, ...] = ()
    """What its columns are called behind the alias, if not as in the query."""
    is_unnamed: bool = False
    """Whether it stands there without the alias, which it has anyway."""

    @property
    def columns(self) -> Columns:
        names = self.names or [output.name for output in self.body.outputs]
        return tuple((name, output.family) for name, output in zip(names, self.body.outputs, strict=True))

    @property
    def listed(self) -> str:
        return f"({', '.join(self.names)})" if self.names else ""


Item: TypeAlias = "Reading | Derived"


@dataclass(frozen=True, slots=True)
class Link:
    """How an item of FROM is put beside those before it."""

    word: str
    """A comma, CROSS JOIN, or a JOIN with ON: an inner one, LEFT, RIGHT, FULL, SEMI, ANTI, ASOF or ASOF LEFT."""
    conditions: tuple[str, ...] = ()
    """They stand behind ON, or, without JOIN, in WHERE."""
    using: str | None = None
    """Columns that both of two items have; `conditions` says the same in other words."""
    compared: tuple[str, ...] = ()
    """Of an ASOF join: what its conditions compare of the partner."""

    @property
    def has_on(self) -> bool:
        return self.word not in (", ", "CROSS JOIN")

    @property
    def is_outer(self) -> bool:
        """Whether it matters where its conditions stand."""
        return self.has_on and self.word != "JOIN"

    @property
    def shows(self) -> bool:
        """Whether the item's columns can be seen beside the join."""
        return self.word not in ("SEMI JOIN", "ANTI JOIN")


@dataclass(frozen=True, slots=True)
class Test:
    """A conjunct of WHERE: IN, with the operand and a column of the body, or EXISTS, with equalities to the outside."""

    is_negated: bool
    body: Body
    operand: str | None = None
    equalities: tuple[tuple[str, str], ...] = ()
    """Of EXISTS: an expression within the body, which is a plain SELECT, and one outside."""
    comparisons: tuple[str, ...] = ()
    """Of EXISTS: further conditions between the body and the outside."""
    ranks: Ranks | None = None
    """Which of the rows that are compared with the same outside it looks at, an `ORDER BY … LIMIT`."""


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """A subquery that stands for a value: an aggregate, of all rows, or of those that are equal to the outside, or a
    column of the first of them.
    """

    expr: str
    body: Select
    """What it is an aggregate of."""
    equalities: tuple[tuple[str, str], ...] = ()
    ranks: Ranks | None = None
    """Not of an aggregate: the order by which it is that of the first row."""


Mark: TypeAlias = "Test | ValueQuery"


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate; of rows if there is no argument."""

    function: str
    argument: str | None = None
    is_distinct: bool = False
    filter: str | None = None
    further: str | None = None
    """A second argument: a constant, or, where it decides which value is taken, an expression."""
    order: tuple[tuple[str, str], ...] = ()
    """Expressions, each with how it is ordered."""

    @property
    def exprs(self) -> list[str]:
        """What it reads of rows."""
        keys = [self.further, *(expr for expr, _ in self.order)] if self.is_placed else []
        return [expr for expr in (self.argument, self.filter, *keys) if expr]

    @property
    def is_placed(self) -> bool:
        """Whether its second argument decides which value is taken, or ORDER BY where it stands."""
        return bool(self.order) or self.function in DECIDED

    @property
    def text(self) -> str:
        if self.function.startswith("percentile"):
            called = f"{self.function}({self.further}) WITHIN GROUP (ORDER BY {self.argument}{self.order[0][1]})"
            return f"{called} FILTER (WHERE {self.filter})" if self.filter else called
        further = f", {self.further}" if self.further else ""
        order = f" ORDER BY {', '.join(f'{expr}{how}' for expr, how in self.order)}" if self.order else ""
        called = f"{self.function}({'DISTINCT ' if self.is_distinct else ''}{self.argument or '*'}{further}{order})"
        return f"{called} FILTER (WHERE {self.filter})" if self.filter else called


@dataclass(frozen=True, slots=True)
class Select:
    """`keys` are the expressions of GROUP BY, None if nothing is aggregated."""

    items: tuple[Item, ...]
    links: tuple[Link, ...]
    outputs: tuple[Output, ...]
    where: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    keys: tuple[str, ...] | None = None
    key_words: tuple[str, ...] | None = None
    """How GROUP BY names its keys, if not as expressions: by their positions, or all at once."""
    calls: tuple[Call, ...] = ()
    having: str | None = None
    is_distinct: bool = False
    is_star: bool = False
    """Whether `outputs`, which are all columns of all items, are written as `*`,"""
    excluded: tuple[str, ...] = ()
    """less these."""
    window: Window | None = None
    pairs: tuple[PairWindow, ...] = ()
    is_once: bool = False
    """Whether each row comes once, when nothing can change it (EMIT FINAL)."""
    ranks: Ranks | None = None
    is_interval_join: bool = False
    """Whether it has conditions on times in the place of windows."""
    marks: tuple[Mark, ...] = ()
    """Subqueries that stand in expressions."""
    overs: tuple[OverItem, ...] = ()
    """Functions OVER rows; of a SELECT with `*`, they stand behind that."""

    @property
    def replaced_by(self) -> list[int] | None:
        """The outputs that are keys, if all keys are: then the newest row of a group replaces the older one."""
        if self.keys is None or self.is_distinct or self.ranks or self.overs:
            return None
        places = {expr: place for place, (expr, *_) in reversed(list(enumerate(self.outputs)))}
        return [places[key] for key in self.keys] if all(key in places for key in self.keys) else None


@dataclass(frozen=True, slots=True)
class SetOperation:
    word: str
    left: Body
    right: Body
    window: Window | None = None
    ranks: Ranks | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.left.outputs


Body: TypeAlias = "Select | SetOperation"


@dataclass(frozen=True, slots=True)
class Statement:
    body: Body
    named: tuple[tuple[str, Body], ...] = ()
    """What WITH names."""
    hint: str | None = None
    emit_changes: bool = False
    may_grow: bool = False
    """Whether rows may be kept for ever (WITH UNBOUNDED STATE)."""

    @property
    def text(self) -> str:
        """As Sash reads it."""
        named = f"WITH {', '.join(f'{name} AS ({write(body)})' for name, body in self.named)} " if self.named else ""
        text = write(self.body) + (" WITH UNBOUNDED STATE" if self.may_grow else "")
        if self.hint:
            text = text.replace("SELECT ", f"SELECT /*+ {self.hint} */ ", 1)
        emit = " EMIT ON WINDOW CLOSE" if self.is_final else " EMIT CHANGES" if self.emit_changes else ""
        return named + text + (" EMIT FINAL" if self.is_once else emit)

    @property
    def is_once(self) -> bool:
        return isinstance(self.body, Select) and self.body.is_once

    @property
    def params(self) -> dict[str, Any]:
        """What its parameters stand for."""
        return {name: value for name, (value, _) in PARAMETERS.items() if f"${name}" in self.text}

    @property
    def is_final(self) -> bool:
        items = self.body.items if isinstance(self.body, Select) else ()
        return any(isinstance(item, Reading) and item.window is not None and item.window.is_final for item in items)


def write(body: Body) -> str:
    """The text of a query for Sash."""
    window = body.window.at_the_end if body.window else ""
    if isinstance(body, SetOperation):
        ranks = body.ranks.text if body.ranks else ""
        return f"{_write_side(body.left)} {body.word} {_write_side(body.right)}{ranks}{window}"
    every = f"* EXCLUDE ({', '.join(body.excluded)})" if body.excluded else "*"
    listed = [each for each in body.outputs if not body.is_star or OVER_MARK.search(each.expr)]
    outputs = ", ".join([*([every] if body.is_star else []), *(f"{expr} AS {name}" for expr, name, _ in listed)])
    conditions = [*_loose(body), *body.where, *map(_write_test, body.tests)]
    on = f"DISTINCT ON ({', '.join(body.ranks.distinct_on)}) " if body.ranks and body.ranks.distinct_on else ""
    text = f"SELECT {on or ('DISTINCT ' if body.is_distinct else '')}{outputs} FROM {_write_from(body)}"
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    text += f" GROUP BY {', '.join(body.key_words or _group_words(body))}" if body.keys else ""
    text += f" HAVING {body.having}" if body.having else ""
    text += body.ranks.text if body.ranks else ""
    pairs = f" {' AND '.join(pair.text for pair in body.pairs)}" if body.pairs else ""
    text = OVER_MARK.sub(lambda found: body.overs[int(found[1])].text, text)
    return fill_marks(fill(text, body.calls, lambda call: call.text), body.marks, _write_mark) + window + pairs


def _group_words(select: Select) -> Sequence[str]:
    """What is grouped by, with the window if it stands there."""
    keys = select.keys or ()
    for item in select.items:
        if isinstance(item, Reading) and item.window is not None and item.window.spelling == "group":
            edges = (f"{item.alias}.window_start", f"{item.alias}.window_end")
            call = f"SESSION({item.alias}.ts, INTERVAL '{item.window.size} us')"
            return [*(key for key in keys if key not in edges), call]
    return keys


def fill(text: str, calls: Sequence[Call], write_call: Callable[[Call], str]) -> str:
    """An expression with its aggregates in place."""
    return MARKER.sub(lambda found: write_call(calls[int(found[1])]), text)


def fill_marks(text: str, marks: Sequence[Mark], write_mark: Callable[[Mark], str]) -> str:
    """An expression with its subqueries in place."""
    return MARK.sub(lambda found: write_mark(marks[int(found[1])]), text)


def _inner_bodies(select: Select) -> list[Body]:
    derived = [item.body for item in select.items if isinstance(item, Derived)]
    return [*derived, *(test.body for test in select.tests), *(mark.body for mark in select.marks)]


def selects_in(body: Body) -> Iterator[Select]:
    """All SELECTs of a query, the outermost first."""
    if isinstance(body, SetOperation):
        yield from selects_in(body.left)
        yield from selects_in(body.right)
        return
    yield body
    for inner in _inner_bodies(body):
        yield from selects_in(inner)


def operations_in(body: Body) -> Iterator[SetOperation]:
    """All set operations of a query."""
    if isinstance(body, SetOperation):
        yield body
        yield from operations_in(body.left)
        yield from operations_in(body.right)
        return
    for inner in _inner_bodies(body):
        yield from operations_in(inner)


def _write_side(side: Body) -> str:
    """A side of a set operation: in brackets where it has a window of its own, or is an operation itself."""
    needs_brackets = (
        side.window is not None
        or side.ranks is not None
        or bool(getattr(side, "pairs", ()))
        or isinstance(side, SetOperation)
    )
    return f"({write(side)})" if needs_brackets else write(side)


def _loose(select: Select) -> list[str]:
    """The conditions between items that have no ON of their own."""
    return [each for link in select.links if not link.has_on for each in link.conditions]


def _write_from(select: Select) -> str:
    text = ""
    for item, link in zip(select.items, (None, *select.links), strict=True):
        if link is not None:
            text += link.word if link.word == ", " else f" {link.word} "
        text += _write_item(item)
        if link is not None and link.using:
            text += f" USING ({link.using})"
        elif link is not None and link.has_on:
            text += f" ON {' AND '.join(link.conditions)}"
    return text


def _write_item(item: Item) -> str:
    if isinstance(item, Reading) and item.window is not None and item.window.spelling == "group":
        return f"{item.table} AS {item.alias}"
    if isinstance(item, Reading) and item.window is not None and item.window.has_columns:
        return f"{item.window.around(item.table)} AS {item.alias}"
    if isinstance(item, Reading):
        as_of = f" FOR SYSTEM_TIME AS OF {item.as_of}.ts" if item.as_of else ""
        return f"{item.table}{as_of} {item.alias}{item.window.in_brackets if item.window else ''}"
    if item.is_unnamed:
        return f"({write(item.body)})"
    return f"{item.named} AS {item.alias}" if item.named else f"({write(item.body)}) AS {item.alias}{item.listed}"


def _write_test(test: Test) -> str:
    negation = "NOT " if test.is_negated else ""
    if test.operand is not None and test.ranks is not None:
        return f"{test.operand} {negation}IN ({_write_first(test.body, test)})"
    if test.operand is not None:
        return f"{test.operand} {negation}IN ({write(test.body)})"
    body = test.body
    assert isinstance(body, Select)
    ranks = test.ranks.text if test.ranks else ""
    return f"{negation}EXISTS (SELECT 1 {_write_compared(body, test.equalities, test.comparisons, ranks)})"


def _write_mark(mark: Mark) -> str:
    if isinstance(mark, ValueQuery):
        ranks = mark.ranks.text if mark.ranks else ""
        return f"(SELECT {mark.expr} {_write_compared(mark.body, mark.equalities, (), ranks)})"
    return f"({_write_test(mark)})"


def _write_first(body: Body, test: Test) -> str:
    assert isinstance(body, Select)
    assert test.ranks is not None
    return f"SELECT {body.outputs[0].expr} {_write_compared(body, test.equalities, (), test.ranks.text)}"


def _write_compared(
    body: Select, equalities: Sequence[tuple[str, str]], further: Sequence[str], ranks: str = ""
) -> str:
    """A subquery behind its columns, with conditions between it and the outside."""
    conditions = [*(f"{inner} = {outer}" for inner, outer in equalities), *further, *_loose(body), *body.where]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"FROM {_write_from(body)}{where}{ranks}{body.window.at_the_end if body.window else ''}"
