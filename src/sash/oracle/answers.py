"""What changes amount to at an instant. There are two ways to read them:

    rows are counted       a row is there as often as its `_op` says in sum, over the changes with
                           `_ts <= T < _expires`; with EMIT CHANGES everything that leaves has a -1 row, and `_expires`
                           need not be looked at
    rows are replaced      of each group the newest row is there, unless its `_op` is -1; the way to read a query with
                           GROUP BY (see `replaced_by`)

A change without `_ts` holds since the beginning.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sash.oracle.row_keys import is_float_key, is_nested_key, positive_zero, row_keys
from sash.store.batch import BEGINNING, EXPIRES, OP, TS

SYSTEM = (OP, TS, EXPIRES)
TOLERANCE = 1e-9

Answer: TypeAlias = Counter[tuple]
"""The rows of an answer, by their keys (see `row_key`), with how often each is there."""

_Event: TypeAlias = tuple[int, int, int]
"""When it happens, the number of the row it happens to, and how often the row is there more."""


def answer_at(
    changes: pa.Table, instants: Iterable[int], emit_changes: bool = False, replaced_by: Sequence[int] | None = None
) -> dict[int, Answer]:
    """What the changes amount to at each instant, as rows with how often each is there.

    With `emit_changes`, `_expires` is not looked at; that reading holds up to the end of the run only. `replaced_by`
    are the columns whose values tell which older row a row replaces; without it rows are counted.
    """
    walked = walk_answers(changes, sorted(set(instants)), emit_changes, replaced_by)
    return {instant: Counter(answer) for instant, answer in walked}


def walk_answers(
    changes: pa.Table, instants: Iterable[int], emit_changes: bool = False, replaced_by: Sequence[int] | None = None
) -> Iterator[tuple[int, Answer]]:
    """`answer_at` for instants in ascending order, one by one. The answer that is given changes with the next step."""
    rows = row_keys(changes.drop_columns(list(SYSTEM)))
    if replaced_by is None:
        events = _counted(changes, emit_changes)
    else:
        events = _replaced(changes, [tuple(row[idx] for idx in replaced_by) for row in rows])
    answer: Answer = Counter()
    done = 0
    for instant in instants:
        while done < len(events) and events[done][0] <= instant:
            _, number, times = events[done]
            answer[rows[number]] += times
            if not answer[rows[number]]:
                del answer[rows[number]]
            done += 1
        yield instant, answer


def differences(expected: Answer, seen: Answer, is_rounded: bool = False) -> tuple[Answer, Answer]:
    """The rows that are missing and those that are too many; see `TOLERANCE` for what `is_rounded` lets pass."""
    if expected == seen:
        return Counter(), Counter()
    counts = defaultdict(int, expected)
    for row, n in seen.items():
        counts[row] -= n
    missing = Counter({row: n for row, n in counts.items() if n > 0})
    extra = Counter({row: -n for row, n in counts.items() if n < 0})
    return _without_near(missing, extra) if is_rounded else (missing, extra)


def positive_zeros(table: pa.Table) -> pa.Table:
    """The table with 0.0 for -0.0: they are equal, so that an operator that looks for equal rows may show either."""
    for idx, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(idx, field, pc.add(table.column(idx), pa.scalar(0.0, field.type)))
        elif pa.types.is_nested(field.type):
            values = [positive_zero(value) for value in table.column(idx).to_pylist()]
            table = table.set_column(idx, field, pa.array(values, field.type))
    return table


def _counted(changes: pa.Table, emit_changes: bool) -> list[_Event]:
    ops = changes.column(OP).to_pylist()
    enters, expires = _times(changes, TS), _times(changes, EXPIRES)
    events = [(BEGINNING if ts is None else ts, number, op) for number, (ts, op) in enumerate(zip(enters, ops))]
    if not emit_changes:
        events += [(end, number, -op) for number, (end, op) in enumerate(zip(expires, ops)) if end is not None]
    return sorted(events)


def _replaced(changes: pa.Table, groups: list[tuple]) -> list[_Event]:
    ops = changes.column(OP).to_pylist()
    newest: dict[tuple, int] = {}
    events = []
    entered = sorted((BEGINNING if ts is None else ts, number) for number, ts in enumerate(_times(changes, TS)))
    for ts, number in entered:
        if groups[number] in newest:
            events.append((ts, newest.pop(groups[number]), -1))
        if ops[number] > 0:
            newest[groups[number]] = number
            events.append((ts, number, 1))
    return events


def _times(changes: pa.Table, name: str) -> list[int | None]:
    column = changes.column(name)
    type = column.type
    times = column.cast(pa.timestamp("us", type.tz)) if pa.types.is_timestamp(type) else column
    return times.cast(pa.int64()).to_pylist()


def _without_near(missing: Answer, extra: Answer) -> tuple[Answer, Answer]:
    """Less the pairs of rows that differ only as far as rounding may."""
    by_rest = [_by_rest(missing), _by_rest(extra)]
    for rest in by_rest[0].keys() & by_rest[1].keys():
        for one, other in zip(*(sorted(side[rest].elements()) for side in by_rest)):
            if all(map(_is_near, one, other)):
                missing[one] -= 1
                extra[other] -= 1
    return +missing, +extra


def _by_rest(rows: Answer) -> dict[tuple, Answer]:
    """Rows by their values that are not floats."""
    grouped: dict[tuple, Answer] = defaultdict(Counter)
    for row, n in rows.items():
        grouped[tuple(map(_without_floats, row))][row] = n
    return grouped


def _without_floats(key: tuple) -> tuple | None:
    if is_nested_key(key):
        return tuple(map(_without_floats, key[1]))
    return None if is_float_key(key) else key


def _is_near(one: tuple, other: tuple) -> bool:
    """Of two keys that are the same without their floats."""
    if is_nested_key(one):
        return all(map(_is_near, one[1], other[1]))
    if one == other or not is_float_key(one):
        return one == other
    return math.isclose(float(one[2]), float(other[2]), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
