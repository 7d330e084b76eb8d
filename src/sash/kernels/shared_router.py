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

import numpy as np
from numba import njit

from sash.kernels.shared_line import FIRST_ROW, MAX_HELD, N_HELD, NOBODY, Board, Line

N_LOGGED, FREE, N_ROOM = range(3)
"""Places in `ends`: how many releases are logged, the first free place of the output buffer, and places ever used."""
WINDOW, LATER, EARLIER = range(3)
PARTNER, NEXT = range(2)


@njit(cache=True)
def release(board: Board, log: np.ndarray, log_us: np.ndarray, ends: np.ndarray, pair, when) -> tuple:
    """Gives one pair to a window. `pair` is the window and the two numbers, `when` the clock, the arrival of the later
    tuple, the first tuple whose responses count, and whether to log."""
    window, later, earlier = pair
    now, arrived, measured_from, is_logged = when
    if later < board.since[window]:
        return log, log_us
    if later >= measured_from:
        response = now - arrived
        board.responses[window, 0] += 1
        board.responses[window, 1] += response
        board.responses[window, 2] = max(board.responses[window, 2], response)
    if is_logged:
        place = ends[N_LOGGED]
        if place == len(log):
            log, log_us = _grown(log), _grown_line(log_us)
        log[place, WINDOW], log[place, LATER], log[place, EARLIER] = window, later, earlier
        log_us[place] = now
        ends[N_LOGGED] += 1
    return log, log_us


@njit(cache=True)
def release_held(line: Line, board: Board, held: np.ndarray, logs, ends: np.ndarray, pair, when) -> tuple:
    """Gives a window all that is held of a tuple and that it has not got yet. The partner in `pair` says nothing."""
    window, later, row = pair
    log, log_us = logs
    place = line.first_held[row] if board.reached[window] < 0 else held[board.reached[window], NEXT]
    while place != NOBODY:
        log, log_us = release(board, log, log_us, ends, (window, later, held[place, PARTNER]), when)
        board.reached[window] = place
        place = held[place, NEXT]
    return log, log_us


@njit(cache=True)
def hold(line: Line, held: np.ndarray, ends: np.ndarray, counts: np.ndarray, row, partner) -> tuple:
    """Keeps a pair behind what else is held of its tuple; returns the buffer, and the pair's place in it."""
    place = ends[FREE]
    if place == NOBODY:
        if ends[N_ROOM] == len(held):
            held = _grown(held)
        place = ends[N_ROOM]
        ends[N_ROOM] += 1
    else:
        ends[FREE] = held[place, NEXT]
    held[place, PARTNER], held[place, NEXT] = partner, NOBODY
    if line.first_held[row] == NOBODY:
        line.first_held[row] = place
    else:
        held[line.last_held[row], NEXT] = place
    line.last_held[row] = place
    counts[N_HELD] += 1
    counts[MAX_HELD] = max(counts[MAX_HELD], counts[N_HELD])
    return held, place


@njit(cache=True)
def forget_held(line: Line, board: Board, held: np.ndarray, ends: np.ndarray, counts: np.ndarray, number) -> None:
    """Frees what is held of a tuple, when every window has got it."""
    row = number - counts[FIRST_ROW]
    if line.first_held[row] == NOBODY:
        return
    place, n_freed = line.first_held[row], 1
    while held[place, NEXT] != NOBODY:
        place, n_freed = held[place, NEXT], n_freed + 1
    held[place, NEXT] = ends[FREE]
    ends[FREE] = line.first_held[row]
    line.first_held[row] = line.last_held[row] = NOBODY
    counts[N_HELD] -= n_freed
    for window in range(len(board.reached)):
        if board.scanned[window + 1] == number:
            board.reached[window] = NOBODY


@njit(cache=True)
def settle(log: np.ndarray, ends: np.ndarray, first_open: np.ndarray) -> tuple:
    """Takes the pairs out of the log whose later tuple is before the first one that a window is open for.

    Returns where each window's pairs begin, and all of them, (later, earlier), window by window in order of release.
    """
    n_logged, starts = ends[N_LOGGED], np.zeros(len(first_open) + 1, np.int64)
    for place in range(n_logged):
        window = log[place, WINDOW]
        starts[window + 1] += log[place, LATER] < first_open[window]
    starts = np.cumsum(starts)
    pairs, nexts, n_left = np.empty((starts[-1], 2), np.int64), starts.copy(), 0
    for place in range(n_logged):
        window, later, earlier = log[place, WINDOW], log[place, LATER], log[place, EARLIER]
        if later < first_open[window]:
            pairs[nexts[window], 0], pairs[nexts[window], 1] = later, earlier
            nexts[window] += 1
        else:
            log[n_left, WINDOW], log[n_left, LATER], log[n_left, EARLIER] = window, later, earlier
            n_left += 1
    ends[N_LOGGED] = n_left
    return starts, pairs


@njit(cache=True)
def _grown(array: np.ndarray) -> np.ndarray:
    larger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True)
def _grown_line(array: np.ndarray) -> np.ndarray:
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger
