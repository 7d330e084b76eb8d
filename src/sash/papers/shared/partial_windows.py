"""The join part of a shared window join: one partial window after the other, by a queueing clock (Shared §3).

    clock ──── scan ──── scan ─┬─ scan ────        a tuple that arrives during a scan waits for its end;
    arrivals        ·  ·       ·                   then whoever the schedule chooses scans its next partial window

The clock takes a fixed time for each tuple looked at, and one for each pair found. It stands still for nothing else,
and leaps to the next arrival when nobody waits.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from sash.kernels.arrays import Floats, Int64s
from sash.kernels.jit import folded_borrowing, kernel
from sash.papers.shared.shared_line import (
    BEFORE,
    CURSOR,
    FIRST_KEPT,
    FIRST_ROW,
    KEY,
    N_PUSHED,
    N_SCANS,
    NOBODY,
    SWF,
    TS,
    Board,
    SharedLine,
    admit,
    choose,
)
from sash.papers.shared.shared_router import (
    N_LOGGED,
    OutputBuffers,
    forget_held,
    grown,
    grown_line,
    hold,
    is_room_held,
    release,
    release_held,
)

NEVER = np.iinfo(np.int64).max
_SCANS, _RELEASES, _CATCHES_UP, _DONE = range(4)
"""What is next for the head of a queue: it scans, its pairs are released, those of the one behind it are."""
MIN_SCANS_PER_RUN = 1 << 12
"""A window that is complete is worth an interruption after so many scans of partial windows."""

WorkState: TypeAlias = tuple[float, int, int]
"""The clock, the level of the queue whose head is at work, and what is next for it."""


class Assignment(NamedTuple):
    """What does not change while a run goes on."""

    schedule: int
    started_us: float
    """The clock when the run begins."""
    scan_us: float
    """For a tuple looked at."""
    pair_us: float
    """For a pair."""
    measured_from: int
    """The first tuple whose responses count."""
    is_logged: bool


@kernel
def run_until(
    line: SharedLine,
    board: Board,
    heads: Int64s,
    buffers: OutputBuffers,
    counts: Int64s,
    task: Assignment,
    until: tuple[float, int],
) -> tuple[float, Int64s, Int64s, Floats]:
    """Does all work that begins before a time; returns the clock, and of the buffers those that may have grown: the
    output buffer, and the log with its times.

    `until` is the time, and how many pairs may be in the log before the work is interrupted; if that is ever, it also
    is when nobody waits for a window any more.
    """
    held, log, log_us, ends = buffers
    state = (task.started_us, NOBODY, _DONE)
    while True:
        state = _run(line, board, heads, OutputBuffers(held, log, log_us, ends), counts, task, until, state)
        if state[2] == _DONE:
            return state[0], held, log, log_us
        # No pair is lost for want of room: the work goes on where it was interrupted.
        if ends[N_LOGGED] == len(log):
            log, log_us = grown(log), grown_line(log_us)
        if not is_room_held(held, ends):
            held = grown(held)


@folded_borrowing
def _run(
    line: SharedLine,
    board: Board,
    heads: Int64s,
    buffers: OutputBuffers,
    counts: Int64s,
    task: Assignment,
    until: tuple[float, int],
    state: WorkState,
) -> WorkState:
    """Works until nothing is to be done, or until there is no more room. Allocates nothing, so that no references need
    be counted."""
    links, waits, scanned, ends = line.links, line.waits, board.scanned, buffers.ends
    (until_us, max_logged), (now, level, phase) = until, state
    n_scans = 0
    while phase != _DONE or ends[N_LOGGED] < max_logged:
        # 1. Between two scans: who has arrived meanwhile may be chosen. The clock leaps when nobody waits.
        if phase == _DONE:
            admit(links, waits, scanned, board.windows_us[-1], heads, counts, now)
            level, phase = choose(task.schedule, scanned, board.throughput), _SCANS
            if level == NOBODY:
                phase = _DONE
                if scanned[0] == counts[N_PUSHED]:
                    break
                arrives = links[scanned[0] - counts[FIRST_ROW], TS]
                if arrives >= until_us:
                    break
                now = float(arrives)
                continue
            if now >= until_us:
                phase = _DONE
                break
        # 2. A scan that has stopped for want of room is not complete, and nobody else may work before it is.
        if phase == _SCANS:
            now, phase = _scan(line, board, buffers, counts, level, now, task)
        if phase != _SCANS:
            phase = _complete(line, board, buffers, counts, level, now, task, phase)
        if phase != _DONE:
            break
        n_scans += 1
        if n_scans >= MIN_SCANS_PER_RUN and max_logged != NEVER and scanned[level + 1] == counts[N_PUSHED]:
            break
    return now, level, phase


@folded_borrowing
def _scan(
    line: SharedLine, board: Board, buffers: OutputBuffers, counts: Int64s, level: int, now: float, task: Assignment
) -> tuple[float, int]:
    """The head of a queue scans from the window it has completed to the next one, or to where there is no more room for
    a pair; returns the clock, and what is next."""
    schedule, _, scan_us, pair_us, measured_from, is_logged = task
    links, waits, windows_us, scanned, reached = line.links, line.waits, board.windows_us, board.scanned, board.reached
    held, log, _, ends = buffers
    # 1. Which windows get pairs at once: those that wait for this tuple. If one does not yet, pairs are held.
    first_row, first_kept, number = counts[FIRST_ROW], counts[FIRST_KEPT], scanned[level + 1]
    row, last = number - first_row, level
    arrived, key = links[row, TS], links[row, KEY]
    limit = arrived - windows_us[level]
    is_held = schedule == SWF or scanned[-1] != number
    while schedule != SWF and last < len(windows_us) and scanned[last + 1] == number:
        last += 1
    # 2. From the newest partner on, as far as the window reaches. There must be room for a pair before it counts.
    partner, phase = waits[row, CURSOR], _RELEASES
    while partner >= first_kept and links[partner - first_row, TS] > limit:
        is_pair = links[partner - first_row, KEY] == key
        if is_pair and (ends[N_LOGGED] == len(log) or not is_room_held(held, ends)):
            phase = _SCANS
            break
        counts[N_SCANS] += 1
        now += scan_us
        if is_pair:
            now += pair_us
            place = hold(waits, held, ends, counts, row, partner) if is_held else NOBODY
            when = (now, arrived, measured_from, is_logged)
            release(board, buffers, (level, last, number, partner), when)
            for window in range(level, last):
                reached[window] = place
        partner = links[partner - first_row, BEFORE]
    waits[row, CURSOR] = partner
    return now, phase


@folded_borrowing
def _complete(
    line: SharedLine,
    board: Board,
    buffers: OutputBuffers,
    counts: Int64s,
    level: int,
    now: float,
    task: Assignment,
    phase: int,
) -> int:
    """Moves the head of a queue to the next one, and releases what thereby may be released; returns what is next."""
    schedule, _, _, _, measured_from, is_logged = task
    links, waits, scanned, reached = line.links, line.waits, board.scanned, board.reached
    held, ends = buffers.held, buffers.ends
    first_row, last = counts[FIRST_ROW], len(scanned) - 2
    # 1. The tuple has scanned the window. After a scan, all windows that wait for it get what is held (SWF).
    if phase == _RELEASES:
        number = scanned[level + 1]
        when = (now, links[number - first_row, TS], measured_from, is_logged)
        window = level
        while schedule == SWF and window <= last and scanned[window + 1] == number:
            owner = (window, number, number - first_row)
            if not release_held(waits, board, buffers, owner, when):
                return _RELEASES
            window += 1
        if scanned[-1] == number:
            forget_held(waits, scanned, reached, held, ends, counts, number)
        scanned[level + 1] = number + 1
        reached[level] = NOBODY
    # 2. The window waits for the next tuple now, of which it gets what others found of it before (LWO, MQT).
    number = scanned[level + 1]
    if schedule != SWF and number < scanned[0]:
        row = number - first_row
        when = (now, links[row, TS], measured_from, is_logged)
        owner = (level, number, row)
        if not release_held(waits, board, buffers, owner, when):
            return _CATCHES_UP
        if level == last:
            forget_held(waits, scanned, reached, held, ends, counts, number)
    return _DONE
