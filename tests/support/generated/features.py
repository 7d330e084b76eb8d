"""What a generated case has in it, by name: so that what is never drawn is noticed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from support.generated.data import TWIN, Table
from support.generated.overs import FEATURES as OVER_FEATURES
from support.generated.overs import OVER_MARK
from support.generated.ranks import FEATURES
from support.generated.run import GeneratedCase
from support.generated.tree import (
    Body,
    Derived,
    Reading,
    Select,
    SetOperation,
    ValueQuery,
    Window,
    operations_in,
    selects_in,
)

_FUNCTIONS = (
    "coalesce", "greatest", "least", "CASE WHEN", "CAST(", "::", " LIKE ", "BETWEEN", "IS DISTINCT FROM", "abs(",
    "list_contains", "||", "NOT ", " OR ", " % ", " // ",
)  # fmt: skip
_AGGREGATES = (
    "count", "sum", "min", "max", "avg", "median", "first", "last", "count_if", "bool_and", "bool_or", "stddev",
    "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "quantile_cont", "quantile_disc", "quantile",
    "percentile_cont", "percentile_disc", "mode", "arg_min", "arg_max", "min_by", "max_by", "list", "array_agg",
    "string_agg", "group_concat", "listagg",
)  # fmt: skip
EXPECTED = (
    *(f"join of {n}" for n in range(2, 6)),
    *(
        f"join with {kind} as input {place}"
        for kind in ("groups", "DISTINCT", "set operation", "join")
        for place in (1, 2)
    ),
    "1 deep",
    "2 deep",
    "3 deep or more",
    *("EMIT CHANGES", "WITH", "hint", "HAVING", "GROUP BY", "aggregate of everything", "SELECT DISTINCT", "relation"),
    "FOR SYSTEM_TIME",
    *(
        "IN",
        "NOT IN",
        "EXISTS",
        "NOT EXISTS",
        "boolean operand of IN",
        "JOIN … USING",
        "GROUP BY position",
        "GROUP BY ALL",
        "SELECT *",
    ),
    *("value subquery", "value compared with the outside", "value beside groups", "subquery of a relation"),
    *(
        "first row as a value",
        "LIMIT in IN",
        "LIMIT in EXISTS",
        "IN under OR",
        "EXISTS under OR",
        "EXISTS by more than equality",
        "column list",
        "EXCLUDE",
        "parameter",
    ),
    *("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "MINUS"),
    *(
        "[RANGE]",
        "[RANGE SLIDE]",
        "[ROWS]",
        "[PARTITION BY ROWS]",
        "[NOW]",
        "TUMBLE",
        "HOP",
        "SESSION",
        "SESSION of all rows",
        "GROUP BY SESSION",
        "TUMBLE by the calendar",
        "TUMBLE in a zone",
        "EMIT FINAL",
        "WITH UNBOUNDED STATE",
        "EMIT ON WINDOW CLOSE",
        "[UNBOUNDED]",
        "[SINCE]",
        "WINDOW at the end",
    ),
    *("WINDOW of pairs", "DWINDOW of pairs", "interval join", "aggregate of an interval join"),
    *FEATURES,
    *OVER_FEATURES,
    *("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "ASOF JOIN", "ASOF LEFT JOIN"),
    *(f"{name}()" for name in _AGGREGATES),
    *("FILTER", "ORDER BY in an aggregate", "count distinct()", "DISTINCT in another aggregate"),
    *(each.strip(" (") for each in _FUNCTIONS),
    *(
        "slack",
        "late rows",
        "rows too far ahead",
        "recording",
        "tie-breakers",
        "rows out of order",
        "an empty stream",
        "a column called as an item",
    ),
    *("by sash.sql", "by cuts", "by session", "held against SQLite too", "memory of 64k", "memory of 16k"),
)
"""Every name that `features_of` gives. Each is drawn sooner or later."""


def features_of(case: GeneratedCase) -> set[str]:
    statement = case.statement
    found = {f"by {'sash.sql' if case.way == 'sql' else case.way}"}
    found |= {"held against SQLite too"} if case.is_plain else set()
    found |= {f"memory of {case.memory}"} if case.memory else set()
    found |= {"EMIT CHANGES"} if statement.emit_changes else set()
    found |= {"EMIT ON WINDOW CLOSE"} if statement.is_final else set()
    found |= {"WITH UNBOUNDED STATE"} if statement.may_grow else set()
    found |= {"EMIT FINAL"} if statement.is_once else set()
    found |= {"WITH"} if statement.named else set()
    found |= {"parameter"} if statement.params else set()
    found |= {"hint"} if statement.hint else set()
    depth = _depth(statement.body)
    found.add(f"{depth} deep" if depth < 3 else "3 deep or more")
    found |= {operation.word for operation in operations_in(statement.body)}
    for select in selects_in(statement.body):
        found |= set(_of_select(select)) | set(_of_marks(select))
    for operation in operations_in(statement.body):
        found |= {"WINDOW at the end"} if operation.window else set()
    found |= {each.strip(" (") for each in _FUNCTIONS if each in case.text}
    found |= set(_of_tables(case))
    return found


def key_types(case: GeneratedCase) -> Iterator[tuple[str, str]]:
    """The types of plain columns that meet in a key of a join."""
    for select in selects_in(case.statement.body):
        types = {
            f"{item.alias}.{name}": str(_type_of(case.tables[item.table], name))
            for item in select.items
            if isinstance(item, Reading)
            for name, _ in item.columns
        }
        for link in select.links:
            for condition in link.conditions:
                sides = re.fullmatch(r"(t\d+\.\w+) = (t\d+\.\w+)", condition)
                if sides and sides[1] in types and sides[2] in types:
                    one, other = sorted((types[sides[1]], types[sides[2]]))
                    yield one, other


def _type_of(table: Table, name: str) -> pa.DataType:
    """Of a column; windows begin and end at times."""
    return table.rows.schema.field("ts" if name in ("window_start", "window_end") else name).type


def _depth(body: Body) -> int:
    """How many queries deep the innermost stands."""
    if isinstance(body, SetOperation):
        return max(_depth(body.left), _depth(body.right))
    inner = [item.body for item in body.items if isinstance(item, Derived)]
    inner += [each.body for each in (*body.tests, *body.marks)]
    return 1 + max(map(_depth, inner), default=0)


def _of_select(select: Select) -> Iterator[str]:
    if len(select.items) > 1:
        yield f"join of {len(select.items)}"
    for place, item in enumerate(select.items):
        if isinstance(item, Derived) and len(select.items) > 1:
            for kind in _kinds(item.body):
                yield f"join with {kind} as input {min(place, 1) + 1}"
        if isinstance(item, Reading):
            yield _window_name(item.window) if item.is_stream else "relation"
            yield "FOR SYSTEM_TIME" if item.as_of else ""
    yield "WINDOW at the end" if select.window else ""
    if select.is_interval_join:
        yield "interval join" if select.keys is None else "aggregate of an interval join"
    yield from (f"{'D' if pair.is_directed else ''}WINDOW of pairs" for pair in select.pairs)
    if select.keys is not None:
        yield "GROUP BY" if select.keys else "aggregate of everything"
    if select.key_words:
        yield "GROUP BY ALL" if select.key_words == ("ALL",) else "GROUP BY position"
    yield "HAVING" if select.having else ""
    yield "SELECT DISTINCT" if select.is_distinct else ""
    yield "SELECT *" if select.is_star else ""
    yield "EXCLUDE" if select.excluded else ""
    yield from ("column list" for item in select.items if isinstance(item, Derived) and item.names)
    yield from select.ranks.features if select.ranks else ()
    yield from _of_overs(select)
    yield from ("JOIN … USING" for link in select.links if link.using)
    yield from (link.word for link in select.links if link.is_outer)
    yield from (f"{call.function}()" for call in select.calls)
    for call in select.calls:
        if call.is_distinct:
            yield "count distinct()" if call.function == "count" else "DISTINCT in another aggregate"
    yield from ("FILTER" for call in select.calls if call.filter)
    yield from ("ORDER BY in an aggregate" for call in select.calls if call.order)
    for test in select.tests:
        yield f"{'NOT ' if test.is_negated else ''}{'IN' if test.operand is not None else 'EXISTS'}"
        yield "EXISTS by more than equality" if test.comparisons else ""
        if test.operand and re.search(r"\bOR\b|\bAND\b|NOT |\.b\b", test.operand):
            yield "boolean operand of IN"


def _of_overs(select: Select) -> Iterator[str]:
    """Of functions OVER rows, and of conditions on numbers that a subquery gives to rows."""
    for item in select.overs:
        yield from item.features
    yield "OVER in groups" if select.overs and select.keys is not None else ""
    yield "OVER several windows" if len({(each.partition_by, each.order) for each in select.overs}) > 1 else ""
    yield "SELECT *, … OVER" if select.overs and select.is_star else ""
    for item in select.items:
        if not isinstance(item, Derived) or not isinstance(item.body, Select):
            continue
        yield "unnamed subquery" if item.is_unnamed else ""
        for (name, _), output in zip(item.columns, item.body.outputs, strict=True):
            is_number = OVER_MARK.fullmatch(output.expr) and item.body.overs
            if is_number and any(each.startswith(f"{item.alias}.{name} ") for each in select.where):
                yield "first rows by a number from a subquery"


def _of_marks(select: Select) -> Iterator[str]:
    """Of subqueries in expressions."""
    for mark in select.marks:
        if isinstance(mark, ValueQuery):
            yield "value subquery"
            yield "first row as a value" if mark.ranks else ""
            yield "value compared with the outside" if mark.equalities else ""
            yield "value beside groups" if any("\1" in output.expr for output in select.outputs) and select.keys else ""
        else:
            yield "IN under OR" if mark.operand is not None else "EXISTS under OR"
            yield f"LIMIT in {'IN' if mark.operand is not None else 'EXISTS'}" if mark.ranks else ""
    for each in (*select.tests, *select.marks):
        items = each.body.items if isinstance(each.body, Select) else ()
        if items and not any(isinstance(item, Derived) or item.is_stream for item in items):
            yield "subquery of a relation"


def _kinds(body: Body) -> Iterator[str]:
    if isinstance(body, SetOperation):
        yield "set operation"
        return
    if body.keys is not None:
        yield "groups"
    if body.is_distinct:
        yield "DISTINCT"
    if len(body.items) > 1:
        yield "join"


def _window_name(window: Window | None) -> str:
    if window is None:
        return ""
    if window.kind == "calendar":
        return "TUMBLE in a zone" if window.zone else "TUMBLE by the calendar"
    if window.kind == "session":
        if window.spelling == "group":
            return "GROUP BY SESSION"
        return "SESSION" if window.partition_by else "SESSION of all rows"
    if window.kind == "hop":
        return "TUMBLE" if window.slide == window.size else "HOP"
    names = {"range": "[RANGE SLIDE]" if window.slide else "[RANGE]", "rows": "[ROWS]"}
    return "[PARTITION BY ROWS]" if window.partition_by else names.get(window.kind, f"[{window.kind.upper()}]")


def _of_tables(case: GeneratedCase) -> Iterator[str]:
    for table in case.tables.values():
        if not table.is_stream:
            continue
        yield "recording" if table.slack_us is None else "slack" if table.slack_us else ""
        n_accepted = len(table.accepted)
        yield "late rows" if n_accepted < table.rows.num_rows else ""
        yield "rows too far ahead" if table.ahead_us is not None and n_accepted < table.rows.num_rows else ""
        yield "tie-breakers" if table.tie else ""
        yield "rows out of order" if table.times != sorted(table.times) else ""
        yield "an empty stream" if not table.rows.num_rows else ""
        yield "a column called as an item" if TWIN in table.families else ""
