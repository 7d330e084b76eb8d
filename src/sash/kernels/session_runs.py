"""The loops of SESSION: rows of partitions, in order of time, and the sessions that they begin, lengthen or end.

A partition has one open session at most. Its rows are linked, each to the one before it, so that all rows that it had
at any time can be walked through from the newest of then.
"""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Int64s
from sash.kernels.jit import borrowing_kernel, inlined_borrowing

START, LAST, HEAD, SIZE = 0, 1, 2, 3
"""What is known of a partition: when its open session began, the time and number of its newest row, and how many rows
it has; none is open if there are no rows."""
WIDTH = 4
NO_ROW = -1
_NEVER = 2**63 - 1


class ComingRows(NamedTuple):
    """In order of time: partition, time and number."""

    ids: Int64s
    ts: Int64s
    numbers: Int64s


class PastSessions(NamedTuple):
    """Sessions as they were at one time: their newest rows, how many they had, their starts and ends, and until when
    they were so.
    """

    heads: Int64s
    sizes: Int64s
    starts: Int64s
    ends: Int64s
    until: Int64s


@inlined_borrowing
def _end(last: int, gap_us: int) -> int:
    return last + gap_us if last < _NEVER - gap_us else _NEVER


@inlined_borrowing
def _note(stages: PastSessions, place: int, sessions: Int64s, key: int, end: int, until: int) -> None:
    stages.heads[place] = sessions[key, HEAD]
    stages.sizes[place] = sessions[key, SIZE]
    stages.starts[place] = sessions[key, START]
    stages.ends[place] = end
    stages.until[place] = until


@borrowing_kernel
def follow(
    rows: ComingRows,
    gap_us: int,
    sessions: Int64s,
    links: Int64s,
    starts: Int64s,
    over: PastSessions,
    longer: PastSessions,
) -> tuple[int, int]:
    """Lets rows join the sessions of their partitions, which are in `sessions`. By row, `links` gets the row before it
    in its session and `starts` the session's start. Returns how many sessions were over when a row came, and how often
    one became longer: as they were before that, in `over` and `longer`, which have room for as many as there are rows.
    """
    ids, ts, numbers = rows
    n_over, n_longer = 0, 0
    for row in range(ids.shape[0]):
        key, time = ids[row], ts[row]
        if sessions[key, SIZE] > 0:
            end = _end(sessions[key, LAST], gap_us)
            if time >= end:
                _note(over, n_over, sessions, key, end, end)
                n_over += 1
                sessions[key, SIZE] = 0
            elif time > sessions[key, LAST]:
                _note(longer, n_longer, sessions, key, end, time)
                n_longer += 1
        if sessions[key, SIZE] == 0:
            sessions[key, START], sessions[key, HEAD] = time, NO_ROW
        links[row], starts[row] = sessions[key, HEAD], sessions[key, START]
        sessions[key, LAST], sessions[key, HEAD] = time, numbers[row]
        sessions[key, SIZE] += 1
    return n_over, n_longer


@borrowing_kernel
def walk(heads: Int64s, links: Int64s, base: int, numbers: Int64s, places: Int64s) -> None:
    """The numbers of all rows of sessions, given by their newest ones, and to which of them each belongs. `links` are
    those of the rows from `base` on.
    """
    n_found = 0
    for place in range(heads.shape[0]):
        row = heads[place]
        while row != NO_ROW:
            numbers[n_found], places[n_found] = row, place
            n_found += 1
            row = links[row - base]
