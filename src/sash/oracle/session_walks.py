"""What SESSION means, word by word: the rows of a partition are walked through in order of time.

    gap 4     0   1   2   3   4   5   6   7   8   9
    a         |                                           in [0, 4) from 0 on, in [0, 6) from 2 until 6
    b                 |                                   in [0, 6) from 2 until 6
    c                                     |               in [7, 11) from 7 on

So a row is there once for every instant of its session from its own on, each until the next of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from sash.operators.changes import read_times
from sash.sql.catalog import StreamInfo, window_time_type
from sash.sql.window_kinds import WINDOW_COLUMNS, SessionWindow


def spread_sessions(info: StreamInfo, window: SessionWindow, table: pa.Table) -> pa.Table:
    """The rows of a stream, each once for every session that it is in for a while, with its start and end; where only
    what is over is shown, for the last of them.
    """
    times = read_times(table.column(info.time)).tolist()
    places, starts, ends = list[int](), list[int](), list[int]()
    for members in _partitions(window, table):
        for session in _sessions(sorted(members, key=lambda place: times[place]), times, window.gap_us):
            instants = sorted({times[place] for place in session})
            for place in session:
                later = [instant for instant in instants if instant >= times[place]]
                for instant in later[-1:] if window.is_final else later:
                    places.append(place)
                    starts.append(instants[0])
                    ends.append(instant + window.gap_us)
    rows, type_ = table.take(pa.array(places, pa.int64())), window_time_type(info)
    for name, edges in zip(WINDOW_COLUMNS, (starts, ends)):
        rows = rows.append_column(name, pa.array(edges, pa.int64()).cast(type_))
    return rows


def session_stays(info: StreamInfo, window: SessionWindow, rows: pa.Table) -> list[tuple[int, int]]:
    """Of rows as `spread_sessions` gives them: from when and until when each is in the session that it says."""
    times = read_times(rows.column(info.time)).tolist()
    ends = read_times(rows.column(WINDOW_COLUMNS[1])).tolist()
    stays = [(0, 0)] * len(times)
    for members in _partitions(window, rows):
        instants = sorted({times[place] for place in members})
        following = dict(pairwise(instants))
        for place in members:
            instant, end = ends[place] - window.gap_us, ends[place]
            stays[place] = instant, min(end, following.get(instant, end))
    return stays


def _sessions(ordered: Sequence[int], times: Sequence[int], gap_us: int) -> list[list[int]]:
    """Places of rows, in order of time, taken apart where the next is so much later."""
    found: list[list[int]] = []
    for place in ordered:
        if not found or times[place] - times[found[-1][-1]] >= gap_us:
            found.append([])
        found[-1].append(place)
    return found


def _partitions(window: SessionWindow, table: pa.Table) -> list[list[int]]:
    partitions: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    columns = [table.column(name).to_pylist() for name in window.partition_by]
    for place in range(table.num_rows):
        partitions[tuple(_as_key(column[place]) for column in columns)].append(place)
    return list(partitions.values())


def _as_key(value: Any) -> Any:
    """Zeros of either sign are equal anyway; NaN is not, but they are in one partition."""
    return "nan" if value != value else value
