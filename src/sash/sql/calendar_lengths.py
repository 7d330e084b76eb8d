"""Lengths that the calendar says: `1 month`, or `1 day` in a time zone, which has 23 to 25 hours."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, available_timezones

from sash.errors import suggest

_UNITS = {
    unit: known
    for known, units in (
        (("day", 1), "d day days"),
        (("week", 1), "w week weeks"),
        (("month", 1), "mon mons month months"),
        (("month", 3), "quarter quarters"),
        (("month", 12), "y yr yrs year years"),
    )
    for unit in units.split()
}
_AMOUNT = re.compile(r"\s*\+?\s*(\d+)\s*([^\W\d_]+)\s*")
_VARYING = re.compile(r"\b(mons?|months?|quarters?|y|yrs?|years?)\b", re.IGNORECASE)
_LENGTH = re.compile(r"\s*[-+.\d]")
MAX_COUNT = 10_000
"""The most days, weeks or months that a window may have."""


def has_months(words: str) -> bool:
    """Whether a length has units in it that vary everywhere."""
    return bool(_VARYING.search(re.sub(r"[\d.]+", " ", words)))


def read_calendar(words: str) -> tuple[str, int] | None:
    """The unit, `day`, `week` or `month`, and how many of them a length is; None if it is no whole number of one unit
    of the calendar.
    """
    amount = _AMOUNT.fullmatch(words)
    if amount is None or amount[2].lower() not in _UNITS:
        return None
    unit, times = _UNITS[amount[2].lower()]
    count = int(amount[1]) * times
    return (unit, count) if 1 <= count <= MAX_COUNT else None


def is_zone(text: str) -> bool:
    """Whether a string is meant to be a time zone, and no length."""
    return not _LENGTH.match(text)


def find_mistake_in_zone(name: str) -> str | None:
    """What is wrong with the name of a time zone; None if there is one of that name."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return f"there is no time zone `{name}`; {suggest(name, available_timezones())}"
    return None
