"""What a declaration may say of a stream's times: the unit that integers count, and how far ahead a row may be."""

from __future__ import annotations

from sash.sql.durations import format_duration

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": None}
"""The microseconds of each unit in which integers may count. Nanoseconds are rounded down."""
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
UNLIMITED = "unlimited"
"""Stands for no limit."""
DEFAULT_AHEAD_US = 366 * 86_400_000_000
"""Longer than any stream rests, and far shorter than the way to the year 9999, or than a mistaken unit."""


def choose_ahead(declared: int | str | None, slack_us: int) -> int | None:
    """How far ahead a row may be, in microseconds, if so much or UNLIMITED was declared, or nothing; None: any.

    Raises ValueError with the reason if it is less than the slack: then a row that is late by less than the slack could
    contradict one that is not.
    """
    if declared == UNLIMITED:
        return None
    if declared is None:
        return max(DEFAULT_AHEAD_US, slack_us)
    assert isinstance(declared, int)
    if declared < slack_us:
        raise ValueError(
            f"a row may be {format_duration(declared)} ahead and {format_duration(slack_us)} late; "
            "allow it to be ahead by at least the slack"
        )
    return declared
