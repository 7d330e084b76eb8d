"""The windows that a stream can have in FROM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

WINDOW_COLUMNS = ("window_start", "window_end")
"""What rows of a `TableWindow` have beside their own columns."""

UTC = "UTC"
DAY_US = 86_400_000_000
NOW_US = 1
"""`[NOW]` holds a tuple for its own instant only: a window of one microsecond."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A tuple with timestamp `ts` is in the window at T iff `ts <= T < ts + length_us`.

    With `slide_us` the window moves only at its multiples: at T it holds what it would at the last one not after T.
    """

    length_us: int
    slide_us: int | None = None


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """The last `n_rows` tuples of the stream, or of each partition, in the stream's total order."""

    n_rows: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HopWindow:
    """Windows of `length_us` begin every `hop_us`, of which `offset_us` is one; with equal lengths they tumble.

    A tuple is in each of them that holds its timestamp, `start <= ts < end`, once, from `ts` until before `end`, and
    has the two as columns.
    """

    length_us: int
    hop_us: int
    offset_us: int = 0
    is_final: bool = False
    """Whether rows are heard of when their window is over, and stay: EMIT ON WINDOW CLOSE."""


@dataclass(frozen=True, slots=True)
class CalendarWindow:
    """The days, weeks or months of a time zone, `count` at a time, one after the other; else as a `HopWindow`.

    They are counted from 1970 on, weeks from their Mondays. One begins when the zone's clocks first show its midnight,
    or, where that is skipped, when they are first past it.
    """

    unit: str
    """`day`, `week` or `month`."""
    count: int
    zone: str
    is_final: bool = False

    @property
    def longest_us(self) -> int:
        """No window is longer: a change of clocks may add a day."""
        years, months = divmod(self.count, 12)
        days = {"day": self.count, "week": 7 * self.count, "month": 366 * years + 31 * months}[self.unit]
        return (days + (self.zone != UTC)) * DAY_US


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Rows of a partition that follow each other by less than `gap_us` are a session: from the first, `start`, until
    `gap_us` after the last, `end`.

    At T, a tuple with `ts <= T` is in the session that it makes with the others of its partition up to T, as long as
    that is not over, `T < end`, and has the two as columns. So when another one comes, `end` moves.
    """

    gap_us: int
    partition_by: tuple[str, ...] = ()
    is_final: bool = False
    """As of a `HopWindow`."""


@dataclass(frozen=True, slots=True)
class UnboundedWindow:
    """A tuple never leaves."""


@dataclass(frozen=True, slots=True)
class SinceWindow:
    """A landmark window: tuples with `ts >= since_us`, which never leave."""

    since_us: int


TableWindow: TypeAlias = HopWindow | CalendarWindow | SessionWindow
"""Windows that rows have as columns."""
Window: TypeAlias = TimeWindow | TableWindow | RowsWindow | UnboundedWindow | SinceWindow
