"""The windows that a stream can have in FROM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

WINDOW_COLUMNS = ("window_start", "window_end")
"""What rows of a `HopWindow` or `SessionWindow` have beside their own columns."""

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


TableWindow: TypeAlias = HopWindow | SessionWindow
"""Windows that rows have as columns."""
Window: TypeAlias = TimeWindow | HopWindow | SessionWindow | RowsWindow | UnboundedWindow | SinceWindow
