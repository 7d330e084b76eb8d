"""The line of tuples that a shared window join works on, and who of it is next (Shared §3).

    arrival        done ──────────────────────────────────────► newest
    levels      3 3 3 │ 2 │ 1 1 1 │ 0 0 │        windows completely scanned, of three
                      └───┴───────┴─────┴─ scanned[3] … scanned[0]: how many tuples have at least this level

No tuple may scan more windows than one before it, or its output would overtake (§3.3). So all tuples, of both streams,
stand in one line whose levels descend, and the paper's scheduling queue of a window is a stretch of that line: who
waits for window `level` is from `scanned[level + 1]` to `scanned[level]`, and the head of the queue is the first.

Tuples are known by their arrival number, from 0 on. Each is linked to the one before it of its stream and its bucket;
nested loops are the same with a single bucket.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import folded_borrowing, kernel

LWO, SWF, MQT = range(3)
N_COUNTS = 8
FIRST_ROW, N_PUSHED, FIRST_KEPT, N_HELD, MAX_HELD, MAX_WAITING, MAX_KEPT, N_SCANS = range(N_COUNTS)
NOBODY = -1


BEFORE, TS, KEY, SIDE = range(4)
"""Of a link. `BEFORE` is the tuple before this one, of its stream and bucket."""
CURSOR, FIRST_HELD, LAST_HELD, N_OWN = range(4)
"""Of one who waits: where to go on to scan the other stream, and its own stretch of the output buffer."""


class SharedLine(NamedTuple):
    """Arrays by row, which is the arrival number less `counts[FIRST_ROW]`; what they point to are arrival numbers.

    What is looked at together lies side by side.
    """

    links: Int64s
    waits: Int64s
    cargo: Int64s
    """What the caller knows a tuple by: two numbers."""


class Board(NamedTuple):
    """What changes when queries come and go: arrays by window, from the smallest to the largest."""

    windows_us: Int64s
    scanned: Int64s
    """One more than windows."""
    since: Int64s
    """The arrival number of the first tuple whose output the window's queries are to get."""
    throughput: Floats
    """MaxQT(PW(level, other level)), by which MQT chooses."""
    reached: Int64s
    """What was last released to the window, of the held output of the tuple that it waits for."""
    responses: Floats
    """[window]: how many output tuples were released, the sum of their response times, and the longest."""


@folded_borrowing
def bucket_of(key: int, n_buckets: int) -> int | np.int64:
    """`n_buckets` is a power of two; a single one makes nested loops."""
    if n_buckets == 1:
        return 0
    return np.int64(mix64(key) & np.uint64(n_buckets - 1))


@folded_borrowing
def admit(
    links: Int64s, waits: Int64s, scanned: Int64s, largest_us: int, heads: Int64s, counts: Int64s, now: float
) -> None:
    """Puts all tuples that have arrived by now into the join buffers and to the end of the line."""
    while scanned[0] < counts[N_PUSHED] and links[scanned[0] - counts[FIRST_ROW], TS] <= now:
        _link(links, waits, heads, scanned[0], counts[FIRST_ROW])
        scanned[0] += 1
    _drop_old(links, scanned, largest_us, counts)
    counts[MAX_WAITING] = max(counts[MAX_WAITING], scanned[0] - scanned[-1])
    counts[MAX_KEPT] = max(counts[MAX_KEPT], scanned[0] - counts[FIRST_KEPT])


@kernel
def link_all(line: SharedLine, heads: Int64s, counts: Int64s, first: int) -> None:
    """Chains all tuples from a number on into the table; nobody waits."""
    for number in range(first, counts[N_PUSHED]):
        _link(line.links, line.waits, heads, number, counts[FIRST_ROW])


@folded_borrowing
def _link(links: Int64s, waits: Int64s, heads: Int64s, number: int, first_row: int) -> None:
    """Chains a tuple into its bucket. It will scan from the newest one of the other stream that came before it."""
    row = number - first_row
    side, bucket = links[row, SIDE], bucket_of(links[row, KEY], heads.shape[0])
    waits[row, CURSOR] = heads[bucket, 1 - side]
    links[row, BEFORE] = heads[bucket, side]
    heads[bucket, side] = number


@folded_borrowing
def _drop_old(links: Int64s, scanned: Int64s, largest_us: int, counts: Int64s) -> None:
    """Drops what is out of the largest window for whoever still scans, and for all who will come."""
    first_row, oldest = counts[FIRST_ROW], min(scanned[-1], scanned[0] - 1)
    if oldest < first_row:
        return
    limit = links[oldest - first_row, TS] - largest_us
    while counts[FIRST_KEPT] < oldest and links[counts[FIRST_KEPT] - first_row, TS] <= limit:
        counts[FIRST_KEPT] += 1


@folded_borrowing
def choose(schedule: int, scanned: Int64s, throughput: Floats) -> int:
    """The level of the queue whose head is next to scan one partial window, or nobody."""
    if schedule == LWO:
        return _choose_oldest(scanned)
    if schedule == SWF:
        return _choose_smallest(scanned)
    return _choose_throughput(scanned, throughput)


@folded_borrowing
def _choose_oldest(scanned: Int64s) -> int:
    """LWO, Largest Window Only: who has begun goes on through the largest window; the others wait in turn."""
    for level in range(len(scanned) - 2, -1, -1):
        if scanned[level + 1] < scanned[level]:
            return level
    return NOBODY


@folded_borrowing
def _choose_smallest(scanned: Int64s) -> int:
    """SWF, Smallest Window First: the first queue that is not empty, from the smallest window on."""
    for level in range(len(scanned) - 1):
        if scanned[level + 1] < scanned[level]:
            return level
    return NOBODY


@folded_borrowing
def _choose_throughput(scanned: Int64s, throughput: Floats) -> int:
    """MQT, Maximum Query Throughput: the head that serves the most queries per time. Of equals the one with the larger
    window, as the paper goes through the queues from the largest window on and keeps the first of the best (§3.3)."""
    best, chosen, level_ahead = -1.0, NOBODY, len(scanned) - 1
    for level in range(len(scanned) - 2, -1, -1):
        if scanned[level + 1] < scanned[level]:
            if throughput[level, level_ahead] > best:
                best, chosen = throughput[level, level_ahead], level
            level_ahead = level
    return chosen
