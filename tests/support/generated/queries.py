"""Statements of generated cases: whatever a user may write over the tables, from one stream to queries three deep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from support.generated.asof import can_be_asof, draw_asof
from support.generated.choices import Choices
from support.generated.data import BOOLEAN, INSTANT, LIST, NOTHING, NUMBER, STRING, Table
from support.generated.expressions import AND, CONCAT, RANGE, Expression, ExpressionWriter
from support.generated.once import KINDS, draw_range
from support.generated.overs import draw_over
from support.generated.ranks import ORDERS, draw_ranks
from support.generated.subqueries import SubqueryWriter, draw_comparisons
from support.generated.tree import (
    DECIDED,
    Body,
    Call,
    Derived,
    Item,
    Link,
    Output,
    Reading,
    Select,
    SetOperation,
    Statement,
    Test,
    Window,
    selects_in,
)
from support.generated.truth import LISTS, STRINGS
from support.generated.windows import (
    draw_bracket,
    draw_calendar,
    draw_final_window,
    draw_hop,
    draw_intervals,
    draw_landmark,
    draw_pairs,
    draw_session,
)

AnyBody = TypeVar("AnyBody", Select, SetOperation)
MAX_DEPTH = 3
_SET_WORDS = {"UNION ALL": 4, "UNION": 3, "EXCEPT": 3, "INTERSECT": 2, "EXCEPT ALL": 2, "INTERSECT ALL": 2, "MINUS": 1}
_PLAIN_SET_WORDS = {"UNION ALL": 3, "UNION": 2, "EXCEPT": 2, "INTERSECT": 2}
_HINTS = (
    "wnl", "hash", "whj", "whj(3, optimal)", "nta", "tpa", "hybrid", "nlw", "hw", "mw", "lca", "wnl(probe_all)", "swf",
    "probe",
    "ewj(memory=8, r=0.5, block_rows=2)", "rpwj(2, memory=4, block_rows=2)", "ahewj(2, memory=20, block_rows=2)",
    "partitioned_hash", "partitioned_range", "mesh", "inl",
)  # fmt: skip
_HASHABLE = (NUMBER, STRING, BOOLEAN, INSTANT)
DEVIATIONS = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")
_QUANTILES = ("quantile_cont", "quantile_disc", "quantile", "percentile_cont", "percentile_disc")
_FRACTIONS = ("0.5", "0.25", "0.9", "0", "1", "0.333", "0.05")
_KEEPING = ("distinct", "median", "quantile", "mode", "listing")
_CONDITIONAL = ("count_if", "bool_and", "bool_or")


@dataclass
class StatementWriter:
    """Draws statements over tables."""

    choices: Choices
    tables: Mapping[str, Table]
    is_plain: bool
    """Whether SQLite has to understand it."""
    is_tame: bool = False
    """Whether rows are to meet, so that answers are seldom empty: few conditions, keys of plain columns."""
    n_left: int = 6
    """How many tables may still be read: every one multiplies the work."""
    n_aliases: int = 0
    is_windowed: bool = False
    """Whether a query around the current place has a window."""
    may_grow: bool = False
    """Whether rows may be kept for ever."""
    is_padded: bool = False
    """Whether rows of the current SELECT may be without a partner, so that they have no order."""
    named: list[tuple[str, Body]] = field(default_factory=list)

    def draw(self) -> Statement:
        kind = self.choices.weighted(
            {"windows": 81, "endless": 6, "intervals": 4, "closing": 3, "once": 3, "sessions": 3}
        )
        self.may_grow = kind == "windows" and self.choices.chance(4)
        if kind == "windows" and self.choices.chance(12):
            self.named.append(("w", self._sessions() if self.choices.chance(12) else self._body(2, None)))
        drawers = {"endless": self._endless, "intervals": self._intervals, "closing": self._closing}
        drawers |= {"sessions": self._sessions}
        drawers |= {} if self.is_plain else {"once": self._once}
        body = drawers[kind]() if kind in drawers else self._body(1, None)
        hint = self.choices.one(_HINTS) if self.choices.chance(15) and kind != "once" else None
        named = tuple(each for each in self.named if _reads_name(body, each[0]))
        return Statement(body, named, hint, self.choices.chance(45) and kind not in ("closing", "once"), self.may_grow)

    def _body(self, depth: int, families: Sequence[str] | None) -> Body:
        """A query of the columns asked for; with a window if nothing around it has one."""
        window = draw_final_window(self.choices) if self.choices.chance(35 if depth == 1 else 15) else None
        with self._under(window):
            if self.n_left > 1 and self.choices.chance(22 if depth == 1 else 15):
                return self._first_rows(self._set_operation(depth, families, window))
            return self._select(depth, families, window)

    def _writer(self, columns: Sequence[tuple[str, str]]) -> ExpressionWriter:
        return ExpressionWriter(self.choices, columns, self.is_plain, self.is_tame)

    def _set_operation(self, depth: int, families: Sequence[str] | None, window: Window | None) -> SetOperation:
        word = self.choices.weighted(_PLAIN_SET_WORDS if self.is_plain else _SET_WORDS)
        if families is None:
            # Rows with lists cannot be told apart.
            known = (*_HASHABLE, LIST) if word == "UNION ALL" and not self.is_plain else self._families()
            families = [self.choices.one(known) for _ in range(1 + self.choices.below(3))]
        left = self._side(depth, families)
        return SetOperation(word, left, self._side(depth, families), window)

    def _side(self, depth: int, families: Sequence[str]) -> Body:
        if depth < MAX_DEPTH and LIST not in families and self.n_left > 1 and self.choices.chance(12):
            return self._set_operation(depth + 1, families, None)
        return self._select(depth, families, None, is_compared=LIST not in families)

    def _select(
        self, depth: int, families: Sequence[str] | None, window: Window | None, is_compared: bool = False
    ) -> Select:
        """A SELECT; `is_compared` if its rows must be such as can be told apart."""
        pairs_wanted = not self.is_windowed and not is_compared and self.choices.chance(6)
        items = self._pair_items() if pairs_wanted else self._items(depth)
        pairs = draw_pairs(self.choices, [item.alias for item in items]) if pairs_wanted else ()
        words = self._outer_words(items) if not pairs_wanted and self.choices.chance(25) else ()
        items = _as_of_joined(items) if words else items
        has_tests = self.n_left > 0 and self.choices.chance(18)
        is_grouped, is_distinct = self.choices.chance(28 if depth == 1 else 42), self.choices.chance(10)
        if families is not None and LIST in families:
            has_tests = is_grouped = is_distinct = False
        columns = [
            (f"{item.alias}.{name}", family)
            for item in items
            for name, family in item.columns
            if family not in (LIST, NOTHING) or not (has_tests or is_distinct or is_compared or any(words))
        ]
        links = self._links(items, self._writer(columns), words)
        hidden = tuple(f"{item.alias}." for item, link in zip(items[1:], links) if not link.shows)
        columns = [each for each in columns if not each[0].startswith(hidden)] if hidden else columns
        writer = self._writer(columns)
        n_conditions = self.choices.weighted({0: 15, 1: 1} if self.is_tame else {0: 3, 1: 2, 2: 1})
        where = tuple(_conjunct(writer.condition()) for _ in range(n_conditions))
        tests = self._tests(depth, items, writer) if has_tests else ()
        self.is_padded = any(link.is_outer for link in links)
        select = Select(items, links, (), where, tests, is_distinct=is_distinct, window=window, pairs=pairs)
        has_marks = not self.is_plain and not pairs and self.n_left > 0 and self.choices.chance(14)
        marking = SubqueryWriter(self.choices, self._still_or_not, self._writer, writer) if has_marks else None
        select = replace(select, where=(*where, *self._numbered(items)))
        if is_grouped:
            grouped = self._grouped(select, writer, families)
            return marking.add_to(grouped) if marking else self._first_rows(self._over(grouped, None, depth))
        if depth == 1 and families is None and not any(link.using for link in links) and self.choices.chance(15):
            every = tuple(Output(text, f"x{place}", family) for place, (text, family) in enumerate(columns))
            is_star = len(every) == sum(len(item.columns) for item in items if f"{item.alias}." not in hidden)
            excluded = tuple(output.expr for output in every[1:] if self.choices.chance(30)) if self._lists() else ()
            shown = tuple(output for output in every if output.expr not in excluded) if is_star else every
            select = replace(select, outputs=shown, is_star=is_star, excluded=excluded if is_star else ())
            return select if select.excluded else self._first_rows(self._over(select, writer, depth), writer)
        select = replace(select, outputs=self._outputs(writer, families))
        return marking.add_to(select) if marking else self._first_rows(self._over(select, writer, depth), writer)

    def _over(self, select: Select, writer: ExpressionWriter | None, depth: int) -> Select:
        """Some items become functions OVER rows, of the same families; behind `*` there is one more."""
        if not self.choices.chance(25 if select.is_star else 9 if depth == 1 else 14) or select.key_words:
            return select
        if any(output.family not in _HASHABLE for output in select.outputs) or _has_last_digits(select, self.is_plain):
            return select
        known = [(text, family) for text, family in writer.columns if family in _HASHABLE] if writer else []
        known = known or [(expr, family) for expr, _, family in select.outputs if not expr.lstrip("-").isdigit()]
        if not known:
            return select
        times = [
            f"{item.alias}.ts"
            for item in select.items
            if isinstance(item, Reading) and item.is_stream and (f"{item.alias}.ts") in dict(known)
        ]
        outputs, overs = list(select.outputs), []
        if select.is_star:
            outputs.append(Output("", f"x{len(outputs)}", NUMBER))
            places = [len(outputs) - 1]
        else:
            places = sorted({self.choices.below(len(outputs)) for _ in range(self.choices.weighted({1: 3, 2: 1}))})
            places = [place for place in places if outputs[place].family in (NUMBER, *dict(known).values())]
        for place in places:
            family = outputs[place].family
            condition = None if self.is_plain else partial(self._over_condition, writer, known)
            item = draw_over(self.choices, known, family, times, condition)
            numbers = [text for text, each in known if each == NUMBER]
            if family == NUMBER and numbers and self.choices.chance(15) and not self.is_plain:
                item = replace(item, beside=self.choices.one(numbers))
            expr = f"\2{len(overs)}\2" if item.beside is None else f"{item.beside} + \2{len(overs)}\2"
            outputs[place] = outputs[place]._replace(expr=expr)
            overs.append(item)
        texts = [output.expr for output in outputs] + [item.text for item in overs]
        if select.keys == () and not any("\0" in text for text in texts):
            return select  # without an aggregate, it would be no group of everything
        return replace(select, outputs=tuple(outputs), overs=tuple(overs))

    def _over_condition(self, writer: ExpressionWriter | None, known: Sequence[tuple[str, str]]) -> str:
        return writer.condition(1).text if writer else f"{self.choices.one(known)[0]} IS NOT NULL"

    def _numbered(self, items: Sequence[Item]) -> Iterator[str]:
        """Of subqueries that number rows, often the first by that number."""
        for item in items:
            if isinstance(item, Derived) and isinstance(item.body, Select):
                ranks = [
                    name
                    for (name, _), output in zip(item.columns, item.body.outputs, strict=True)
                    for over in item.body.overs[:1]
                    if output.expr == "\0020\002" and over.function in ("row_number", "rank", "dense_rank")
                ]
                if ranks and self.choices.chance(70):
                    bound = self.choices.one(("<= 1", "<= 2", "< 3", "= 1", "= 2", "BETWEEN 1 AND 2", "> 1"))
                    yield f"{item.alias}.{ranks[0]} {bound}"

    def _lists(self) -> bool:
        """Whether columns are listed by way of exception."""
        return not self.is_plain and self.choices.chance(25)

    def _still_or_not(self) -> Reading:
        """A stream or relation for a subquery."""
        if "r" in self.tables and self.choices.chance(35):
            return self._reading(self.tables["r"], None)
        return self._reading(self._stream(), self._bracket())

    def _first_rows(self, body: AnyBody, writer: ExpressionWriter | None = None) -> AnyBody:
        """Of some queries, those that come first."""
        if not self.choices.chance(10) or any(output.family not in _HASHABLE for output in body.outputs):
            return body
        if _has_last_digits(body, self.is_plain):
            return body
        if isinstance(body, SetOperation):
            names = [output.name for output in body.outputs]
            ranks = draw_ranks(self.choices, names, [(name, name) for name in names], is_distinct=True)
            return replace(body, ranks=ranks) if ranks.qualify is None and not ranks.distinct_on else body
        known = [text for text, family in writer.columns if family in _HASHABLE] if writer else list(body.keys or ())
        shown = [(expr, name) for expr, name, _ in body.outputs if not expr.lstrip("-").isdigit()]
        known += [expr for expr, _ in shown] if not known or not writer else []
        if not known or len(shown) < len(body.outputs):
            return body
        ranks = draw_ranks(self.choices, known, shown, body.is_distinct)
        ranks = replace(ranks, words=()) if body.is_star else ranks
        return replace(body, ranks=ranks, is_distinct=body.is_distinct and not ranks.distinct_on)

    def _outputs(self, writer: ExpressionWriter, families: Sequence[str] | None) -> tuple[Output, ...]:
        if families is None:
            known = list(dict.fromkeys(family for _, family in writer.columns if family != NOTHING)) or [NUMBER]
            families = [self.choices.one(known) for _ in range(1 + self.choices.below(3))]
        return tuple(
            Output(writer.draw(family, self._depth()).text, f"c{place}", family)
            for place, family in enumerate(families)
        )

    def _depth(self) -> int:
        return self.choices.weighted({0: 5, 1: 3, 2: 2})

    def _grouped(self, select: Select, writer: ExpressionWriter, families: Sequence[str] | None) -> Select:
        """A SELECT with GROUP BY, or with aggregates over everything; what is not an aggregate is a key."""
        calls: list[Call] = []
        is_free = families is None
        if families is None:
            known = (NUMBER, STRING) if self.is_tame else self._families()
            n_keys = self.choices.weighted({1: 5, 0: 3, 2: 2})
            families = [self.choices.one(known) for _ in range(n_keys)] + [NUMBER] * (1 + self.choices.below(2))
            is_call = [place >= n_keys for place in range(len(families))]
        else:
            is_call = [family == NUMBER and self.choices.chance(60) for family in families]
        exprs = [
            self._aggregate(writer, calls, select.items) if aggregated else self._key(writer, family)
            for family, aggregated in zip(families, is_call)
        ]
        keys = list(dict.fromkeys(expr for expr, aggregated in zip(exprs, is_call) if not aggregated))
        outputs = [Output(expr, f"c{place}", family) for place, (expr, family) in enumerate(zip(exprs, families))]
        if is_free and self.choices.chance(12):
            outputs = [output for output in outputs if output.expr not in keys]
        having = self._having(writer, calls, keys) if self.choices.chance(5 if self.is_tame else 18) else None
        words = self._key_words(keys, outputs)
        return replace(
            select, outputs=tuple(outputs), keys=tuple(keys), key_words=words, calls=tuple(calls), having=having
        )

    def _key(self, writer: ExpressionWriter, family: str) -> str:
        """What is grouped by reads a column: a constant would be a position."""
        column = self._likely_key(writer, family)
        if column is None:
            known = writer.columns[0][0] if writer.columns else "NULL"
            return f"CASE WHEN {known} IS NULL THEN {writer.literal(family)} END"
        if family == NUMBER and self.choices.chance(15):
            return f"{column.text} + 1"
        return column.text

    def _key_words(self, keys: Sequence[str], outputs: Sequence[Output]) -> tuple[str, ...] | None:
        """Sometimes by position, or all at once."""
        if self.is_plain or not self.choices.chance(15):
            return None
        if {output.expr for output in outputs}.issuperset(keys) and self.choices.chance(40):
            return ("ALL",) if keys else None
        places = {output.expr: str(place + 1) for place, output in reversed(list(enumerate(outputs)))}
        return tuple(places.get(key, key) for key in keys) or None

    def _aggregate(self, writer: ExpressionWriter, calls: list[Call], items: Sequence[Item]) -> str:
        """An expression of aggregates that is a number."""
        marker = self._call(writer, calls, items)
        kind = "alone" if self.is_tame else self.choices.weighted({"alone": 12, "sum": 2, "coalesce": 1, "case": 1})
        if kind == "sum":
            return f"{marker} + {self._call(writer, calls, items)}"
        if kind == "coalesce":
            return f"coalesce({marker}, {writer.literal(NUMBER)})"
        return f"CASE WHEN {marker} > 1 THEN {marker} END" if kind == "case" else marker

    def _call(
        self, writer: ExpressionWriter, calls: list[Call], items: Sequence[Item], is_endless: bool = False
    ) -> str:
        """An aggregate that is a number; one that need not keep what it has seen, if that is all for ever."""
        functions = {"count": 4, "sum": 4, "max": 3, "min": 2, "count(x)": 2, "distinct": 1}
        if not self.is_plain:
            functions |= {"avg": 1, "median": 1, "conditional": 1, "deviation": 1, "quantile": 1, "mode": 1, "arg": 1}
            functions |= {"listing": 2}
            if self._has_times(items):
                functions |= {"first": 1, "last": 1}
        if is_endless:
            functions = {name: weight for name, weight in functions.items() if name not in _KEEPING}
        function = self.choices.weighted(functions)
        passes = writer.condition(1).text if self.choices.chance(12) else None
        if function == "conditional":
            function = self.choices.one(_CONDITIONAL)
            calls.append(Call(function, writer.condition(1).text, filter=passes))
            return f"CAST(\0{len(calls) - 1}\0 AS INTEGER)"
        if function == "listing":
            calls.append(replace(self._listing(writer, items), filter=passes))
            # As a number, which tells whether values are the same in the same order.
            return f"CAST(hash(\0{len(calls) - 1}\0) % 1000 AS INTEGER)"
        variants = {"deviation": DEVIATIONS, "quantile": _QUANTILES, "arg": DECIDED}
        function = self.choices.one(variants.get(function, (function,)))
        argument = writer.draw(NUMBER, self.choices.weighted({0: 6, 1: 3})).text
        if function in ("median", "quantile_cont", "percentile_cont"):
            argument = f"CAST({argument} AS DOUBLE)"
        call = {
            "count": Call("count"),
            "count(x)": Call("count", argument),
            "distinct": Call("count", argument, is_distinct=True),
        }.get(function) or Call(function, argument)  # fmt: skip
        if function in _QUANTILES:
            call = replace(call, further=self.choices.one(_FRACTIONS))
            if function.startswith("percentile"):
                call = replace(call, order=((argument, self.choices.one(("", " DESC"))),))
            elif function != "quantile_cont" and self.choices.chance(20):
                calls.append(replace(call, filter=passes, further=f"[{call.further}, 0.75]"))
                return f"CAST(hash(\0{len(calls) - 1}\0) % 1000 AS INTEGER)"
        elif function in DECIDED:
            call = replace(call, further=writer.draw(self.choices.one((NUMBER, STRING)), 0).text)
        elif function in ("first", "last") and self.choices.chance(30):
            call = replace(call, order=self._order(writer))
        elif function not in ("count", "count(x)", "first", "last") and not is_endless and self.choices.chance(12):
            call = replace(call, is_distinct=True)
        calls.append(replace(call, filter=passes))
        marker = f"\0{len(calls) - 1}\0"
        # DuckDB adds up in order of arrival, and what stands around may compare the last digit.
        return f"round({marker}, 6)" if function in DEVIATIONS else marker

    def _has_times(self, items: Sequence[Item]) -> bool:
        """Whether rows have an order, by which values are listed that are told no other."""
        return all(isinstance(item, Reading) for item in items) and not self.is_padded

    def _listing(self, writer: ExpressionWriter, items: Sequence[Item]) -> Call:
        """All values of a group, as a list or a string."""
        family = self.choices.one((NUMBER, STRING))
        function = self.choices.one(LISTS if family == NUMBER or self.choices.chance(30) else STRINGS)
        argument = writer.draw(family, self.choices.weighted({0: 6, 1: 3})).text
        call = Call(function, argument, further="'-'" if function in STRINGS and self.choices.chance(70) else None)
        if self.choices.chance(25):
            order = ((argument, self.choices.one(ORDERS)),) if self.choices.chance(50) else ()
            return replace(call, is_distinct=True, order=order)
        return call if self._has_times(items) and self.choices.chance(40) else replace(call, order=self._order(writer))

    def _order(self, writer: ExpressionWriter) -> tuple[tuple[str, str], ...]:
        """What values are placed by: columns, as a constant would be a position."""
        families = [self.choices.one((NUMBER, STRING)) for _ in range(1 + self.choices.below(2))]
        columns = [column.text for column in map(writer.column, families) if column is not None]
        known = writer.columns[0][0] if writer.columns else "NULL"
        return tuple((column, self.choices.one(ORDERS)) for column in columns) or ((known, ""),)

    def _having(self, writer: ExpressionWriter, calls: list[Call], keys: Sequence[str]) -> str:
        marker = self._call(writer, calls, ())
        condition = self.choices.one((f"{marker} > 1", f"{marker} <> 2", f"{marker} IS NOT NULL", f"NOT {marker} = 1"))
        if keys and self.choices.chance(30):
            condition += f" {self.choices.one(('AND', 'OR'))} {self.choices.one(keys)} IS NOT NULL"
        return condition

    def _items(self, depth: int) -> tuple[Item, ...]:
        wanted = self.choices.weighted({1: 8, 2: 8, 3: 5, 4: 2, 5: 1} if depth == 1 else {1: 7, 2: 4, 3: 1})
        items: list[Item] = []
        for _ in range(min(wanted, max(1, self.n_left))):
            items.append(self._item(depth, needs_stream=not items))
        items = [self._as_of(item, items) for item in items]
        is_turned = len(items) > 1 and self.choices.chance(25) and not getattr(items[0], "is_unnamed", False)
        return tuple(reversed(items)) if is_turned else tuple(items)

    def _as_of(self, item: Item, items: Sequence[Item]) -> Item:
        """A relation is often read as of the time of a stream beside it."""
        if not isinstance(item, Reading) or not self.tables[item.table].has_periods:
            return item
        streams = [each.alias for each in items if isinstance(each, Reading) and each.is_stream]
        return replace(item, as_of=self.choices.one(streams)) if streams and self.choices.chance(70) else item

    def _item(self, depth: int, needs_stream: bool) -> Item:
        kinds = {"stream": 6}
        if depth < MAX_DEPTH and self.n_left > 0:
            kinds["query"] = 5
        if "r" in self.tables and not needs_stream:
            kinds["relation"] = 2
        if self.named and depth == 1:
            kinds["named"] = 6
        kind = self.choices.weighted(kinds)
        if kind == "query":
            body = self._body(depth + 1, None)
            names = tuple(f"n{place}" for place in range(len(body.outputs))) if self._lists() else ()
            if not names and needs_stream and self.choices.chance(10):
                return Derived(body, "unnamed_subquery", is_unnamed=True)
            return Derived(body, self._alias(), names=names)
        if kind == "named":
            name, body = self.choices.one(self.named)
            return Derived(body, self._alias(), name)
        if kind == "relation":
            return self._reading(self.tables["r"], None)
        return self._reading(self._stream(), self._bracket())

    def _stream(self) -> Table:
        return self.choices.one([table for table in self.tables.values() if table.is_stream])

    def _reading(self, table: Table, window: Window | None) -> Reading:
        self.n_left -= 1
        families = dict(table.families)
        if window is not None and window.has_columns:
            families |= {"window_start": families["ts"], "window_end": families["ts"]}
        return Reading(table.name, self._alias(), tuple(families.items()), table.is_stream, window)

    def _pair_items(self) -> tuple[Item, ...]:
        return tuple(self._reading(self._stream(), None) for _ in range(self.choices.weighted({2: 3, 3: 3, 4: 1})))

    def _outer_words(self, items: Sequence[Item]) -> tuple[str, ...]:
        """How each item but the first is joined, where some joins are outer ones; only rows of streams are padded."""
        words = []
        for place in range(1, len(items)):
            before = [_has_rows_of_streams(item) for item in items[:place]]
            known = {"JOIN": 3}
            if any(before):
                known |= {"LEFT JOIN": 6}
            if _has_rows_of_streams(items[place]) and (any(before) or place == 1):
                known |= {"RIGHT JOIN": 3}
                known |= {"FULL JOIN": 3} if any(before) else {}
            if any(before) and place == len(items) - 1 and not self.is_plain:
                known |= {"SEMI JOIN": 2, "ANTI JOIN": 2}
            if any(before) and _has_rows_of_streams(items[place]) and not self.is_plain:
                known |= {"ASOF JOIN": 2, "ASOF LEFT JOIN": 3} if can_be_asof(items, place) else {}
            words.append(self.choices.weighted(known))
        return tuple(words)

    def _links(self, items: Sequence[Item], writer: ExpressionWriter, words: Sequence[str]) -> tuple[Link, ...]:
        links = []
        for place in range(1, len(items)):
            conditions = []
            if self.choices.chance(88):
                conditions.append(self._equality(items[self.choices.below(place)], items[place], writer))
            if self.choices.chance(2 if self.is_tame else 12):
                known = tuple(f"{item.alias}." for item in items[: place + 1])
                columns = [each for each in writer.columns if each[0].startswith(known)]
                own = self._writer(columns)
                conditions.append(_conjunct(own.condition(1)))
            conditions = [each for each in conditions if each]
            links.append(
                self._outer_link(items, place, conditions, words[place - 1])
                if words
                else self._link(items, place, conditions)
            )
        return tuple(links)

    def _outer_link(self, items: Sequence[Item], place: int, conditions: list[str], word: str) -> Link:
        if word.startswith("ASOF"):
            return draw_asof(self.choices, items, place, word)
        names = [{name for name, _ in item.columns} for item in items[:2]]
        if len(items) == 2 and "k" in names[0] & names[1] and self.choices.chance(15):
            return Link(word, (f"{items[0].alias}.k = {items[1].alias}.k",), using="k")
        return Link(word, tuple(conditions) or ("TRUE",))

    def _link(self, items: Sequence[Item], place: int, conditions: list[str]) -> Link:
        names = [{name for name, _ in item.columns} for item in items[:2]]
        if len(items) == 2 and "k" in names[0] & names[1] and self.choices.chance(6):
            return Link("JOIN", (f"{items[0].alias}.k = {items[1].alias}.k",), using="k")
        if conditions and self.choices.chance(45):
            return Link("JOIN", tuple(conditions))
        word = ", " if conditions or self.choices.chance(70) else "CROSS JOIN"
        return Link(word, tuple(conditions))

    def _equality(self, one: Item, other: Item, around: ExpressionWriter) -> str:
        """A key of two items, of columns or of what is made of them."""
        families = [
            family for _, family in one.columns if family in _HASHABLE and family in {each for _, each in other.columns}
        ]
        if not families:
            return ""
        family = NUMBER if NUMBER in families and self.choices.chance(50) else self.choices.one(families)
        leading = [item.columns[0][1] for item in (one, other) if isinstance(item, Derived)]
        if self.is_tame and leading and leading[0] in families and self.choices.chance(80):
            family = leading[0]
        has_times = self.choices.chance(5)
        sides = []
        for item in (one, other):
            columns = [each for each in around.columns if each[0].startswith(f"{item.alias}.")]
            columns = [each for each in columns if has_times or not each[0].endswith(".ts")]
            writer = self._writer(columns)
            is_made = self.choices.chance(3 if self.is_tame else 25)
            drawn = writer.draw(family, 1) if is_made else self._likely_key(writer, family)
            sides.append(_bracketed(drawn or writer.draw(family, 0), RANGE))
        return f"{sides[0]} = {sides[1]}"

    def _likely_key(self, writer: ExpressionWriter, family: str) -> Expression | None:
        """A column of the family; of a tame query the first, which others are likely to equal."""
        if self.is_tame and self.choices.chance(80):
            fitting = [text for text, each in writer.columns if each == family]
            return (
                Expression(next((text for text in fitting if not text.endswith(".ts")), fitting[0]))
                if fitting
                else None
            )
        return writer.column(family)

    def _tests(self, depth: int, items: Sequence[Item], writer: ExpressionWriter) -> tuple[Test, ...]:
        found = []
        for _ in range(self.choices.weighted({1: 5, 2: 1})):
            if self.n_left <= 0:
                break
            is_negated = self.choices.chance(50)
            family = self.choices.one([family for _, family in writer.columns if family in _HASHABLE] or [NUMBER])
            family = BOOLEAN if not self.is_plain and self.choices.chance(25) else family
            if self.choices.chance(60):
                is_condition = family == BOOLEAN and self.choices.chance(60)
                drawn = writer.condition(1) if is_condition else writer.draw(family, self._depth())
                operand = _bracketed(drawn, CONCAT)
                body = self._table(family) or self._body(min(depth + 1, MAX_DEPTH), [family])
                found.append(Test(is_negated, body, operand))
            else:
                found.append(self._exists(is_negated, family, writer))
        return tuple(found)

    def _table(self, family: str) -> Select | None:
        """A subquery of the relation alone, with a column of the family."""
        if self.is_plain or "r" not in self.tables or not self.choices.chance(30):
            return None
        item = self._reading(self.tables["r"], None)
        writer = self._writer([(f"{item.alias}.{name}", each) for name, each in item.columns if each != LIST])
        where = (_conjunct(writer.condition(1)),) if self.choices.chance(30) else ()
        return Select((item,), (), self._outputs(writer, [family]), where, is_distinct=self.choices.chance(15))

    def _exists(self, is_negated: bool, family: str, outer: ExpressionWriter) -> Test:
        window = draw_final_window(self.choices) if self.choices.chance(10) else None
        with self._under(window):
            item = self._reading(self._stream(), self._bracket()) if self.is_plain else self._still_or_not()
        columns = [(f"{item.alias}.{name}", each) for name, each in item.columns if each != LIST]
        inner = self._writer(columns)
        where = (_conjunct(inner.condition(1)),) if self.choices.chance(30) else ()
        equalities = []
        column = inner.column(family)
        if column is not None and self.choices.chance(85):
            equalities.append((column.text, _bracketed(outer.draw(family, 1), RANGE)))
        comparisons = () if self.is_plain else draw_comparisons(self.choices, inner, outer)
        body = Select((item,), (), (Output("1", "c0", NUMBER),), where, window=window)
        return Test(is_negated, body, None, tuple(equalities), comparisons)

    def _endless(self) -> Body:
        """A query in which rows may stay for ever, as nothing above has to keep them."""
        kind = self.choices.one(("filter", "group", "union", "grouped union"))
        if kind == "filter":
            return self._endless_select(None)
        if kind == "group":
            return self._endless_groups((self._reading(self._stream(), draw_landmark(self.choices)),))
        families = [self.choices.one(self._families()) for _ in range(1 + self.choices.below(2))] + [NUMBER]
        union = SetOperation("UNION ALL", self._endless_select(families), self._endless_select(families))
        return union if kind == "union" else self._endless_groups((Derived(union, self._alias()),))

    def _endless_select(self, families: Sequence[str] | None) -> Select:
        item = self._reading(self._stream(), draw_landmark(self.choices))
        columns = [(f"{item.alias}.{name}", family) for name, family in item.columns if family != LIST]
        writer = self._writer(columns)
        where = (_conjunct(writer.condition()),) if self.choices.chance(50) else ()
        return Select((item,), (), self._outputs(writer, families), where)

    def _intervals(self) -> Body:
        """An interval join, by itself, or with something above it that need not keep its rows."""
        kind = self.choices.weighted({"join": 5, "group": 2, "grouped subquery": 1, "union": 1})
        if kind == "union":
            return SetOperation("UNION ALL", self._interval_join([NUMBER]), self._endless_select([NUMBER]))
        if kind == "grouped subquery":
            return self._endless_groups((Derived(self._interval_join(None), self._alias()),))
        join = self._interval_join(None)
        return self._endless_groups(join.items, join) if kind == "group" else join

    def _closing(self) -> Select:
        """What is final when windows are over: rows, or groups of one window each."""
        kind = self.choices.one(("tumble", "hop", "session", "calendar"))
        others = {"session": draw_session, "calendar": draw_calendar}
        window = others[kind](self.choices) if kind in others else draw_hop(self.choices, kind)
        item = self._reading(self._stream(), replace(window, is_final=True))
        writer = self._writer([(f"{item.alias}.{name}", family) for name, family in item.columns if family != LIST])
        where = (_conjunct(writer.condition()),) if self.choices.chance(30) else ()
        select = Select((item,), (), (), where)
        if self.choices.chance(30):
            return replace(select, outputs=self._outputs(writer, None))
        select = self._grouped(select, writer, None)
        edge = self.choices.one(("window_start", "window_end"))
        keys = [edge, *(window.partition_by if edge == "window_start" else ())]
        for place, name in enumerate(keys):
            select = _also_by(select, item, name, "w" * (place + 1))
        return select

    def _sessions(self) -> Select:
        """Groups that are whole sessions, mostly: the plan then finds out their ends in another way."""
        window = draw_session(self.choices)
        item = self._reading(self._stream(), window)
        writer = self._writer([(f"{item.alias}.{name}", family) for name, family in item.columns if family != LIST])
        calls: list[Call] = []
        drawn = [self._aggregate(writer, calls, (item,)) for _ in range(1 + self.choices.below(2))]
        select = Select((item,), (), tuple(Output(expr, f"c{place}", NUMBER) for place, expr in enumerate(drawn)))
        names = [*window.partition_by, *self.choices.one((("window_start", "window_end"), ("window_end",)))]
        for place, name in enumerate(names):
            select = _also_by(select, item, name, "w" * (place + 1))
        if self.choices.chance(20):
            select = replace(select, having=self._having(writer, calls, list(select.keys or ())))
        select = replace(select, calls=tuple(calls))
        if self.choices.chance(25):
            return replace(select, items=(replace(item, window=replace(window, spelling="group")),))
        if not self.choices.chance(30):
            return select
        own = [f"{item.alias}.{name} IS NOT NULL" for name in window.partition_by]
        return replace(select, where=(self.choices.one([*own, _conjunct(writer.condition())]),))

    def _once(self) -> Select:
        """Rows that come once: of one stream, or of two in a join that may be an outer one."""
        n_items = self.choices.weighted({2: 6, 1: 1})
        items = tuple(self._reading(self._stream(), draw_range(self.choices)) for _ in range(n_items))
        columns = [
            (f"{item.alias}.{name}", family)
            for item in items
            for name, family in item.columns
            if family not in (LIST, NOTHING)
        ]
        words = (self.choices.weighted(KINDS),) if len(items) > 1 else ()
        links = self._links(items, self._writer(columns), words)
        shown = [True, *(link.shows for link in links)]
        known = tuple(f"{item.alias}." for item, shows in zip(items, shown, strict=True) if shows)
        writer = self._writer([each for each in columns if each[0].startswith(known)])
        where = (_conjunct(writer.condition()),) if self.choices.chance(20) else ()
        return Select(items, links, self._outputs(writer, None), where, is_once=True)

    def _interval_join(self, families: Sequence[str] | None) -> Select:
        """Streams without windows, and conditions on their times that connect all of them."""
        items = self._pair_items()
        conditions = draw_intervals(self.choices, [(item.alias, dict(item.columns)["ts"] == NUMBER) for item in items])
        if "r" in self.tables and self.choices.chance(20):
            items = (*items, self._reading(self.tables["r"], None))
        columns = [(f"{item.alias}.{name}", family) for item in items for name, family in item.columns]
        writer = self._writer([each for each in columns if each[1] != LIST])
        links = list(self._links(items, writer, ()))
        for place, link in enumerate(links):
            if link.word == "JOIN" and not link.using and place < len(conditions) and self.choices.chance(70):
                links[place] = replace(link, conditions=(*link.conditions, *conditions[place]))
                conditions[place] = ()
        where = tuple(each for own in conditions for each in own)
        return Select(items, tuple(links), self._outputs(writer, families), where, is_interval_join=True)

    def _endless_groups(self, items: tuple[Item, ...], join: Select | None = None) -> Select:
        """Groups of rows that stay, of one item or of a join."""
        columns = [(f"{item.alias}.{name}", each) for item in items for name, each in item.columns if each != LIST]
        writer = self._writer(columns)
        keys = [self._key(writer, self.choices.one(self._families())) for _ in range(self.choices.below(3))]
        calls: list[Call] = []
        drawn = [self._call(writer, calls, items, is_endless=True) for _ in range(1 + self.choices.below(3))]
        exprs = [*dict.fromkeys(keys), *drawn]
        outputs = tuple(Output(expr, f"c{place}", NUMBER) for place, expr in enumerate(exprs))
        links, where = (join.links, join.where) if join else ((), ())
        grouped = Select(items, links, outputs, where, (), tuple(dict.fromkeys(keys)), None, tuple(calls))
        return replace(grouped, is_interval_join=join is not None)

    def _bracket(self) -> Window | None:
        """The window of a stream of its own; it needs none where a query around it has one."""
        if self.may_grow and self.choices.chance(50):
            return draw_landmark(self.choices)
        return None if self.is_windowed and not self.choices.chance(25) else draw_bracket(self.choices)

    @contextmanager
    def _under(self, window: Window | None) -> Iterator[None]:
        before = self.is_windowed
        self.is_windowed = before or window is not None
        yield
        self.is_windowed = before

    def _families(self) -> Sequence[str]:
        return (NUMBER, STRING) if self.is_plain else _HASHABLE

    def _alias(self) -> str:
        self.n_aliases += 1
        return f"t{self.n_aliases}"


def _has_last_digits(body: Body, is_plain: bool) -> bool:
    """Whether DuckDB's last digit, by which rows would be placed, depends on the order of adding."""
    functions = {call.function for select in selects_in(body) for call in select.calls}
    functions |= {item.function for select in selects_in(body) for item in select.overs}
    return bool(functions & {"avg", "quantile_cont", "percentile_cont", *DEVIATIONS, *(() if is_plain else ("sum",))})


def _as_of_joined(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items of outer joins: a relation is read as of a stream that it is joined with."""
    known = [{each.alias for each in items[: max(place, 2)]} for place in range(len(items))]
    return tuple(
        replace(item, as_of=None) if isinstance(item, Reading) and item.as_of not in before else item
        for item, before in zip(items, known, strict=True)
    )


def _has_rows_of_streams(item: Item) -> bool:
    return isinstance(item, Derived) or item.is_stream


def _conjunct(expression: Expression) -> str:
    """A condition among others: AND stands between them."""
    return _bracketed(expression, AND)


def _bracketed(expression: Expression, level: int) -> str:
    return f"({expression.text})" if expression.level < level else expression.text


def _reads_name(body: Body, name: str) -> bool:
    return any(isinstance(item, Derived) and item.named == name for select in selects_in(body) for item in select.items)


def _also_by(select: Select, item: Reading, name: str, shown_as: str) -> Select:
    """Groups that are by a column of an item as well, which is shown."""
    key, keys = f"{item.alias}.{name}", select.keys or ()
    if key in keys:
        return select
    words = (*select.key_words, key) if select.key_words else None
    shown = Output(key, shown_as, dict(item.columns)[name])
    return replace(select, outputs=(*select.outputs, shown), keys=(*keys, key), key_words=words)
