"""Streams and relations of generated cases: columns of every type, few values, so that rows meet, and many ties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

import sash
from support.generated.choices import Choices

NUMBER, STRING, BOOLEAN, INSTANT, LIST, NOTHING = "number", "string", "boolean", "instant", "list", "nothing"

_SMALL = (1, 2, 1, 2, 1, 2, 1, 0, 3)
_HALVES = (1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.5, -0.0, 0.0, 1.5)
_DAY = datetime(2026, 1, 31)
VALUES: Mapping[str, Mapping[pa.DataType, tuple[tuple, tuple]]] = {
    NUMBER: {
        pa.int64(): (_SMALL, (-1, 2**53 + 1)),
        pa.int32(): (_SMALL, (-1,)),
        pa.int8(): (_SMALL, (-1, 100)),
        pa.int16(): (_SMALL, (-1,)),
        pa.uint8(): (_SMALL, (200,)),
        pa.uint16(): (_SMALL, ()),
        pa.uint32(): (_SMALL, ()),
        pa.uint64(): (_SMALL, (2**64 - 1,)),
        pa.float64(): (_HALVES, (float("nan"), float("inf"), 2.0**53)),
        pa.float32(): (_HALVES, (float("nan"),)),
        pa.decimal128(4, 1): (
            (Decimal("1.0"), Decimal("2.0"), Decimal("1.0"), Decimal("2.0"), Decimal("0.5")),
            (Decimal("-1.0"),),
        ),
        pa.decimal128(9, 2): (
            (Decimal("1.00"), Decimal("2.00"), Decimal("1.00"), Decimal("2.00"), Decimal("0.50")),
            (Decimal("1.25"),),
        ),
        pa.decimal128(18, 3): (
            (Decimal("1.000"), Decimal("2.000"), Decimal("1.000"), Decimal("2.000"), Decimal("0.500")),
            (Decimal("0.125"),),
        ),
        pa.decimal128(38, 0): ((Decimal(1), Decimal(2), Decimal(0)), (Decimal(10) ** 30,)),
    },
    STRING: {pa.string(): (("a", "b", "a", "b", ""), ("it's | é", "A", "%"))},
    BOOLEAN: {pa.bool_(): ((True, False), ())},
    INSTANT: {
        pa.timestamp("us"): ((_DAY, _DAY.replace(hour=12)), (datetime(1969, 12, 31, 23),)),
        pa.date32(): ((_DAY.date(), date(2026, 2, 1)), (date(1969, 12, 31),)),
        pa.timestamp("us", "UTC"): ((_DAY.replace(tzinfo=UTC), _DAY.replace(hour=12, tzinfo=UTC)), ()),
    },
    LIST: {
        pa.list_(pa.int32()): (([1], [1, 2], []), ()),
        pa.list_(pa.int64()): (([1], [2, 1], []), ()),
    },
    NOTHING: {pa.null(): ((None,), ())},
}
"""By family and type, the usual values and the odd ones. Types of one family can be compared."""

TIMES = (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
_PLAIN = {"k": NUMBER, "v": NUMBER, "s": STRING}
_RICH = {"k": NUMBER, "v": NUMBER, "s": STRING, "b": BOOLEAN, "d": INSTANT, "l": LIST, "n": NOTHING}
_LEAST = -3
"""Times begin before 1970."""


@dataclass(frozen=True, eq=False)
class Table:
    """A stream, its rows in order of arrival, or a relation."""

    name: str
    families: Mapping[str, str]
    """Of each column."""
    rows: pa.Table
    is_stream: bool
    slack_us: int | None = None
    """None: a complete recording, in which nothing is late."""
    tie: tuple[str, ...] = ()
    ahead_us: int | None = None
    """How far ahead a row may be; None: what no row here is."""
    has_periods: bool = False
    """Of a relation: whether its columns `vf` and `vt` say when rows are valid."""

    @property
    def frame(self) -> Any:
        make = sash.stream if self.is_stream else sash.relation
        return make(self.rows, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """How it is declared."""
        if not self.is_stream:
            return {"valid_from": "vf", "valid_to": "vt"} if self.has_periods else {}
        lengths = {"slack": self.slack_us, "ahead": self.ahead_us}
        return {
            "time": "ts",
            "tie": self.tie,
            **{name: f"{length} us" for name, length in lengths.items() if length is not None},
        }

    @cached_property
    def times(self) -> list[int]:
        """When each row happened, in microseconds."""
        return self.rows.column("ts").cast(pa.int64()).to_pylist() if self.is_stream else []

    @cached_property
    def arrivals(self) -> pa.Table:
        """The rows as they are pushed: those of a recording in order of time."""
        if self.slack_us is not None:
            return self.rows
        return self.rows.take(pa.array(sorted(range(len(self.times)), key=self.times.__getitem__), pa.int64()))

    @cached_property
    def accepted(self) -> list[int]:
        """The numbers of the rows that count: those not older than one before them by more than the slack, and not too
        far ahead of both what came before them and the next row of another time.
        """
        if not self.is_stream or self.slack_us is None:
            return list(range(self.rows.num_rows))
        found, newest = [], None
        for number, time in enumerate(self.times):
            if newest is None or not self._is_too_far(number, newest):
                if newest is None or time >= newest - self.slack_us:
                    found.append(number)
                newest = time if newest is None else max(newest, time)
        return found

    def _is_too_far(self, number: int, newest: int) -> bool:
        time = self.times[number]
        following = next((each for each in self.times[number:] if each != time), time)
        return self.ahead_us is not None and time > max(newest, following) + self.ahead_us


TWIN = "t2"
"""A column that is called as items of FROM are: `t2.k` means the item, also if that stands outside of the subquery."""


def draw_tables(choices: Choices, is_plain: bool) -> dict[str, Table]:
    """One to three streams, and sometimes a relation. Plain ones have 64-bit integers and strings only."""
    time = choices.weighted(dict(zip(TIMES, (6, 2, 2)))) if not is_plain else pa.int64()
    has_odd = not is_plain and choices.chance(8)
    tables = {}
    for name in "abc"[: choices.weighted({2: 5, 1: 3, 3: 3})]:
        tables[name] = _draw_stream(choices, name, time, is_plain, has_odd)
    if choices.chance(30):
        schema = _draw_schema(choices, is_plain)
        rows = pa.table(_draw_rows(choices, schema, choices.weighted({2: 3, 3: 3, 1: 1, 0: 1}), has_odd), schema=schema)
        tables["r"] = Table("r", _families(schema), rows, is_stream=False)
        if choices.chance(50):
            tables["r"] = _with_periods(choices, tables["r"], time)
    return tables


def _with_periods(choices: Choices, table: Table, time: pa.DataType) -> Table:
    """The relation with columns that say when its rows are valid; some never are, and some are without a bound."""
    rows, families = table.rows, dict(table.families)
    begins = [choices.below(14) + _LEAST for _ in range(rows.num_rows)]
    ends = [begin + choices.one((4, 7, 12, 1, 0, -2)) for begin in begins]
    for name, values in (("vf", begins), ("vt", ends)):
        known = [None if choices.chance(12) else value for value in values]
        rows = rows.append_column(name, pa.array(known, pa.int64()).cast(time))
        families[name] = NUMBER if time == pa.int64() else INSTANT
    return replace(table, rows=rows, families=families, has_periods=True)


def _draw_schema(choices: Choices, is_plain: bool) -> pa.Schema:
    if is_plain:
        return pa.schema({name: pa.int64() if family == NUMBER else pa.string() for name, family in _PLAIN.items()})
    chosen = {name: choices.one(list(VALUES[family])) for name, family in _RICH.items()}
    # Where a row has to be told from others, these columns are refused.
    left_out = [name for name in ("l", "n") if not choices.chance(30)]
    named = {TWIN: pa.int64()} if choices.chance(12) else {}
    return pa.schema({name: type_ for name, type_ in chosen.items() if name not in left_out} | named)


def _families(schema: pa.Schema, time: pa.DataType | None = None) -> dict[str, str]:
    families = {name: _RICH.get(name, NUMBER) for name in schema.names if name != "ts"}
    if time is not None:
        families = {"ts": NUMBER if time == pa.int64() else INSTANT, **families}
    return families


def _draw_rows(choices: Choices, schema: pa.Schema, n_rows: int, has_odd: bool) -> list[pa.Array]:
    columns = []
    for field in schema:
        usual, odd = next(types[field.type] for types in VALUES.values() if field.type in types)
        values = [_draw_value(choices, usual, odd if has_odd else ()) for _ in range(n_rows)]
        columns.append(pa.array(values, field.type))
    return columns


def _draw_value(choices: Choices, usual: tuple, odd: tuple) -> Any:
    if choices.chance(5):
        return None
    return choices.one(odd) if odd and choices.chance(12) else choices.one(usual)


def _draw_stream(choices: Choices, name: str, time: pa.DataType, is_plain: bool, has_odd: bool) -> Table:
    schema = _draw_schema(choices, is_plain)
    n_rows = choices.weighted({4: 6, 6: 8, 8: 6, 5: 5, 3: 2, 2: 1, 0: 1})
    columns = _draw_rows(choices, schema, n_rows, has_odd)
    times, now = [], _LEAST
    for _ in range(n_rows):
        now += choices.one((1, 2, 0, 1, 3, 2, 5))
        times.append(now)
    slack_us = choices.weighted({None: 3, 0: 3, 2: 2, 6: 2})
    order = sorted(range(n_rows), key=[ts + _draw_delay(choices, slack_us) for ts in times].__getitem__)
    tie = choices.weighted({(): 5, ("v",): 1, ("s", "k"): 1})
    ahead_us = None
    if slack_us is not None and n_rows and choices.chance(15):
        ahead_us = slack_us + choices.below(8)
        for _ in range(1 + choices.below(2)):
            times[choices.below(n_rows)] += choices.one((9, 20, 40))
    rows = pa.table([pa.array(times, pa.int64()).cast(time), *columns], names=["ts", *schema.names])
    rows = rows.take(pa.array(order, pa.int64()))
    return Table(name, _families(schema, time), rows, True, slack_us, tie, ahead_us)


def _draw_delay(choices: Choices, slack_us: int | None) -> int:
    """By how much a row comes after its time: mostly within the slack, sometimes too late."""
    if slack_us is None:
        return choices.below(4)
    return choices.below(slack_us + 1) + (slack_us + 3 if choices.chance(4) else 0)
