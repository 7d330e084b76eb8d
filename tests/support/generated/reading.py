"""What changes amount to at instants, read as the documentation says: rows counted, or the newest of each group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

SYSTEM = ("_op", "_ts", "_expires")
_BEGINNING = -(2**63)
_TOLERANCE = 1e-9


def rows_of(table: pa.Table) -> list[tuple]:
    """Rows as values that can be counted: zeros have no sign, NaN is the same as NaN, True is not 1."""
    columns = [[_countable(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns)) if columns else [()] * table.num_rows


def read_counted(changes: pa.Table, instants: Sequence[int], has_ends: bool) -> Iterator[tuple[int, Counter]]:
    """A row is there as often as its `_op` add up to, over the changes up to the instant, while it has not expired.

    If the changes bring everything that leaves (`has_ends`), as with EMIT CHANGES, `_expires` is not looked at.
    """
    rows, ops = rows_of(changes.drop_columns(list(SYSTEM))), changes.column("_op").to_pylist()
    events = [(ts, number, ops[number]) for number, ts in enumerate(_times(changes, "_ts"))]
    if not has_ends:
        expires = changes.column("_expires").cast(pa.int64()).to_pylist()
        events += [(time, number, -ops[number]) for number, time in enumerate(expires) if time is not None]
    answer: Counter = Counter()
    events.sort(reverse=True)
    for instant in instants:
        while events and events[-1][0] <= instant:
            _, number, n_more = events.pop()
            answer[rows[number]] += n_more
        yield instant, Counter({row: n for row, n in answer.items() if n})


def read_replaced(changes: pa.Table, instants: Sequence[int], by: Sequence[int]) -> Iterator[tuple[int, Counter]]:
    """Of each group, told by the columns `by`, the newest row is there, unless it says that the group has gone."""
    rows, ops = rows_of(changes.drop_columns(list(SYSTEM))), changes.column("_op").to_pylist()
    events = sorted(((ts, number) for number, ts in enumerate(_times(changes, "_ts"))), reverse=True)
    newest: dict[tuple, tuple] = {}
    for instant in instants:
        while events and events[-1][0] <= instant:
            _, number = events.pop()
            group = tuple(rows[number][place] for place in by)
            newest.pop(group, None)
            if ops[number] > 0:
                newest[group] = rows[number]
        yield instant, Counter(newest.values())


def difference(expected: Counter, seen: Counter, is_rounded: bool) -> str | None:
    """How answers differ, in words, if they do; floats may differ in their last digits if they are rounded."""
    if expected == seen:
        return None
    missing, extra = expected - seen, seen - expected
    extra.update({row: n for row, n in seen.items() if n < 0})
    if is_rounded and len(missing) == len(extra) and min(extra.values(), default=0) > 0:
        pairs = zip(sorted(missing.elements(), key=_sort_key), sorted(extra.elements(), key=_sort_key))
        if missing.total() == extra.total() and all(all(map(_is_near, *pair)) for pair in pairs):
            return None
    return f"missing {_show(missing)}, too many {_show(extra)}"


def _countable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, bool):
        return str(value)
    return tuple(map(_countable, value)) if isinstance(value, list) else value


def _times(changes: pa.Table, name: str) -> list[int]:
    """A change without a time holds since the beginning."""
    return [_BEGINNING if time is None else time for time in changes.column(name).cast(pa.int64()).to_pylist()]


def _sort_key(row: tuple) -> tuple:
    return tuple((str(type(value)), "" if value is None else value) for value in row)


def _is_near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return one == other


def _show(rows: Counter) -> str:
    shown = [f"{n} × {row}" for row, n in list(rows.items())[:5]]
    return "{" + ", ".join(shown) + (", …" if len(rows) > 5 else "") + "}"
