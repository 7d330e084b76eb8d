"""What TUMBLE and HOP mean, word by word: of every row, the windows are walked back from the newest that holds it.

SESSION is walked through in `session_walks`, and the calendar in `calendar_walks`.
"""

from __future__ import annotations

import pyarrow as pa

from sash.operators.changes import read_times
from sash.oracle.calendar_walks import spread_periods
from sash.oracle.session_walks import spread_sessions
from sash.sql.catalog import StreamInfo, window_time_type
from sash.sql.window_kinds import WINDOW_COLUMNS, CalendarWindow, SessionWindow, TableWindow


def spread_rows(info: StreamInfo, window: TableWindow, table: pa.Table) -> pa.Table:
    """The rows of a stream, each once for every window that holds its time, with the window's start and end."""
    if isinstance(window, SessionWindow):
        return spread_sessions(info, window, table)
    if isinstance(window, CalendarWindow):
        return spread_periods(info, window, table)
    places, starts = [], []
    for place, ts in enumerate(read_times(table.column(info.time)).tolist()):
        start = window.offset_us + (ts - window.offset_us) // window.hop_us * window.hop_us
        while start + window.length_us > ts:
            places.append(place)
            starts.append(start)
            start -= window.hop_us
    ends = [start + window.length_us for start in starts]
    rows, type_ = table.take(pa.array(places, pa.int64())), window_time_type(info)
    for name, times in zip(WINDOW_COLUMNS, (starts, ends)):
        rows = rows.append_column(name, pa.array(times, pa.int64()).cast(type_))
    return rows
