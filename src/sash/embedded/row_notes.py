"""What whoever pushes rows should be told of them, once for each stream and kind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from sash.io.time_column import likely_unit, suspicion
from sash.io.timed import IDENTITY
from sash.runtime.lateness import Lateness, show_time
from sash.sql.catalog import StreamInfo

REASON = "_reason"
"""The column that says why a row was rejected."""
REJECTED = "rejected"
"""The kind of notes about rejected rows."""


class Notes:
    """Notes in the making."""

    def __init__(self, streams: Mapping[str, StreamInfo]):
        self._streams = streams
        self._notes: dict[tuple[str, str], str | None] = {}
        self._rejects: dict[str, tuple[int, str]] = {}
        """By stream, how many rows were rejected since that was told, and the reason of the first."""
        self._movers: dict[str, tuple[int, str]] = {}
        """By stream, to when its clock came, and which row moved it there."""
        self._lateness = {name: Lateness() for name in streams}

    def take(self, but: str = "") -> list[str]:
        """What has not been told yet, but for one kind."""
        for stream, (n_rows, reason) in self._rejects.items():
            self._add(
                REJECTED,
                stream,
                f"{rejection(stream, n_rows, reason)}; such rows are kept apart, with the reason of each",
            )
        self._rejects = {}
        notes = [note for (kind, _), note in self._notes.items() if note is not None and kind != but]
        if notes:
            self._notes = dict.fromkeys(self._notes)
        return notes

    def see_first(self, stream: str, rows: pa.Table, n_before: int) -> None:
        """Looks at the very first row: does it count microseconds?"""
        info = self._streams[stream]
        if n_before or not rows.num_rows or not pa.types.is_int64(info.schema.field(info.time).type):
            return
        first = rows.column(info.time)[0].as_py()
        if unit := likely_unit(first, info):
            self._add("unit", stream, suspicion(stream, first, unit))

    def see_rejects(self, stream: str, n_rows: int, reason: str) -> None:
        """Rows that were rejected, and the reason of the first."""
        n_before, first = self._rejects.get(stream, (0, reason))
        self._rejects[stream] = n_before + n_rows, first

    def see_mover(self, stream: str, rows: pa.Table, ts: np.ndarray, numbers: np.ndarray, newest_us: int) -> None:
        """Remembers which row has moved the clock last: one of these, which are in time, or one that had been held."""
        place = int((ts == newest_us).argmax()) if len(ts) else 0
        if not len(ts) or ts[place] != newest_us:
            row = "a row that had been held"
        elif IDENTITY[0].name in rows.column_names:
            row = f"{rows.column(IDENTITY[0].name)[place]}, line {rows.column(IDENTITY[1].name)[place]},"
        else:
            row = f"row {numbers[place]}"
        self._movers[stream] = newest_us, row

    def see_late(self, stream: str, n_late: int, n_rows: int, base_us: int) -> None:
        """How many of the next rows were late, for a stream that has come to `base_us`."""
        self._lateness[stream].see(n_late, n_rows)
        moved_us, row = self._movers.get(stream, (None, None))
        mover = row if moved_us == base_us else None
        if n_late and (note := self._lateness[stream].tell(stream, mover, show_time(base_us, self._streams[stream]))):
            self._add("late", stream, note)

    def forget(self) -> None:
        """Goes on where others have seen the rows so far."""
        self._movers = {}

    def _add(self, kind: str, stream: str, note: str) -> None:
        self._notes.setdefault((kind, stream), note)


def rejections(rejected: Mapping[str, list[pa.Table]]) -> list[str]:
    """Of a run that is over: how many rows of each stream were rejected, and why the first."""
    return [
        rejection(name, sum(table.num_rows for table in tables), str(tables[0].column(REASON)[0]))
        for name, tables in rejected.items()
        if tables
    ]


def rejection(stream: str, n_rows: int, reason: str) -> str:
    """That rows were rejected, and the reason of the first."""
    if n_rows == 1:
        return f"a row of stream `{stream}` was rejected: {reason}"
    return f"{n_rows:,} rows of stream `{stream}` were rejected; the first: {reason}"
