"""Hypothesis strategies: streams, relations, queries over them as text, and ways to cut a stream into batches.

Domains are small, so that tuples meet; timestamps have many ties, so that order is never an accident. Hypothesis draws
the first of several choices about half of the time and shrinks towards it, so what stands first is what is common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from sash.errors import require_extra
from sash.frames import Relation, Stream, relation, stream
from sash.operators.changes import read_times
from sash.testing.case import Advance, Case, Push, Step

try:
    from hypothesis import strategies as st
except ImportError:
    require_extra("testing", "`sash.testing.strategies`")
    raise

KEY_TYPES: Mapping[str, Mapping[pa.DataType, tuple]] = {
    "number": {
        pa.int64(): (0, 1, 2, 2**53 + 1),
        pa.int32(): (0, 1, 2),
        pa.uint64(): (0, 1, 2, 2**64 - 1),
        pa.float64(): (0.0, 1.0, -0.0, 0.5, 2.0**53, float("nan"), float("inf")),
        pa.float32(): (0.0, 1.0, 0.5),
        pa.decimal128(9, 2): (Decimal("0.00"), Decimal("1.00"), Decimal("0.50")),
        pa.decimal128(25, 3): (Decimal("0.000"), Decimal("1.000"), Decimal("0.500")),
    },
    "boolean": {pa.bool_(): (False, True)},
    "string": {pa.string(): ("a", "b", "", "it's | é")},
    "instant": {
        pa.date32(): (date(2026, 1, 31), date(1969, 12, 31)),
        pa.timestamp("us"): (datetime(2026, 1, 31), datetime(2026, 1, 31, 12, 0, 0, 1)),
        pa.timestamp("us", "UTC"): (datetime(2026, 1, 31, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)),
    },
}
"""Values by type, by family: types of one family can be compared."""

TIME_TYPES = (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
MAX_ROWS = 8


def schemas(families: tuple[str, str], time: pa.DataType | None = None) -> st.SearchStrategy[pa.Schema]:
    """Columns `k` and `j`, each of a type of its family, `v`, a small integer, and `ts` if there is a time type."""
    leading = {} if time is None else {"ts": time}
    return st.tuples(*(st.sampled_from(list(KEY_TYPES[family])) for family in families)).map(
        lambda types: pa.schema({**leading, "k": types[0], "j": types[1], "v": pa.int64()})
    )


@st.composite
def tables(
    draw: st.DrawFn, schema: pa.Schema, max_rows: int = MAX_ROWS, least: Sequence[int] | None = None
) -> pa.Table:
    """Rows in order of time if the schema has a `ts`; at least as many as one of `least`."""
    min_rows = draw(st.sampled_from(least or (2, max_rows // 2, max_rows - 1, 0)))
    cells = [_GAPS if field.name == "ts" else _cells(field) for field in schema]
    rows = draw(st.lists(st.tuples(*cells), min_size=min_rows, max_size=max_rows))
    columns = {field.name: [row[idx] for row in rows] for idx, field in enumerate(schema)}
    if "ts" in columns:
        columns["ts"] = _running(columns["ts"])
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema})


@st.composite
def streams(
    draw: st.DrawFn,
    schema: pa.Schema,
    max_rows: int = MAX_ROWS,
    is_late: bool = False,
    least: Sequence[int] | None = None,
) -> Stream:
    """A stream whose rows arrive within its slack, or, if asked for, some beyond it; perhaps a complete recording."""
    table = draw(tables(schema, max_rows, least))
    slack_us = draw(st.sampled_from((0, 0, 1, 3, 10)))
    reach = 2 * slack_us + 3 if is_late else slack_us
    if reach and table.num_rows > 1:
        delays = draw(st.lists(st.integers(0, reach), min_size=table.num_rows, max_size=table.num_rows))
        table = delayed(table, delays)
    tie = draw(st.sampled_from(((), (), ("v",), ("j", "k"))))
    is_recording = not is_late and draw(st.booleans())
    return stream(table, "ts", None if is_recording else f"{slack_us} us", tie)


def delayed(table: pa.Table, delays: list[int]) -> pa.Table:
    """The rows in the order in which they arrive when each is so many microseconds late."""
    arrival = [ts + delay for ts, delay in zip(read_times(table.column("ts")).tolist(), delays)]
    return table.take(pa.array(sorted(range(len(arrival)), key=arrival.__getitem__), pa.int64()))


@st.composite
def cases(draw: st.DrawFn, is_late: bool = False, max_rows: int = MAX_ROWS) -> Case:
    """A query over one to three streams, perhaps with a relation among them, and their rows."""
    families = draw(st.tuples(*[st.sampled_from(("number", "number", "string", "instant", "boolean"))] * 2))
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    n_streams = draw(st.sampled_from((2, 1, 3, 3, 3)))
    names = draw(st.lists(st.sampled_from("abc"), min_size=n_streams, max_size=n_streams))
    frames: dict[str, Stream | Relation] = {
        name: draw(schemas(families, time).flatmap(lambda schema: streams(schema, max_rows, is_late)))
        for name in sorted(set(names))
    }
    if draw(_RARELY_ONE):
        frames["r"] = relation(draw(schemas(families).flatmap(lambda schema: tables(schema, 4))))
        names.insert(draw(st.integers(0, len(names))), "r")
    return Case(draw(queries(names, frames)), frames)


@st.composite
def queries(draw: st.DrawFn, names: list[str], frames: Mapping[str, Stream | Relation]) -> str:
    """The text of a query whose FROM lists the names, in this order; a name that comes twice is joined with itself."""
    items = [_Item(name, alias, isinstance(frames[name], Stream)) for name, alias in zip(names, "ABCDEF")]
    hint = draw(st.sampled_from(("", "", "/*+ wnl */ ")))
    conditions = draw(_conditions(items))
    window, windows = draw(_windows(items))
    source = draw(_from_clause(items, windows, conditions))
    outputs = draw(_outputs(items))
    emit = draw(st.sampled_from(("", "", " EMIT CHANGES")))
    return f"SELECT {hint}{outputs} FROM {source}{window}{emit}"


@st.composite
def batch_cuts(draw: st.DrawFn, case: Case, with_advances: bool = True) -> list[Step]:
    """Pushes of all rows of all streams, in the order of each, interleaved at will, some of them empty.

    Among them come declarations that streams are complete up to a time, as far as that is true.
    """
    return draw(arrival_cuts(case.arrivals, with_advances))


@st.composite
def arrival_cuts(draw: st.DrawFn, arrivals: Mapping[str, pa.Table], with_advances: bool = True) -> list[Step]:
    """`batch_cuts` of the rows of streams, whoever reads them."""
    waiting = {name: read_times(table.column("ts")).tolist() for name, table in arrivals.items()}
    end = max([ts for column in waiting.values() for ts in column], default=0)
    done = dict.fromkeys(waiting, 0)
    steps: list[Step] = []
    while open_streams := [name for name in waiting if done[name] < len(waiting[name])]:
        name = draw(st.sampled_from(open_streams))
        if with_advances and draw(_RARELY_ONE):
            until = min([end, *(ts - 1 for ts in waiting[name][done[name] :])])
            steps.append(Advance(draw(st.integers(until - 3, until)), name))
        n_left = len(waiting[name]) - done[name]
        n_rows = draw(st.sampled_from((*range(1, n_left + 1), 0)))
        steps.append(Push(name, done[name], done[name] + n_rows))
        done[name] += n_rows
    return steps


@st.composite
def rearrangements(draw: st.DrawFn, case: Case) -> Case:
    """The same query over the same rows, which arrive in another order, within their slack if they have one."""
    frames = dict(case.frames)
    for name, frame in case.frames.items():
        if isinstance(frame, Stream):
            n_rows = frame.frame.num_rows
            table = frame.frame.take(pa.array(draw(st.permutations(range(n_rows))), pa.int64()))
            if frame.slack_us is not None:
                delays = st.lists(st.integers(0, frame.slack_us), min_size=n_rows, max_size=n_rows)
                table = delayed(table, draw(delays))
            frames[name] = replace(frame, frame=table)
    return Case(case.text, frames)


@dataclass(frozen=True, slots=True)
class _Item:
    """A name of FROM with its alias."""

    name: str
    alias: str
    is_stream: bool


_GAPS = st.sampled_from((1, 0, 0, 0, 2, 5))
_SMALL_INTEGERS = st.sampled_from((1, 2, 1, 2, 0, 3, None))
_RARELY_ONE = st.sampled_from((0, 0, 0, 0, 1))
_LENGTHS = st.sampled_from((5, 1, 2, 3, 9, 20, 1_000_000))
_COUNTS = st.sampled_from((2, 1, 3, 4))

_PAIR_KEYS = (
    "{x}.k = {y}.k",
    "{y}.k = {x}.k",
    "{x}.j = {y}.j",
    "{x}.v = {y}.v",
    "{x}.v + 1 = {y}.v",
    "{x}.v / 2 = {y}.v",
    "{x}.v % 2 = {y}.v % 2",
    "coalesce({x}.v, 0) = {y}.v",
)
_PAIR_RESIDUALS = (
    "{x}.v < {y}.v",
    "{x}.v <> {y}.v",
    "{x}.k <= {y}.k",
    "{x}.v + {y}.v > 3",
    "abs({x}.v - {y}.v) <= 1",
    "({x}.v IS NULL OR {y}.v > 1)",
    "{x}.k IS NOT DISTINCT FROM {y}.k",
    "NOT ({x}.j = {y}.j)",
)
_FILTERS = (
    "{x}.v > 1",
    "{x}.v IN (1, 2)",
    "{x}.v BETWEEN 0 AND 2",
    "{x}.k IS NOT NULL",
    "({x}.v IS NULL OR {x}.v = 1)",
    "{x}.j = {x}.j",
    "1 = 1",
    "1 = 0",
)
_OUTPUTS = (
    "{x}.k",
    "{x}.v",
    "{x}.j",
    "{x}.*",
    "{x}.v + 1 AS next",
    "{x}.v IS NULL AS is_null",
    "coalesce({x}.v, -1)",
    "'it''s' AS tag",
    "1",
)


def _cells(field: pa.Field) -> st.SearchStrategy[Any]:
    if field.name == "v":
        return _SMALL_INTEGERS
    for types in KEY_TYPES.values():
        if field.type in types:
            first, second, *others = types[field.type]
            return st.sampled_from((first, second, first, second, *others, None))
    raise ValueError(f"no values are known for a column of type {field.type}")


def _running(gaps: list[int]) -> list[int]:
    """Timestamps from gaps; they start before 1970."""
    times, now = [], -2
    for gap in gaps:
        now += gap
        times.append(now)
    return times


def _lists_of(pool: tuple[str, ...], n_drawn: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(pool), min_size=n_drawn, max_size=n_drawn)


@st.composite
def _conditions(draw: st.DrawFn, items: list[_Item]) -> list[tuple[int, str]]:
    """Conditions, each with the number of the last item that it reads; among many items often a chain of keys."""
    conditions = []
    if len(items) > 2 and draw(st.booleans()):
        for number, (left, right) in enumerate(pairwise(items)):
            column = "kj"[number % 2]
            conditions.append((number + 1, f"{left.alias}.{column} = {right.alias}.{column}"))
    for number in range(1, len(items) if not conditions or draw(_RARELY_ONE) else 0):
        other = draw(st.integers(0, number - 1))
        for pool, n_drawn in ((_PAIR_KEYS, st.sampled_from((1, 0, 1, 2))), (_PAIR_RESIDUALS, _RARELY_ONE)):
            for template in draw(_lists_of(pool, draw(n_drawn))):
                conditions.append((number, template.format(x=items[other].alias, y=items[number].alias)))
    if len(items) > 2 and draw(_RARELY_ONE):
        conditions.append((2, "{}.v + {}.v = {}.v".format(*(item.alias for item in items[:3]))))
    for number, item in enumerate(items):
        for template in draw(_lists_of(_FILTERS, draw(_RARELY_ONE))):
            conditions.append((number, template.format(x=item.alias)))
    return conditions


@st.composite
def _windows(draw: st.DrawFn, items: list[_Item]) -> tuple[str, list[str]]:
    """The window of the whole query, and that of each item in brackets; either may be empty, but not both."""
    n_streams = sum(item.is_stream for item in items)
    window = _filled(draw, draw(st.sampled_from((" WINDOW {length} us", "", " WINDOW {count} ROWS"))))
    windows = []
    for item in items:
        is_own = item.is_stream and (not window or draw(_RARELY_ONE) == 1)
        windows.append(draw(_brackets(n_streams == 1)) if is_own else "")
    return window, windows


@st.composite
def _brackets(draw: st.DrawFn, is_alone: bool) -> str:
    kinds = [
        "RANGE {length} us",
        "ROWS {count}",
        "PARTITION BY k ROWS {count}",
        "PARTITION BY j, v ROWS {count}",
        "NOW",
    ]
    if is_alone:
        kinds += ["UNBOUNDED", "SINCE TIMESTAMP '1970-01-01 00:00:00.000003'"]
    return f" [{_filled(draw, draw(st.sampled_from(kinds)))}]"


def _filled(draw: st.DrawFn, kind: str) -> str:
    """A kind of window with the number that it lacks."""
    if "{length}" in kind:
        return kind.format(length=draw(_LENGTHS))
    return kind.format(count=draw(_COUNTS)) if "{count}" in kind else kind


@st.composite
def _from_clause(draw: st.DrawFn, items: list[_Item], windows: list[str], conditions: list[tuple[int, str]]) -> str:
    """FROM with commas, whose conditions go to WHERE, or with JOIN … ON."""
    has_joins = len(items) > 1 and draw(st.booleans())
    text, where = "", []
    for number, (item, window) in enumerate(zip(items, windows)):
        own = [condition for last, condition in conditions if last == number]
        text += f"{'' if number == 0 else ' JOIN ' if has_joins and own else ', '}{item.name} {item.alias}{window}"
        if number and has_joins and own:
            text += f" ON {' AND '.join(own)}"
        else:
            where += own
    return text + (f" WHERE {' AND '.join(where)}" if where else "")


@st.composite
def _outputs(draw: st.DrawFn, items: list[_Item]) -> str:
    if draw(_RARELY_ONE):
        return "*"
    aliases = st.sampled_from([item.alias for item in items])
    templates = [*_OUTPUTS, *(f"{item.alias}.ts" for item in items if item.is_stream)]
    chosen = draw(st.lists(st.sampled_from(templates), min_size=1, max_size=4))
    return ", ".join(template.format(x=draw(aliases)) for template in chosen)
