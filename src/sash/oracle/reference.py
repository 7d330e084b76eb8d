"""What a query means, in a few lines of Python: slow, plain, and made of nothing that Sash runs on but its parser.

    window              enters at    leaves at                                        expires at
    RANGE w, NOW        ts           ts + w                                           ts + w
    TUMBLE, HOP         ts           the window's end, once for each that holds ts    when it leaves
    SESSION             ts, and whenever its session becomes longer, until that, or its end: `session_walks`
    … ON WINDOW CLOSE   the window's end, and never leaves                            never
    RANGE w SLIDE s     the first multiple of s at or after ts, at or after ts + w    when it leaves
    ROWS n              ts           the ts of the n-th tuple after it (never, if     never
                                     there is none), of its partition if there are
    UNBOUNDED, SINCE    ts           never                                            never

    A combination of tuples that satisfies the query's condition is in the answer while all its members are in their
    windows: it enters with the last of them and leaves, and expires, with the first. Where pairs of streams have
    windows, the times of its members must be in all of them as well.

Scalar expressions are evaluated by DuckDB, over the cross product of all rows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sash.operators.changes import read_times
from sash.oracle.hop_walks import spread_rows
from sash.oracle.pair_walks import are_in_windows
from sash.oracle.row_keys import positive_zero, row_key, total_order
from sash.oracle.session_walks import session_stays
from sash.sql import duck
from sash.sql.bound_query import BoundQuery
from sash.sql.catalog import Catalog, RelationInfo, Source, StreamInfo
from sash.sql.expressions import to_duckdb
from sash.sql.table_queries import answer_table_query
from sash.sql.window_kinds import (
    WINDOW_COLUMNS,
    CalendarWindow,
    HopWindow,
    RowsWindow,
    SessionWindow,
    SinceWindow,
    TableWindow,
    TimeWindow,
    Window,
)
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, TS

Tables: TypeAlias = Mapping[str, pa.Table]
"""Rows by the name of their stream or relation."""


@dataclass(frozen=True, slots=True)
class Life:
    """In a window from `enters` until before `leaves`. `expires` is when time alone would end it."""

    enters: int
    leaves: int
    expires: int

    @property
    def is_ever(self) -> bool:
        return self.enters < self.leaves


ALWAYS = Life(BEGINNING, NEVER, NEVER)
NOT_AT_ALL = Life(NEVER, NEVER, NEVER)


@dataclass(frozen=True, slots=True)
class Combination:
    """Rows, one per source, that satisfy the condition at some instant, and the answer's row that they make."""

    life: Life
    values: tuple


def accept(streams: Tables, catalog: Catalog) -> dict[str, pa.Table]:
    """The rows of streams that count."""
    infos = {name: info for name, info in catalog.items() if isinstance(info, StreamInfo)}
    return {name: split_late(table, infos[name])[0] for name, table in streams.items()}


def split_late(table: pa.Table, info: StreamInfo) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The rows in time, the late ones, which are older than a row before them by more than the slack, and those too far
    ahead: newer by more than `ahead_us` than all in time before them, if there are any, and than the next of another
    time.
    """
    times, newest = read_times(table.column(info.time)).tolist(), BEGINNING
    verdicts = []
    for place, ts in enumerate(times):
        following = next((other for other in times[place:] if other != ts), ts)
        ahead_us = math.inf if info.ahead_us is None or newest == BEGINNING else info.ahead_us
        if ts - newest > ahead_us and ts - following > ahead_us:
            verdicts.append("too far")
        else:
            verdicts.append("in time" if ts >= newest - info.slack_us else "late")
            newest = max(newest, ts)
    found = pa.array(verdicts, pa.string())
    in_time, late, too_far = (table.filter(pc.equal(found, each)) for each in ("in time", "late", "too far"))
    return in_time, late, too_far


def find_lives(source: Source, table: pa.Table) -> list[Life]:
    """The life of each row of a source, in the order of the table."""
    if not isinstance(source.info, StreamInfo):
        return [ALWAYS] * table.num_rows
    return find_stream_lives(source.info, source.window, table)


def find_stream_lives(info: StreamInfo, window: Window | None, table: pa.Table) -> list[Life]:
    """The life of each row of a stream in a window; without one, rows never leave."""
    ts = read_times(table.column(info.time)).tolist()
    match window:
        case TimeWindow(length_us, slide_us):
            ends = [(_slid(t, slide_us), _slid(t + length_us, slide_us)) for t in ts]
            return [Life(enters, leaves, leaves) for enters, leaves in ends]
        case SessionWindow(gap_us):
            stays = session_stays(info, window, table)
            ends = [instant + gap_us for instant, _ in stays]
            if window.is_final:
                return [Life(end, NEVER, NEVER) for end in ends]
            return [Life(enters, leaves, end) for (enters, leaves), end in zip(stays, ends)]
        case HopWindow() | CalendarWindow():
            ends = read_times(table.column(WINDOW_COLUMNS[1])).tolist()
            return [Life(end, NEVER, NEVER) if window.is_final else Life(t, end, end) for t, end in zip(ts, ends)]
        case RowsWindow(n_rows, partition_by):
            return _displaced_lives(table, ts, info.tie, n_rows, partition_by)
        case SinceWindow(since_us):
            return [Life(t, NEVER, NEVER) if t >= since_us else NOT_AT_ALL for t in ts]
    return [Life(t, NEVER, NEVER) for t in ts]


def _slid(time: int, slide_us: int | None) -> int:
    """The first multiple of the slide that is not before a time."""
    return time if slide_us is None else -(-time // slide_us) * slide_us


def find_combinations(bound: BoundQuery, tables: Tables) -> list[Combination]:
    """All rows that are ever in the answer, each with its life; equal rows as often as they are there."""
    read = [_rows_read(source, tables) for source in bound.sources]
    lives = [find_lives(source, rows) for source, rows in zip(bound.sources, read)]
    times = [_times_of(source, rows) for source, rows in zip(bound.sources, read)]
    aliases = [source.alias for source in bound.sources]
    pairs = bound.window_graph.pairs if bound.window_graph else ()
    found = []
    for numbers, values in find_rows(bound, tables):
        if not are_in_windows(
            pairs, {alias: ts[number] for alias, ts, number in zip(aliases, times, numbers) if number is not None}
        ):
            continue
        members = [ALWAYS if number is None else each[number] for each, number in zip(lives, numbers)]
        life = Life(
            max(member.enters for member in members),
            min(member.leaves for member in members),
            min(member.expires for member in members),
        )
        if life.is_ever:
            found.append(Combination(life, values))
    return found


def evaluate(bound: BoundQuery, tables: Tables, instant: int) -> Counter:
    """The answer's rows at an instant, with how often each is there."""
    found = find_combinations(bound, tables)
    return Counter(row_key(one.values) for one in found if one.life.enters <= instant < one.life.leaves)


def expected_changes(bound: BoundQuery, tables: Tables) -> pa.Table:
    """All changes of a run over the tables, `_ts` and `_expires` in microseconds, in the order that Sash promises.

    That is by `_ts`, then `_op`, then the remaining columns from left to right.
    """
    end = last_instant(bound, tables)
    rows = []
    for one in find_combinations(bound, tables):
        life = one.life
        expires = None if life.expires == NEVER else life.expires
        rows.append((*one.values, 1, life.enters, expires))
        if life.leaves < life.expires or (bound.emit_changes and life.expires <= end):
            rows.append((*one.values, -1, life.leaves, expires))
    rows.sort(key=lambda row: (row[-2], row[-3], row_key(row)))
    system = [(OP, pa.int8()), (TS, pa.int64()), (EXPIRES, pa.int64())]
    schema = pa.schema([*((output.name, output.type) for output in bound.outputs), *system])
    columns = [[row[idx] for row in rows] for idx in range(len(schema))]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)


def last_instant(bound: BoundQuery, tables: Tables) -> int:
    """The end of a run: the last timestamp of any stream that the query reads."""
    streams = [source for source in bound.sources if isinstance(source.info, StreamInfo)]
    return max([BEGINNING, *(ts for source in streams for ts in _times_of(source, tables[source.name]))])


def _times_of(source: Source, table: pa.Table) -> list[int]:
    """When the rows of a stream happened; those of a relation have been there since the beginning."""
    if not isinstance(source.info, StreamInfo):
        return [BEGINNING] * table.num_rows
    return read_times(table.column(source.info.time)).tolist()


def _displaced_lives(
    table: pa.Table, ts: list[int], tie: tuple[str, ...], n_rows: int, partition_by: tuple[str, ...]
) -> list[Life]:
    partitions: dict[tuple, list[int]] = defaultdict(list)
    keys = [row_key([positive_zero(value) for value in row.values()]) for row in table.select(partition_by).to_pylist()]
    for number in total_order(table, ts, tie):
        partitions[keys[number]].append(number)
    lives = [NOT_AT_ALL] * len(ts)
    for members in partitions.values():
        for place, number in enumerate(members):
            is_displaced = place + n_rows < len(members)
            lives[number] = Life(ts[number], ts[members[place + n_rows]] if is_displaced else NEVER, NEVER)
    return lives


def find_rows(bound: BoundQuery, tables: Tables) -> list[tuple[tuple[int | None, ...], tuple]]:
    """Row numbers, one per source, and output values of the cross product's rows that satisfy the condition."""
    with duck.connect() as connection:
        for source in bound.sources:
            connection.register(source.alias, name_columns(source, _rows_read(source, tables), "#row"))
        hidden = {lookup.alias for lookup in bound.lookups if lookup.kind != "LEFT"}
        numbers = ["NULL" if source.alias in hidden else f'"{source.alias}.#row"' for source in bound.sources]
        answer = connection.sql(select_sql(bound, numbers, [_joined_items(bound)]))
        columns = [column.to_pylist() for column in answer.to_arrow_table().columns]
    n_sources = len(bound.sources)
    return [(row[:n_sources], row[n_sources:]) for row in zip(*columns)]


def _rows_read(source: Source, tables: Tables) -> pa.Table:
    """The rows of an item of FROM as a query reads them."""
    if isinstance(source.info, StreamInfo) and isinstance(source.window, TableWindow):
        return spread_rows(source.info, source.window, tables[source.name])
    if isinstance(source.info, RelationInfo) and source.info.query is not None:
        return answer_table_query(source.info, tables)
    return tables[source.name]


def _joined_items(bound: BoundQuery) -> str:
    """FROM: all items side by side, and then those that are looked up."""
    lookups = {lookup.alias for lookup in bound.lookups}
    text = " CROSS JOIN ".join(f'"{source.alias}"' for source in bound.sources if source.alias not in lookups)
    for lookup in bound.lookups:
        condition = " AND ".join(f"({to_duckdb(conjunct)})" for conjunct in lookup.conjuncts) or "TRUE"
        text += f' {lookup.kind} JOIN "{lookup.alias}" ON {condition}'
    return text


def name_columns(source: Source, table: pa.Table, number: str, numbers: Sequence[int] | None = None) -> pa.Table:
    """The table with columns called `alias.column`, and row numbers in a column `alias.number`."""
    table = table.append_column(number, pa.array(numbers or range(table.num_rows), pa.int64()))
    return table.rename_columns([f"{source.alias}.{name}" for name in table.column_names])


def select_sql(bound: BoundQuery, leading: list[str], items: list[str]) -> str:
    """The plain relational query, with further columns in front, over FROM items whose columns are `alias.column`."""
    outputs = [f"{to_duckdb(output.expr)} AS _out{idx}" for idx, output in enumerate(bound.outputs)]
    where = " AND ".join(f"({to_duckdb(conjunct)})" for conjunct in bound.conjuncts) or "TRUE"
    return f"SELECT {', '.join([*leading, *outputs])} FROM {', '.join(items)} WHERE {where}"
