"""The routing part of a shared window join: what it found, in the order and to the queries that it belongs to.

The law: each window gets its pairs by the arrival of the later tuple, and of one such tuple from the newest partner to
the oldest, as if it were alone. All pairs of a tuple are found in that order. So a pair may be released to a window as
soon as every tuple before the later one has completely scanned that window, that is, when the window waits for this
tuple (`scanned[window + 1]` is its number). What was found too early is held in the output buffer.

    at once (LWO, MQT)     when a pair is found, to all windows that wait for its tuple; and when a window comes to wait
                           for the next tuple, all that is held of that one (§3.3: before it has scanned the window)
    after a scan (SWF)     when the tuple itself has scanned a partial window, to that window, and to larger ones that
                           wait for it (§3.2, Figure 3)

The largest window is the last to get a pair; then it leaves the buffer. LWO never holds one.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.jit import folded_borrowing, kernel
from sash.papers.shared.shared_line import (
    FIRST_HELD,
    FIRST_ROW,
    LAST_HELD,
    MAX_HELD,
    N_HELD,
    N_OWN,
    NOBODY,
    Board,
    SharedLine,
)

N_LOGGED, FREE, N_ROOM = range(3)
"""Places in `ends`: how many releases are logged, the first free place of the output buffer, and places ever used."""
FIRST, LAST, LATER, EARLIER = range(4)
"""Of a release: the windows from the first one to before the last, and the two tuples."""
PARTNER, NEXT = range(2)

Release: TypeAlias = tuple[int, int, int, int]
"""FIRST, LAST, LATER and EARLIER."""
Moment: TypeAlias = tuple[float, int, int, bool]
"""The clock, the arrival of the later tuple, the first tuple whose responses count, and whether to log."""


class OutputBuffers(NamedTuple):
    """The output buffer, the log of releases with its times, and how far each is filled."""

    held: Int64s
    log: Int64s
    log_us: Floats
    ends: Int64s


@folded_borrowing
def release(board: Board, buffers: OutputBuffers, pair: Release, when: Moment) -> None:
    """Gives one pair to a range of windows; there is room for it in the log."""
    since, responses, (_, log, log_us, ends) = board.since, board.responses, buffers
    first, last, later, earlier = pair
    now, arrived, measured_from, is_logged = when
    # 1. Responses count only for windows that were there when the later tuple came.
    if later >= measured_from:
        response = now - arrived
        for window in range(first, last):
            if later >= since[window]:
                responses[window, 0] += 1
                responses[window, 1] += response
                responses[window, 2] = max(responses[window, 2], response)
    # 2. One entry for all windows of the range: `spread_log` leaves those out that came later.
    if is_logged and first < last:
        place = ends[N_LOGGED]
        log[place, FIRST], log[place, LAST], log[place, LATER], log[place, EARLIER] = first, last, later, earlier
        log_us[place] = now
        ends[N_LOGGED] += 1


@folded_borrowing
def release_held(
    waits: Int64s, board: Board, buffers: OutputBuffers, owner: tuple[int, int, int], when: Moment
) -> bool:
    """Gives a window all that is held of a tuple and that it has not got yet; false if there is no room in the log, to
    be asked again. `owner` is the window, the number of the tuple and its row."""
    (window, later, row), reached = owner, board.reached
    held, log, _, ends = buffers
    place = waits[row, FIRST_HELD] if reached[window] < 0 else held[reached[window], NEXT]
    while place != NOBODY:
        if ends[N_LOGGED] == len(log):
            return False
        release(board, buffers, (window, window + 1, later, held[place, PARTNER]), when)
        reached[window] = place
        place = held[place, NEXT]
    return True


@folded_borrowing
def is_room_held(held: Int64s, ends: Int64s) -> bool:
    """Whether one more pair can be held."""
    return ends[FREE] != NOBODY or ends[N_ROOM] < len(held)


@folded_borrowing
def hold(waits: Int64s, held: Int64s, ends: Int64s, counts: Int64s, row: int, partner: int) -> int:
    """Keeps a pair behind what else is held of its tuple; there is room. Returns the pair's place."""
    # 1. Places that were freed first, so that the buffer grows no larger than what is held at once.
    place = ends[FREE]
    if place == NOBODY:
        place = ends[N_ROOM]
        ends[N_ROOM] += 1
    else:
        ends[FREE] = held[place, NEXT]
    held[place, PARTNER], held[place, NEXT] = partner, NOBODY
    # 2. Behind the others of the tuple: in the order in which they were found they are released.
    if waits[row, FIRST_HELD] == NOBODY:
        waits[row, FIRST_HELD], waits[row, N_OWN] = place, 0
    else:
        held[waits[row, LAST_HELD], NEXT] = place
    waits[row, LAST_HELD] = place
    waits[row, N_OWN] += 1
    counts[N_HELD] += 1
    counts[MAX_HELD] = max(counts[MAX_HELD], counts[N_HELD])
    return place


@folded_borrowing
def forget_held(
    waits: Int64s, scanned: Int64s, reached: Int64s, held: Int64s, ends: Int64s, counts: Int64s, number: int
) -> None:
    """Frees what is held of a tuple, when every window has got it."""
    row = number - counts[FIRST_ROW]
    if waits[row, FIRST_HELD] == NOBODY:
        return
    held[waits[row, LAST_HELD], NEXT] = ends[FREE]
    ends[FREE] = waits[row, FIRST_HELD]
    waits[row, FIRST_HELD] = waits[row, LAST_HELD] = NOBODY
    counts[N_HELD] -= waits[row, N_OWN]
    for window in range(len(reached)):
        if scanned[window + 1] == number:
            reached[window] = NOBODY


@kernel
def forget_all(
    line: SharedLine, board: Board, held: Int64s, ends: Int64s, counts: Int64s, first: int, last: int
) -> None:
    """Frees what is held of the tuples from `first` to before `last`: the window that waited for it is gone."""
    for number in range(first, last):
        forget_held(line.waits, board.scanned, board.reached, held, ends, counts, number)


@kernel
def spread_log(log: Int64s, log_us: Floats, n_logged: int, since: Int64s) -> tuple[Int64s, Int64s, Int64s, Floats]:
    """Releases by window, in order: which window, the two tuples, and when. A window gets none from before it came."""
    n_all = 0
    for place in range(n_logged):
        n_all += log[place, LAST] - log[place, FIRST]
    windows, later, earlier, at_us = (np.empty(n_all, np.int64), np.empty(n_all, np.int64), np.empty(n_all, np.int64),
                                      np.empty(n_all))  # fmt: skip
    n_spread = 0
    for place in range(n_logged):
        for window in range(log[place, FIRST], log[place, LAST]):
            if log[place, LATER] >= since[window]:
                windows[n_spread], at_us[n_spread] = window, log_us[place]
                later[n_spread], earlier[n_spread] = log[place, LATER], log[place, EARLIER]
                n_spread += 1
    return windows[:n_spread], later[:n_spread], earlier[:n_spread], at_us[:n_spread]


@kernel
def grown(array: Int64s) -> Int64s:
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@kernel
def grown_line(array: Floats) -> Floats:
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger
