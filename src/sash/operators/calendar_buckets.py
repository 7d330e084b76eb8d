"""Windows of the calendar that a row has as columns: TUMBLE by days, weeks or months of a time zone. No state.

Law:  a row is in the window with  start <= ts < end,  from ts until before end. One begins when the zone's clocks first
      show its midnight, or, where that is skipped, when they are first past it.

day in Berlin      28 March 2026        29 March, 23 hours         30 March
                   |====================|======================|=================
UTC                27th 23:00           28th 23:00             29th 22:00

Where a window begins is found out once for each, and kept; rows are then looked up among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from sash.store.batch import BEGINNING, NEVER

DAY_US = 86_400_000_000
_CYCLE_US = 146_097 * DAY_US
"""After 400 years the calendar, weekdays included, is the same again; so are the rules of zones in far times."""
_FIRST_US, _LAST_US = -573_000 * DAY_US, 2_560_000 * DAY_US
"""Between these, from the year 401 up to 8979, Python knows the times of zones."""
_AROUND = np.arange(-2, 4)
"""By how many windows the zone's clocks may differ from those of UTC, and where the last of them ends."""


@dataclass(frozen=True, slots=True)
class CalendarBuckets:
    """Windows of `count` times `unit`, `day`, `week` or `month`, of a zone, in columns `names` of `type`."""

    unit: str
    count: int
    zone: str
    names: tuple[str, str]
    type: pa.DataType

    def __post_init__(self) -> None:
        assert self.unit in ("day", "week", "month")
        assert self.count > 0

    def spread(self, rows: pa.Table, ts: np.ndarray) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """The rows with the start and end of their window; their times, and when each leaves."""
        edges = self._edges(ts)
        places = np.searchsorted(edges, ts, "right")
        starts, ends = edges[places - 1], edges[places]
        for name, times in zip(self.names, (starts, ends), strict=True):
            rows = rows.append_column(name, pa.array(times).cast(self.type))
        return rows, ts, ends

    def _edges(self, ts: np.ndarray) -> np.ndarray:
        """Where the windows of these times begin and end, in order."""
        guessed = np.unique(self._numbers(ts))
        numbers = np.unique(guessed[:, None] + _AROUND).tolist()
        return np.unique(np.array([find_start(self.unit, self.count, self.zone, each) for each in numbers], np.int64))

    def _numbers(self, ts: np.ndarray) -> np.ndarray:
        """The windows that times would be in if the zone were UTC."""
        if self.unit == "month":
            return ts.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64) // self.count
        days = ts // DAY_US
        return days // self.count if self.unit == "day" else (days + 3) // 7 // self.count


@lru_cache(maxsize=65_536)
def find_start(unit: str, count: int, zone: str, number: int) -> int:
    """When a window begins, in microseconds."""
    if unit == "month":
        day = int(np.datetime64(number * count, "M").astype("datetime64[D]").astype(np.int64))
    else:
        day = number * count * 7 - 3 if unit == "week" else number * count
    midnight_us = day * DAY_US
    far_us = max(0, -(-(midnight_us - _LAST_US) // _CYCLE_US)) + min(0, (midnight_us - _FIRST_US) // _CYCLE_US)
    start_us = _first_instant(midnight_us - far_us * _CYCLE_US, ZoneInfo(zone)) + far_us * _CYCLE_US
    return min(max(start_us, BEGINNING), NEVER)


def _first_instant(midnight_us: int, zone: ZoneInfo) -> int:
    """When a zone's clocks first show a time, or, where they skip it, a later one."""
    shown = datetime(1970, 1, 1) + timedelta(microseconds=midnight_us)
    begin = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
    first, second = ((shown.replace(tzinfo=zone, fold=fold) - begin) // timedelta(microseconds=1) for fold in (0, 1))
    if first <= second:
        return first
    early, late = second, first  # skipped: between these the clocks jump over it
    while late - early > 1:
        middle = (early + late) // 2
        is_past = (begin + timedelta(microseconds=middle)).astimezone(zone).replace(tzinfo=None) >= shown
        early, late = (early, middle) if is_past else (middle, late)
    return late
