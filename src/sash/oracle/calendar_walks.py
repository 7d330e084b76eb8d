"""What windows of the calendar mean, word by word: a zone's clocks are watched, minute by minute, around midnight."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa

from sash.operators.changes import read_times
from sash.sql.catalog import StreamInfo, window_time_type
from sash.sql.window_kinds import WINDOW_COLUMNS, CalendarWindow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def spread_periods(info: StreamInfo, window: CalendarWindow, table: pa.Table) -> pa.Table:
    """The rows of a stream, each with the start and end of the window that holds its time."""
    edges = [_edges_around(window, ts) for ts in read_times(table.column(info.time)).tolist()]
    for name, times in zip(WINDOW_COLUMNS, zip(*edges) if edges else ((), ())):
        table = table.append_column(name, pa.array(times, pa.int64()).cast(window_time_type(info)))
    return table


def _edges_around(window: CalendarWindow, ts: int) -> tuple[int, int]:
    number = _number_of(window, (_EPOCH + ts * _MICROSECOND).date()) - 2
    while _start(window, number + 1) <= ts:
        number += 1
    return _start(window, number), _start(window, number + 1)


def _number_of(window: CalendarWindow, day: date) -> int:
    days = (day - _EPOCH.date()).days
    counted = {"day": days, "week": (days + 3) // 7, "month": 12 * (day.year - 1970) + day.month - 1}
    return counted[window.unit] // window.count


@lru_cache(maxsize=4096)
def _start(window: CalendarWindow, number: int) -> int:
    """The first instant at which the clocks of the zone show the first midnight of a window, or are past it."""
    count, zone = number * window.count, ZoneInfo(window.zone)
    midnight = datetime(1970, 1, 1) + timedelta(days=count * 7 - 3 if window.unit == "week" else count)
    if window.unit == "month":
        midnight = datetime(1970 + count // 12, count % 12 + 1, 1)

    def is_past(instant: datetime) -> bool:
        return instant.astimezone(zone).replace(tzinfo=None) >= midnight

    utc, minutes = midnight.replace(tzinfo=UTC), range(-27 * 60, 27 * 60 + 1)
    minute = next(each for each in minutes if is_past(utc + timedelta(minutes=each)))
    before = utc + timedelta(minutes=minute - 1)
    second = bisect_left(range(61), True, key=lambda each: is_past(before + timedelta(seconds=each)))
    return (before + timedelta(seconds=second) - _EPOCH) // _MICROSECOND
