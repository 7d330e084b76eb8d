"""Lengths of time as messages and EXPLAIN word them."""

from __future__ import annotations

UNITS = (
    ("week", 604_800_000_000),
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1_000),
    ("microsecond", 1),
)


def format_duration(us: int) -> str:
    """A length of time in the largest units that say it exactly."""
    parts: list[str] = []
    for unit, size in UNITS:
        count, us = divmod(us, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 seconds"
