"""What a generated query means: plain SQL over all instants at once, for DuckDB or SQLite, from the query's own tree.

    SELECT a.k, count(*) FROM s a [RANGE 5 us] GROUP BY a.k

    SELECT a._i, a.k, count(*)
    FROM (SELECT i.t AS _i, r.* FROM instants i, "#0" r WHERE r._enters <= i.t AND i.t < r._leaves) a GROUP BY a._i, a.k

Every relation has the instant as one more column, `_i`, and everything happens within one instant: items are joined on
it, groups and sets are of one. Nothing of Sash is asked: neither how it reads the text, nor what it makes of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from support.generated.asof import one_partner
from support.generated.data import Table
from support.generated.once import write_once
from support.generated.overs import OVER_MARK, items_in, plain_over
from support.generated.ranks import hidden_of, plain_steps
from support.generated.tree import (
    DECIDED,
    PARAMETERS,
    Body,
    Call,
    Derived,
    Item,
    Mark,
    Output,
    PairWindow,
    Reading,
    Select,
    SetOperation,
    Test,
    ValueQuery,
    Window,
    fill,
    fill_marks,
)

LISTS, STRINGS = ("list", "array_agg"), ("string_agg", "group_concat", "listagg")
ALWAYS: tuple[int, int] = (-(2**62), 2**62)
"""Of rows that are there from the beginning, or to the end."""


@dataclass(eq=False)
class Truth:
    """The meaning of a query over tables."""

    body: Body
    tables: Mapping[str, Table]
    sql: str = field(init=False)
    """One statement over the table `instants`, with a column `t`, and the tables of `rows`."""
    rows: dict[str, pa.Table] = field(init=False, default_factory=dict)
    _names: dict[tuple[str, Window | None], str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.sql = re.sub(r"\$(\w+)", lambda found: PARAMETERS[found[1]][1], self._write(self.body, None))

    @property
    def end(self) -> int:
        """The last time of any stream that the query reads; what is rejected moves no clock."""
        read = [self.tables[name] for name, _ in self._names if self.tables[name].is_stream]
        return max((table.times[number] for table in read for number in table.accepted), default=0)

    def points(self) -> set[int]:
        """When rows enter or leave windows."""
        found: set[int] = set()
        for rows in self.rows.values():
            found.update(rows.column("_enters").to_pylist(), rows.column("_leaves").to_pylist())
        return found - set(ALWAYS)

    def _write(self, body: Body, window: Window | None) -> str:
        window = body.window or window
        if body.ranks is not None:
            return self._write_ranked(body, window)
        if isinstance(body, Select) and body.overs:
            return self._write_over(body, window)
        if isinstance(body, SetOperation):
            sides = [f"SELECT * FROM ({self._write(side, window)}) side" for side in (body.left, body.right)]
            return f"{sides[0]} {'EXCEPT' if body.word == 'MINUS' else body.word} {sides[1]}"
        if body.is_once:
            readings = [item for item in body.items if isinstance(item, Reading)]
            return write_once(body, [self._reading(item.table, item.window) for item in readings])
        if body.keys == ():
            return self._write_total(body, window)
        instant = _instant_of(body)
        outputs = ", ".join(f"{expr} AS {name}" for expr, name, _ in body.outputs)
        text = f"SELECT {'DISTINCT ' if body.is_distinct else ''}{instant} AS _i, {outputs} "
        text += f"FROM {self._from(body, window)}"
        if body.keys is not None:
            text += f" GROUP BY {', '.join([instant, *body.keys])}"
        text += f" HAVING {body.having}" if body.having else ""
        text = fill(text, body.calls, lambda call: self._call(call, body))
        return fill_marks(text, body.marks, lambda mark: self._mark(mark, body, window))

    def _write_ranked(self, body: Body, window: Window | None) -> str:
        """The first rows of a query that has a column more for all that they are ordered and partitioned by."""
        assert body.ranks is not None
        exprs = hidden_of(body.ranks)
        if isinstance(body, SetOperation):
            columns = "".join(f", s.{expr} AS _h{number}" for number, expr in enumerate(exprs))
            within = f"SELECT s.*{columns} FROM ({self._write(replace(body, ranks=None), window)}) s"
            return plain_steps(within, body.ranks, [(name, name) for _, name, _ in body.outputs], False)
        hidden = [Output(expr, f"_h{number}", "") for number, expr in enumerate(exprs)]
        is_late = body.is_distinct and body.ranks.qualify is not None
        plain = replace(
            body, ranks=None, outputs=(*body.outputs, *hidden), is_distinct=body.is_distinct and not is_late
        )
        shown = [(expr, name) for expr, name, _ in body.outputs]
        return plain_steps(self._write(plain, window), body.ranks, shown, is_late)

    def _write_over(self, body: Select, window: Window | None) -> str:
        """Functions OVER the rows of a query that has a column more for all that they read."""
        read = [expr for output in body.outputs for item in items_in(output.expr, body.overs) for expr in item.reads]
        place = {expr: f"_w{number}" for number, expr in enumerate(dict.fromkeys(read))}
        shown = [output for output in body.outputs if not OVER_MARK.search(output.expr)]
        hidden = [Output(expr, name, "") for expr, name in place.items()]
        hidden = hidden or ([] if shown else [Output("0", "_none", "")])
        plain = replace(body, overs=(), outputs=(*shown, *hidden), is_distinct=False, is_star=False)
        columns = [(expr, name) for expr, name, _ in body.outputs]
        return plain_over(self._write(plain, window), columns, body.overs, place, body.is_distinct)

    def _write_total(self, body: Select, window: Window | None) -> str:
        """An aggregate without GROUP BY has a row at every instant, also where there is none to aggregate."""
        read = dict.fromkeys(expr for call in body.calls for expr in call.exprs)
        names = {expr: f"_a{place}" for place, expr in enumerate(read)}
        columns = "".join(f", {expr} AS {name}" for expr, name in names.items())
        by = ", ".join(_time_of(body)) if any(map(_is_timed, body.calls)) else "0"
        inner = f"SELECT {_instant_of(body)} AS _i, 1 AS _there, {_greatest(by)} AS _time{columns} "
        inner += f"FROM {self._from(body, window)}"

        def write_call(call: Call) -> str:
            passes = [f"x.{names[call.filter]}"] if call.filter else []
            over = replace(
                call,
                argument=f"x.{names[call.argument]}" if call.argument else "x._there",
                # A list would have the NULL of an instant without rows.
                filter=" AND ".join([*passes, "x._there = 1"] if call.function in LISTS else passes) or None,
                further=f"x.{names[call.further]}" if call.further in names else call.further,
                order=tuple((f"x.{names[expr]}", how) for expr, how in call.order),
            )
            return _ordered(over, "x._time")

        outputs = ", ".join(f"{expr} AS {name}" for expr, name, _ in body.outputs)
        text = f"SELECT {'DISTINCT ' if body.is_distinct else ''}g.t AS _i, {outputs} "
        text += f"FROM instants g LEFT JOIN ({inner}) x ON x._i = g.t GROUP BY g.t"
        text = fill(text + (f" HAVING {body.having}" if body.having else ""), body.calls, write_call)
        return fill_marks(text, body.marks, lambda mark: self._mark(mark, body, window))

    def _from(self, select: Select, window: Window | None, *further: str) -> str:
        """FROM and WHERE, with further conditions."""
        first, *others = select.items
        items = [self._item(item, _pair_life(select.pairs, item.alias) or window) for item in select.items]
        text, conditions = ", ".join(items), [f"{other.alias}._i = {first.alias}._i" for other in others]
        conditions += [f"({each})" for link in select.links for each in link.conditions]
        conditions += _periods(select.items)
        if any(link.is_outer for link in select.links):
            text, conditions = self._joined(select, items), []
        conditions += [f"({each})" for each in select.where]
        conditions += [self._test(test, select, window) for test in select.tests]
        for pair in select.pairs:
            least = 0 if pair.is_directed else 1 - pair.length_us
            gap = f"{pair.right}._time - {pair.left}._time"
            conditions.append(f"({gap} BETWEEN {least} AND {pair.length_us - 1})")
        conditions += further
        return text + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _joined(self, select: Select, items: Sequence[str]) -> str:
        """FROM with joins as written, each within one instant."""
        text = items[0]
        for place, (item, link) in enumerate(zip(items[1:], select.links, strict=True), 1):
            same = f"{select.items[place].alias}._i = {_instant_of(select, place)}"
            joined = select.items[:2] if place == 1 else select.items[place : place + 1]
            conditions = [same, *(f"({each})" for each in link.conditions), *_periods(joined)]
            item = one_partner(item, select.items[place], link, self.tables) if link.compared else item
            text += f" {link.word if link.is_outer else 'JOIN'} {item} ON {' AND '.join(conditions)}"
        return text

    def _item(self, item: Item, window: Window | None) -> str:
        if isinstance(item, Derived):
            names = f"(_i, {', '.join(item.names)})" if item.names else ""
            return f"({self._write(item.body, window)}) {item.alias}{names}"
        rows = self._reading(item.table, (item.window or window) if item.is_stream else None)
        columns = ", ".join(f'r."{name}"' for name, _ in item.columns)
        columns += ", r._from, r._until" if item.as_of else ""
        held = "r._enters <= i.t AND i.t < r._leaves"
        return f'(SELECT i.t AS _i, r._time, {columns} FROM instants i, "{rows}" r WHERE {held}) {item.alias}'

    def _reading(self, table: str, window: Window | None) -> str:
        """The name of the rows of a table with their lives in a window."""
        if (table, window) not in self._names:
            self._names[table, window] = name = f"#{len(self._names)}"
            self.rows[name] = live(self.tables[table], window)
        return self._names[table, window]

    def _test(self, test: Test, select: Select, window: Window | None) -> str:
        negation, outer = "NOT " if test.is_negated else "", _instant_of(select)
        if test.operand is not None and test.ranks is not None:
            expr = test.body.outputs[0].expr
            first = f"SELECT {expr} {self._compared(test, select, window)}{test.ranks.plain(expr)}"
            return f"(({test.operand}) {negation}IN ({first}))"
        if test.operand is not None:
            name = test.body.outputs[0].name
            body = self._write(test.body, window)
            return f"(({test.operand}) {negation}IN (SELECT q.{name} FROM ({body}) q WHERE q._i = {outer}))"
        assert isinstance(test.body, Select)
        first = test.ranks.plain("1 + 0") if test.ranks else ""
        return f"({negation}EXISTS (SELECT 1 {self._compared(test, select, window)}{first}))"

    def _mark(self, mark: Mark, select: Select, window: Window | None) -> str:
        """What a subquery in an expression is worth, at the instant of the row."""
        if isinstance(mark, ValueQuery):
            first = mark.ranks.plain(mark.expr) if mark.ranks else ""
            return f"(SELECT {mark.expr} {self._compared(mark, select, window)}{first})"
        return self._test(mark, select, window)

    def _compared(self, mark: Mark, select: Select, window: Window | None) -> str:
        """FROM and WHERE of a subquery that is compared with a row outside, of the same instant."""
        assert isinstance(mark.body, Select)
        conditions = [f"{_instant_of(mark.body)} = {_instant_of(select)}"]
        conditions += [f"({inner}) = ({outside})" for inner, outside in mark.equalities]
        conditions += [f"({each})" for each in mark.comparisons] if isinstance(mark, Test) else []
        return f"FROM {self._from(mark.body, mark.body.window or window, *conditions)}"

    def _call(self, call: Call, select: Select) -> str:
        by = _greatest(", ".join(_time_of(select))) if _is_timed(call) else ""
        return call.text if call.argument is None else _ordered(call, by)


def _instant_of(select: Select, n_items: int | None = None) -> str:
    """The instant of a row that is made of the first items; those that it has nothing of say none."""
    shown = [True, *(link.shows for link in select.links)]
    names = [f"{item.alias}._i" for item, shows in zip(select.items[:n_items], shown) if shows]
    is_padded = any(link.word in ("RIGHT JOIN", "FULL JOIN") for link in select.links)
    return f"coalesce({', '.join(names)})" if is_padded and len(names) > 1 else names[0]


def live(table: Table, window: Window | None) -> pa.Table:
    """The rows of a table that count, with when they enter and leave a window, and their time; relations always are."""
    rows = table.rows.take(pa.array(table.accepted, pa.int64()))
    if not table.is_stream:
        lives, times = [ALWAYS] * rows.num_rows, [ALWAYS[0]] * rows.num_rows
    else:
        times = [table.times[number] for number in table.accepted]
        if window is not None and window.kind == "hop":
            return _in_each_window(rows, times, window)
        if window is not None and window.kind == "calendar":
            found = [(place, *_period(time, window)) for place, time in enumerate(times)]
            lives = [(end, ALWAYS[1]) if window.is_final else (times[place], end) for place, _, end in found]
            return _with_windows(rows, times, found, lives)
        if window is not None and window.kind == "session":
            return _in_each_session(rows, times, window)
        lives = _stream_lives(rows, times, table.tie, window)
    for name, values in (("_enters", [a for a, _ in lives]), ("_leaves", [b for _, b in lives]), ("_time", times)):
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    for name, bound in (("_from", "vf"), ("_until", "vt")) if table.has_periods else ():
        rows = rows.append_column(name, rows.column(bound).cast(pa.int64()))
    return rows


def _in_each_window(rows: pa.Table, times: list[int], window: Window) -> pa.Table:
    """The rows of TUMBLE and HOP: one for each window that holds its time, up to the window's end."""
    slide = window.slide or window.size
    least, most = min(times, default=0) - window.size, max(times, default=0)
    starts = [start for start in range(least, most + 1) if (start - window.offset) % slide == 0]
    found = [
        (place, time, start, start + window.size)
        for place, time in enumerate(times)
        for start in starts
        if start <= time < start + window.size
    ]
    lives = [(end, ALWAYS[1]) if window.is_final else (time, end) for _, time, _, end in found]
    return _with_windows(rows, times, [(place, start, end) for place, _, start, end in found], lives)


@cache
def _period(time: int, window: Window) -> tuple[int, int]:
    """When the days, weeks, months or years that hold a time begin and end, as DuckDB's clocks show it in a zone; they
    are counted from those on that 1970 begins in.
    """
    unit, size = window.unit, window.size
    first, far = (f"date_trunc('{unit}', {each})" for each in ("TIMESTAMPTZ '1970-01-01'", f"make_timestamptz({time})"))
    gone = f"CAST(floor(date_diff('{unit}', {first}, {far}) / {size}) AS INTEGER) * {size}"
    edges = [f"epoch_us({first} + to_{unit}s({number}))" for number in (gone, f"{gone} + {size}")]
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{window.zone or 'UTC'}'")
        start, end = connection.execute(f"SELECT {', '.join(edges)}").fetchall()[0]
    return start, end


def _in_each_session(rows: pa.Table, times: list[int], window: Window) -> pa.Table:
    """The rows of SESSION: one for each instant at which rows of its partition are there that make a session with it.

    At an instant, that are those that can be reached from it, step by step, each less than the gap from the last.
    """
    records, found, lives = rows.to_pylist(), [], []
    keys = [tuple(_rank(record[name]) for name in window.partition_by) for record in records]
    for place, time in enumerate(times):
        others = sorted({other for other, key in zip(times, keys) if key == keys[place]})
        for instant in (other for other in others if other >= time):
            known = [other for other in others if other <= instant]
            start = time
            while earlier := [other for other in known if start - window.size < other < start]:
                start = min(earlier)
            last = time
            while later := [other for other in known if last < other < last + window.size]:
                last = max(later)
            following = min([other for other in others if other > instant], default=ALWAYS[1])
            end = last + window.size
            if last == instant and not window.is_final:
                found.append((place, start, end))
                lives.append((instant, min(end, following)))
            elif instant == others[-1] and window.is_final:
                found.append((place, start, end))
                lives.append((end, ALWAYS[1]))
    return _with_windows(rows, times, found, lives)


def _with_windows(rows: pa.Table, times: list[int], found: list, lives: list) -> pa.Table:
    """Rows, by their places, with the start and end of a window, and with when they are in it."""
    rows = rows.take(pa.array([place for place, *_ in found], pa.int64()))
    kind = rows.schema.field("ts").type
    for name, at in (("window_start", 1), ("window_end", 2)):
        rows = rows.append_column(name, pa.array([each[at] for each in found], pa.int64()).cast(kind))
    times = [times[place] for place, *_ in found]
    for name, values in (("_enters", [a for a, _ in lives]), ("_leaves", [b for _, b in lives]), ("_time", times)):
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    return rows


def _stream_lives(rows: pa.Table, times: list[int], tie: tuple[str, ...], window: Window | None) -> list:
    never = ALWAYS[1]
    if window is None or window.kind == "unbounded":
        return [(time, never) for time in times]
    if window.kind == "since":
        return [(time, never) if time >= window.size else (never, never) for time in times]
    if window.kind in ("range", "now"):
        length, slide = (window.size, window.slide or 1) if window.kind == "range" else (1, 1)
        return [(-(-time // slide) * slide, -(-(time + length) // slide) * slide) for time in times]
    return _displaced_lives(rows, times, tie, window)


def _displaced_lives(rows: pa.Table, times: list[int], tie: tuple[str, ...], window: Window) -> list:
    """Of `[ROWS n]`: a row leaves when the n-th one after it, of its partition, enters."""
    records = rows.to_pylist()
    order = sorted(
        range(len(times)),
        key=lambda number: (times[number], *(_rank(records[number][name]) for name in (*tie, *rows.column_names))),
    )
    partitions: dict[tuple, list[int]] = defaultdict(list)
    for number in order:
        partitions[tuple(_rank(records[number][name]) for name in window.partition_by)].append(number)
    lives = [ALWAYS] * len(times)
    for members in partitions.values():
        for place, number in enumerate(members):
            follower = place + window.size
            lives[number] = times[number], times[members[follower]] if follower < len(members) else ALWAYS[1]
    return lives


def _rank(value: Any) -> tuple:
    """By which values of a column are ordered and told apart: NULL first, zeros of either sign equal, NaN last.

    Lists are ordered as they are written.
    """
    if value is None:
        return (0,)
    if isinstance(value, list):
        return (1, repr(value))
    if isinstance(value, float):
        return (2,) if value != value else (1, value + 0.0)
    return (1, value)


def _periods(items: Sequence[Item]) -> list[str]:
    return [_valid(item) for item in items if isinstance(item, Reading) and item.as_of]


def _valid(item: Reading) -> str:
    """That a row of a relation is valid at the time of a stream's."""
    bounds = {"_from": "<=", "_until": ">"}
    texts = [
        f"({item.alias}.{name} IS NULL OR {item.alias}.{name} {sign} {item.as_of}._time)"
        for name, sign in bounds.items()
    ]
    return " AND ".join(texts)


def _pair_life(pairs: tuple[PairWindow, ...], alias: str) -> Window | None:
    """The window of a stream in a query with windows of pairs: the longest that it has, or gets by way of others."""
    if not pairs:
        return None
    names = sorted({name for pair in pairs for name in (pair.left, pair.right)})
    if alias not in names:
        return None
    given = {frozenset((pair.left, pair.right)): pair.length_us for pair in pairs}
    ways = {(one, other): given.get(frozenset((one, other)), 2**40) for one in names for other in names}
    for middle in names:
        for one in names:
            for other in names:
                if one != middle != other:
                    ways[one, other] = min(ways[one, other], ways[one, middle] + ways[middle, other])
    completed = {(one, other): given.get(frozenset((one, other)), way) for (one, other), way in ways.items()}
    return Window("range", max(length for (one, other), length in completed.items() if one == alias != other))


def _time_of(select: Select) -> list[str]:
    return [f"{item.alias}._time" for item in select.items if isinstance(item, Reading) and item.is_stream]


def _greatest(times: str) -> str:
    return f"greatest({times})" if "," in times else times


def _is_timed(call: Call) -> bool:
    return call.function in (*LISTS, *STRINGS, "first", "last") and not call.order and not call.is_distinct


def _ordered(call: Call, by: str) -> str:
    """The call with an order that is total: what it is told or else time decides, then the value."""
    value = (call.argument or "", " NULLS FIRST")
    if call.function in DECIDED:
        # Rows without a value, or without what decides, do not count.
        there = [f"{call.argument} IS NOT NULL", f"{call.further} IS NOT NULL", *([call.filter] if call.filter else [])]
        passes = " AND ".join(f"({each})" for each in there)
        function = "first" if "min" in call.function else "last"
        return Call(function, call.argument, filter=passes, order=((call.further or "", ""), value)).text
    if call.function == "mode":
        return replace(call, order=((call.argument or "", ""),)).text
    if call.is_distinct and call.function in (*LISTS, *STRINGS):
        return replace(call, order=call.order or ((call.argument or "", ""),)).text
    if call.function in (*LISTS, *STRINGS, "first", "last"):
        return replace(call, order=(*(call.order or ((by, ""),)), value)).text
    return call.text
