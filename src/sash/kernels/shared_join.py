"""The join part of a shared window join: one partial window after the other, by a queueing clock (Shared §3).

    clock ──── scan ──── scan ─┬─ scan ────        a tuple that arrives during a scan waits for its end;
    arrivals        ·  ·       ·                   then whoever the schedule chooses scans its next partial window

The clock takes a fixed time for each tuple looked at, and one for each pair found. It stands still for nothing else,
and leaps to the next arrival when nobody waits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sash.kernels.shared_line import FIRST_KEPT, FIRST_ROW, N_PUSHED, N_SCANS, NOBODY, SWF, Board, Line, admit, choose
from sash.kernels.shared_router import N_LOGGED, forget_held, hold, release, release_held

NEVER = np.iinfo(np.int64).max
MIN_SCANS_PER_RUN = 1 << 12
"""A window that is complete is worth an interruption after so many scans of partial windows."""


@njit(cache=True)
def run_until(line: Line, board: Board, heads: np.ndarray, buffers, counts: np.ndarray, task, until) -> tuple:
    """Does all work that begins before a time; returns the clock and the buffers, which may have grown.

    `buffers` are the output buffer, the log with its times, and `ends`; `task` is the schedule, the clock, the time for
    a tuple looked at, the time for a pair, the first tuple whose responses count, and whether to log. `until` is the
    time, and how many pairs may be in the log before the work is interrupted; if that is ever, it also is when nobody
    waits for a window any more.
    """
    schedule, now = task[0], task[1]
    until_us, max_logged = until
    n_scans = 0
    while buffers[3][N_LOGGED] < max_logged:
        admit(line, board, heads, counts, now)
        level = choose(schedule, board.scanned, board.throughput)
        if level == NOBODY:
            if board.scanned[0] == counts[N_PUSHED]:
                break
            arrives = line.ts[board.scanned[0] - counts[FIRST_ROW]]
            if arrives >= until_us:
                break
            now = float(arrives)
            continue
        if now >= until_us:
            break
        now, buffers = _scan(line, board, buffers, counts, (level, now), task)
        buffers = _complete(line, board, buffers, counts, (level, now), task)
        n_scans += 1
        is_done = board.scanned[level + 1] == counts[N_PUSHED]
        if is_done and max_logged != NEVER and n_scans >= MIN_SCANS_PER_RUN:
            break
    return now, buffers


@njit(cache=True)
def _scan(line: Line, board: Board, buffers, counts: np.ndarray, begin, task) -> tuple:
    """The head of a queue scans from the window it has completed to the next one."""
    level, now = begin
    schedule, _, scan_us, pair_us, measured_from, is_logged = task
    held, log, log_us, ends = buffers
    first_row, number = counts[FIRST_ROW], board.scanned[level + 1]
    row, n_scans = number - first_row, 0
    arrived, key, limit = line.ts[row], line.keys[row], line.ts[row] - board.windows_us[level]
    partner = line.cursors[row]
    while partner >= counts[FIRST_KEPT] and line.ts[partner - first_row] > limit:
        n_scans += 1
        now += scan_us
        if line.keys[partner - first_row] == key:
            now += pair_us
            place = NOBODY
            if schedule == SWF or board.scanned[-1] != number:
                held, place = hold(line, held, ends, counts, row, partner)
            if schedule != SWF:
                when = (now, arrived, measured_from, is_logged)
                for window in range(level, len(board.windows_us)):
                    if board.scanned[window + 1] != number:
                        break
                    log, log_us = release(board, log, log_us, ends, (window, number, partner), when)
                    board.reached[window] = place
        partner = line.before[partner - first_row]
    line.cursors[row] = partner
    counts[N_SCANS] += n_scans
    return now, (held, log, log_us, ends)


@njit(cache=True)
def _complete(line: Line, board: Board, buffers, counts: np.ndarray, end, task) -> tuple:
    """Moves the head of a queue to the next one, and releases what thereby may be released."""
    level, now = end
    schedule, _, _, _, measured_from, is_logged = task
    held, log, log_us, ends = buffers
    first_row, number, last = counts[FIRST_ROW], board.scanned[level + 1], len(board.windows_us) - 1
    if schedule == SWF:
        when = (now, line.ts[number - first_row], measured_from, is_logged)
        pair = (level, number, number - first_row)
        for window in range(level, last + 1):
            if board.scanned[window + 1] != number:
                break
            pair = (window, number, number - first_row)
            log, log_us = release_held(line, board, held, (log, log_us), ends, pair, when)
    if board.scanned[-1] == number:
        forget_held(line, board, held, ends, counts, number)
    board.scanned[level + 1] = number + 1
    board.reached[level] = NOBODY
    if schedule != SWF and number + 1 < board.scanned[0]:
        row = number + 1 - first_row
        when = (now, line.ts[row], measured_from, is_logged)
        log, log_us = release_held(line, board, held, (log, log_us), ends, (level, number + 1, row), when)
        if level == last:
            forget_held(line, board, held, ends, counts, number + 1)
    return held, log, log_us, ends
