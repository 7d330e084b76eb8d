"""Instants and lengths of time as users give them, in microseconds as Sash keeps them.

What can be understood in one way only is taken; a number of unknown unit or a day, which is no instant, is not.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TypeAlias

import duckdb
import numpy as np

from sash.errors import BindError
from sash.sql import duck
from sash.sql.windows import MAX_LENGTH, parse_interval
from sash.store.batch import BEGINNING, NEVER

Moment: TypeAlias = "int | str | datetime | np.datetime64"
Length: TypeAlias = "str | timedelta | np.timedelta64"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FINE = ("ns", "ps", "fs", "as")
_SECOND = 1_000_000
_UNITS_US = {
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("us", *_FINE))},
    "ms": Fraction(1000),
    "s": Fraction(_SECOND),
    "m": Fraction(60 * _SECOND),
    "h": Fraction(3600 * _SECOND),
    "D": Fraction(86_400 * _SECOND),
    "W": Fraction(604_800 * _SECOND),
}
"""The microseconds of NumPy's units, but for months and years, whose length varies."""


def moment_us(moment: Moment) -> int:
    """An instant in microseconds since 1970: a datetime, by default in UTC, its text, or the microseconds themselves.

    What is finer than a microsecond is cut off, so that never more is declared complete than was said.
    """
    if isinstance(moment, int | np.integer) and not isinstance(moment, bool):
        return _in_range(int(moment), moment)
    if isinstance(moment, datetime):
        moment = getattr(moment, "to_datetime64", lambda: moment)()  # pandas' reach further than Python's
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(moment, np.datetime64) and not np.isnat(moment):
        return _numpy_moment_us(moment)
    if isinstance(moment, str):
        try:
            us = duck.timestamp_us(moment)
        except duckdb.Error:
            us = None
        if us is not None:  # as of 'infinity'
            return _in_range(us, moment)
    raise BindError(
        f"`{moment!r}` is no instant; give a datetime, a text such as '2026-01-01 12:00:00', or whole microseconds "
        "since 1970"
    )


def _in_range(us: int, moment: Moment) -> int:
    if not BEGINNING < us < NEVER:
        raise _beyond(moment)
    return us


def _beyond(moment: Moment) -> BindError:
    return BindError(
        f"the time {moment} is no time: times lie between {BEGINNING + 1} and {NEVER - 1} microseconds since 1970"
    )


def _numpy_moment_us(moment: np.datetime64) -> int:
    """NumPy does not tell when what it converts is out of range; then it does not come back."""
    us = moment.astype("datetime64[us]")
    if np.datetime_data(moment.dtype)[0] not in _FINE and us.astype(moment.dtype) != moment:
        raise _beyond(moment)
    return _in_range(int(us.astype(np.int64)), moment)


def length_us(length: Length | float, name: str) -> int:
    """A length of time in microseconds: a text such as "5 seconds", or a timedelta; `name` says of what.

    A timedelta that is finer is rounded up, so that nothing is late that would not be. Zero needs no unit.
    """
    if isinstance(length, str):
        return parse_interval(length)
    us = _timedelta_us(length)
    if us is not None:
        if not 0 <= us < MAX_LENGTH:
            raise BindError(f"`{name}` is {length}; give a length of time from zero to {MAX_LENGTH} microseconds")
        return us
    if isinstance(length, int | float | np.number) and not isinstance(length, bool) and length == 0:
        return 0
    raise BindError(
        f"`{name}` is {length!r}, which does not say of which unit; give a text such as '5 seconds', or a timedelta"
    )


def _timedelta_us(length: Length | float) -> int | None:
    """None if it is none, or does not say how long it is."""
    if isinstance(length, np.timedelta64) and not np.isnat(length):
        unit, n_units = np.datetime_data(length.dtype)
        if unit not in _UNITS_US:
            return None
        return math.ceil(int(length.astype(np.int64)) * n_units * _UNITS_US[unit])
    if isinstance(length, timedelta) and length == length:  # pandas' NaT is one that does not equal itself
        return length // _MICROSECOND + bool(length % _MICROSECOND)
    return None
