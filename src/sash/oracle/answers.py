"""What changes amount to at many instants, one after the other, as `sash.operators.living_rows` reads them.

With EMIT CHANGES everything that leaves has a -1 row, and `_expires` need not be looked at.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sash.operators.living_rows import SYSTEM, lives_of
from sash.oracle.row_keys import is_float_key, is_nested_key, positive_zero, row_keys
from sash.store.batch import NEVER

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
    events = _events(changes, emit_changes, replaced_by)
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


def _events(changes: pa.Table, emit_changes: bool, replaced_by: Sequence[int] | None) -> list[_Event]:
    """When rows enter and leave, in order."""
    names = changes.drop_columns(list(SYSTEM)).column_names
    groups = None if replaced_by is None else [names[idx] for idx in replaced_by]
    since, until, counts = (each.tolist() for each in lives_of(changes, groups, looks_ahead=not emit_changes))
    events = [(start, number, n) for number, (start, n) in enumerate(zip(since, counts)) if n]
    events += [(end, number, -n) for number, (end, n) in enumerate(zip(until, counts)) if n and end < NEVER]
    return sorted(events)


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
