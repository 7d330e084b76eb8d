"""What to say of rows far ahead: why one is rejected, and that one has made nearly all that came after it late."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sash.sql.catalog import StreamInfo
from sash.sql.durations import format_duration

MASS = 10
"""Of fewer rows it says nothing if all are late."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def too_far_reason(info: StreamInfo, time_us: int, base_us: int) -> str:
    """Why a row is rejected whose time is too far ahead of `base_us`."""
    return (
        f"`{info.time}` is {show_time(time_us, info)}, more than {format_duration(info.ahead_us or 0)} ahead of what "
        f"came before ({show_time(base_us, info)}) and of what came next"
    )


class Lateness:
    """How many of the last rows of a stream came late, however few come at once."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, int]] = deque()

    def see(self, n_late: int, n_rows: int) -> None:
        """Takes note of the next rows. What came before is forgotten once there are enough without it."""
        if not n_rows:
            return
        self._recent.append((n_late, n_rows))
        while self._count()[1] - self._recent[0][1] >= MASS:
            self._recent.popleft()

    def tell(self, stream: str, mover: str | None, clock: str) -> str | None:
        """What to tell if nearly all came late. `mover` is the row that moved the clock there, if that is known."""
        n_late, n_rows = self._count()
        if n_rows < MASS or n_late * 10 < n_rows * 9:
            return None
        because = f"its clock stood at {clock}" if mover is None else f"{mover} moved its clock to {clock}"
        return (
            f"{n_late:,} of the last {n_rows:,} rows of stream `{stream}` came too late, since {because}; if that time "
            "is wrong, declare how far ahead a row may be (`ahead`), and else a larger slack"
        )

    def _count(self) -> tuple[int, int]:
        return sum(n_late for n_late, _ in self._recent), sum(n_rows for _, n_rows in self._recent)


def waiting_note(stream: str, info: StreamInfo, n_rows: int) -> str:
    """That rows are held at the end of a run."""
    ahead = format_duration(info.ahead_us or 0)
    if n_rows == 1:
        return f"1 row of `{stream}` is more than {ahead} ahead and waits for the next one to confirm it"
    return f"{n_rows:,} rows of `{stream}` are more than {ahead} ahead and wait for the next one to confirm them"


def show_time(time_us: int, info: StreamInfo) -> str:
    """A time as one of its stream reads: a timestamp, if Python has one for it, or microseconds."""
    if pa.types.is_timestamp(info.schema.field(info.time).type):
        try:
            return str((_EPOCH + timedelta(microseconds=time_us)).replace(tzinfo=None))
        except OverflowError:
            pass
    return f"{time_us} microseconds"
