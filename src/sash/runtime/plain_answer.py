"""The plain relational answer at an instant, made of changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sash.errors import BindError, PlanError
from sash.operators.living_rows import SYSTEM, find_living, times_of
from sash.runtime.moments import Moment, moment_us
from sash.store.batch import BEGINNING, EXPIRES, OP, TS
from sash.store.changes_reading import ANSWER, ChangesReading

Groups: TypeAlias = Sequence[str] | bool | None
"""How changes are to be read: by group, told by columns; False: rows are counted; None: as the changes say."""

_TIMES = (pa.types.is_timestamp, pa.types.is_int64, pa.types.is_null)
_SYSTEM_TYPES = {OP: (pa.types.is_integer,), TS: _TIMES, EXPIRES: _TIMES}


def plain_answer(changes: pa.Table, at: Moment | None = None, groups: Groups = None) -> pa.Table:
    """The rows that are in the answer at an instant, as often as they are, without Sash's own columns.

    Without `at`: at the newest instant up to which the changes are final, if they know it, or else their newest `_ts`.
    """
    changes = _with_whole_times(changes)
    reading = choose_reading(changes.schema, groups)
    instant = _newest_us(changes, reading) if at is None else known_instant(at, reading.final_us, changes.schema)
    return rows_at(changes, instant, reading)


def rows_at(changes: pa.Table, instant: int, reading: ChangesReading) -> pa.Table:
    """The rows that are in the answer at an instant, in microseconds."""
    living = find_living(changes, instant, reading.replaced_by)
    told = {ANSWER: show_instant(instant, changes.schema.field(TS).type).encode()}
    return changes.drop_columns(list(SYSTEM)).take(pa.array(living)).replace_schema_metadata(told)


def choose_reading(
    schema: pa.Schema, groups: Groups, remedy: str = "pass the table as Sash returned it"
) -> ChangesReading:
    """How changes of this schema are to be read. Raises BindError if that cannot be known, or is not possible."""
    for name in SYSTEM:
        if name not in schema.names:
            raise BindError(f"the table has no column `{name}`, so it does not hold changes; {remedy}")
        type_ = schema.field(name).type
        if not any(is_such(type_) for is_such in _SYSTEM_TYPES[name]):
            raise BindError(f"the column `{name}` of the table is {type_}, so it does not hold changes; {remedy}")
    told = ChangesReading.of(schema)
    reading = told if groups is None else ChangesReading(_named(groups), told.final_us if told else None)
    if reading is None:
        raise BindError(
            f"the table does not say whether the newest row of a group replaces the older one; {remedy}, or say it, as "
            "EXPLAIN does: `groups=['column', …]`, or `groups=False` if rows are counted"
        )
    for name in reading.replaced_by or ():
        if name not in schema.names:
            raise BindError(f"the table has no column `{name}`, which tells groups apart; {remedy}")
    return reading


def known_instant(at: Moment, final_us: int | None, schema: pa.Schema) -> int:
    """An instant that a user asks for. Raises PlanError if what happens until then is not all known."""
    instant = moment_us(at)
    if final_us is not None and instant > final_us:
        asked, final = (show_instant(us, schema.field(TS).type) for us in (instant, final_us))
        raise PlanError(
            f"the answer at {asked} is not known: the changes are final up to {final}; ask for an instant up to then"
        )
    return instant


def show_instant(us: int, time_type: pa.DataType) -> str:
    """A time as people read it, by the type in which a query tells time."""
    if us <= BEGINNING + 1:
        return "the beginning"
    if not pa.types.is_timestamp(time_type):
        return str(us)
    return str(np.datetime64(us, "us")).replace("T", " ").removesuffix(".000000")


def newest_ts(changes: pa.Table) -> int:
    """The newest time of a change; the beginning of time if none has a time."""
    return int(times_of(changes, TS, BEGINNING).max(initial=BEGINNING))


def _with_whole_times(changes: pa.Table) -> pa.Table:
    """With integers for floats, which pandas makes of integers among which one is missing."""
    for name in (TS, EXPIRES):
        idx = changes.schema.get_field_index(name)
        if idx >= 0 and pa.types.is_floating(changes.schema.field(idx).type):
            with suppress(pa.ArrowInvalid):
                changes = changes.set_column(idx, name, changes.column(idx).cast(pa.int64()))
    return changes


def _newest_us(changes: pa.Table, reading: ChangesReading) -> int:
    return newest_ts(changes) if reading.final_us is None else reading.final_us


def _named(groups: Sequence[str] | bool) -> tuple[str, ...] | None:
    if groups is False:
        return None
    if groups is True or isinstance(groups, str):
        raise BindError(f"`groups` is {groups!r}; give a list of columns, or False if rows are counted")
    return tuple(groups)
