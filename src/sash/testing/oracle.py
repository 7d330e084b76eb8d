"""The snapshot law, checked by DuckDB: at every instant the changes amount to the plain query over the windows.

One SQL answers for all instants at once. Each source is joined with the instants at which its rows are in their
windows; the query then runs on what has the same instant.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from sash.frames import table_catalog
from sash.operators.changes import read_times
from sash.sql import duck
from sash.sql.bind import bind
from sash.sql.parse import parse_query
from sash.sql.query import BoundQuery, CountWindow, SinceWindow, Source, StreamInfo, TimeWindow
from sash.store.batch import EXPIRES, OP, TS
from sash.testing.literals import draw, write_cell
from sash.testing.reference import (
    Tables,
    accept,
    last_instant,
    name_columns,
    row_keys,
    select_sql,
    total_order,
)

INSTANT = "_instant"
_SYSTEM = (OP, TS, EXPIRES)
_MAX_SHOWN = 10


def bind_frames(text: str, frames: Mapping[str, Any]) -> tuple[BoundQuery, dict[str, pa.Table]]:
    """A query as `sash.sql` would understand it, and the rows that count: those that do not come too late."""
    catalog, streams, relations = table_catalog(frames)
    return bind(parse_query(text), catalog), {**accept(streams, catalog), **relations}


def interesting_instants(bound: BoundQuery, tables: Tables) -> list[int]:
    """When the answer may change, and the instants right before and after."""
    points: set[int] = set()
    for source in bound.sources:
        if isinstance(source.info, StreamInfo):
            ts = read_times(tables[source.name].column(source.info.time)).tolist()
            points.update(ts)
            match source.window:
                case TimeWindow(length_us):
                    points.update(t + length_us for t in ts)
                case SinceWindow(since_us):
                    points.add(since_us)
    return sorted({point + step for point in points for step in (-1, 0, 1)})


def snapshot(bound: BoundQuery, tables: Tables, instants: Iterable[int]) -> pa.Table:
    """The answer at each instant: the query's columns after `_instant`, equal rows as often as they are there."""
    streams = [source for source in bound.sources if source.is_stream]
    items = [_windowed(source) if source.is_stream else f'"{source.alias}"' for source in bound.sources]
    same_instant = [f'"{streams[0].alias}.#instant" = "{other.alias}.#instant"' for other in streams[1:]]
    sql = select_sql(bound, [f'"{streams[0].alias}.#instant"'], items)
    with duck.connect() as connection:
        connection.register("#instants", pa.table({"instant": pa.array(instants, pa.int64())}))
        for source in bound.sources:
            connection.register(source.alias, _numbered(source, tables[source.name]))
        answer = connection.sql(" AND ".join([sql, *same_instant])).to_arrow_table()
    return answer.rename_columns([INSTANT, *(output.name for output in bound.outputs)])


def answer_at(changes: pa.Table, instants: Iterable[int], emit_changes: bool = False) -> dict[int, Counter]:
    """What the changes amount to at each instant, as rows with how often each is there.

    With EMIT CHANGES everything that leaves has a -1 row, so `_expires` is not looked at; that reading holds up to the
    end of the run only.
    """
    rows = row_keys(changes.drop_columns(list(_SYSTEM)))
    ops = changes.column(OP).to_pylist()
    enters, expires = (changes.column(name).cast(pa.int64()).to_pylist() for name in (TS, EXPIRES))
    answers: dict[int, Counter] = {}
    for instant in instants:
        answers[instant] = answer = Counter()
        for row, op, start, end in zip(rows, ops, enters, expires):
            if start <= instant and (emit_changes or end is None or instant < end):
                answer[row] += op
    return {instant: Counter({row: n for row, n in answer.items() if n}) for instant, answer in answers.items()}


def assert_snapshot(text: str, changes: pa.Table, /, **frames: Any) -> None:
    """Fails, saying at which instant and in which rows, unless the changes answer the query over the frames."""
    check_snapshot(*bind_frames(text, frames), changes)


def check_snapshot(bound: BoundQuery, tables: Tables, changes: pa.Table) -> None:
    """`assert_snapshot` of a query that is bound already, over the rows that count."""
    instants = interesting_instants(bound, tables)
    expected = _by_instant(snapshot(bound, tables, instants), instants)
    _compare(bound, expected, answer_at(changes, instants))
    if bound.emit_changes:
        end = last_instant(bound, tables)
        instants = [instant for instant in instants if instant <= end]
        _compare(bound, expected, answer_at(changes, instants, emit_changes=True))


def assert_changes(seen: pa.Table, expected: pa.Table) -> None:
    """Fails, with the lines that differ, unless both hold the same rows in the same order; NaN is the same as NaN."""
    seen, expected = _in_microseconds(seen), _in_microseconds(expected)
    assert seen.schema == expected.schema, f"columns differ: {seen.schema} is not {expected.schema}"
    if row_keys(seen) != row_keys(expected):
        lines = difflib.ndiff(draw(expected).splitlines(), draw(seen).splitlines())
        raise AssertionError("the changes differ (- expected, + seen):\n" + "\n".join(lines))


def _in_microseconds(changes: pa.Table) -> pa.Table:
    for name in (TS, EXPIRES):
        times = changes.column(name).cast(pa.int64())
        changes = changes.set_column(changes.schema.get_field_index(name), name, times)
    return changes


def _windowed(source: Source) -> str:
    """A stream as an item of FROM: every row at every instant at which it is in its window."""
    alias, window = source.alias, source.window
    instant, ts = '"#instants".instant', f'"{alias}"."{alias}.#ts"'
    held = f"{ts} <= {instant}"
    if isinstance(window, TimeWindow):
        held += f" AND {instant} < {ts} + {window.length_us}"
    elif isinstance(window, SinceWindow):
        held += f" AND {ts} >= {window.since_us}"
    last = ""
    if isinstance(window, CountWindow):
        by = ", ".join([instant, *(f'"{alias}.{name}"' for name in window.partition_by)])
        # Not row_number(): where its bound picks rows, DuckDB rewrites them through an aggregate that loses -0.0.
        later = f'PARTITION BY {by} ORDER BY "{alias}.#place" DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING'
        last = f" QUALIFY count(*) OVER ({later}) < {window.n_rows}"
    rows = f'SELECT {instant} AS "{alias}.#instant", "{alias}".* FROM "#instants" JOIN "{alias}" ON {held}{last}'
    return f"({rows})"


def _numbered(source: Source, table: pa.Table) -> pa.Table:
    """The rows of a source with their time in microseconds and their place in the stream's total order."""
    if not isinstance(source.info, StreamInfo):
        return name_columns(source, table, "#place")
    ts = read_times(table.column(source.info.time))
    order = total_order(table, ts.tolist(), source.info.tie)
    places = dict(zip(order, range(len(order))))
    table = table.append_column("#ts", pa.array(ts))
    return name_columns(source, table, "#place", [places[number] for number in range(len(order))])


def _by_instant(answer: pa.Table, instants: Iterable[int]) -> dict[int, Counter]:
    counted: dict[int, Counter] = {instant: Counter() for instant in instants}
    for instant, row in zip(answer.column(INSTANT).to_pylist(), row_keys(answer.drop_columns([INSTANT]))):
        counted[instant][row] += 1
    return counted


def _compare(bound: BoundQuery, expected: dict[int, Counter], seen: dict[int, Counter]) -> None:
    wrong = [instant for instant, answer in seen.items() if answer != expected[instant]]
    if not wrong:
        return
    first = wrong[0]
    lines = [f"the changes do not amount to the query's answer at {len(wrong)} of {len(seen)} instants", bound.text]
    lines.append(f"at instant {first}:")
    lines += _describe(bound, "missing", _difference(expected[first], seen[first]))
    lines += _describe(bound, "too many", _difference(seen[first], expected[first]))
    raise AssertionError("\n".join(lines))


def _difference(many: Counter, few: Counter) -> dict[tuple, int]:
    counts = defaultdict(int, many)
    for row, n in few.items():
        counts[row] -= n
    return {row: n for row, n in counts.items() if n > 0}


def _describe(bound: BoundQuery, what: str, rows: dict[tuple, int]) -> list[str]:
    names = [output.name for output in bound.outputs]
    lines = []
    for row, n in sorted(rows.items())[:_MAX_SHOWN]:
        cells = ", ".join(f"{name} = {write_cell(key[-1] if key[0] else None)}" for name, key in zip(names, row))
        lines.append(f"  {what} {n} × {cells}")
    return lines + ([f"  {what} {len(rows) - _MAX_SHOWN} rows more"] if len(rows) > _MAX_SHOWN else [])
