"""The join part of a shared window join: one partial window after the other, by a queueing clock (Shared §3).

    clock ──── scan ──── scan ─┬─ scan ────        a tuple that arrives during a scan waits for its end;
    arrivals        ·  ·       ·                   then whoever the schedule chooses scans its next partial window

The clock takes a fixed time for each tuple looked at, and one for each pair found. It stands still for nothing else,
and leaps to the next arrival when nobody waits.
"""

from __future__ import annotations

import numpy as np

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


@kernel
def run_until(line: SharedLine, board: Board, heads: np.ndarray, buffers, counts: np.ndarray, task, until) -> tuple:
    """Does all work that begins before a time; returns the clock and the buffers, which may have grown.

    `buffers` are the output buffer, the log with its times, and `ends`; `task` is the schedule, the clock, the time for
    a tuple looked at, the time for a pair, the first tuple whose responses count, and whether to log. `until` is the
    time, and how many pairs may be in the log before the work is interrupted; if that is ever, it also is when nobody
    waits for a window any more.
    """
    held, log, log_us, ends = buffers
    state = (task[1], NOBODY, _DONE)
    while True:
        state = _run(
            line.links, line.waits, board.windows_us, board.scanned, board.since, board.throughput, board.reached,
            board.responses, heads, held, log, log_us, ends, counts, task, until, state,
        )  # fmt: skip
        if state[2] == _DONE:
            return state[0], (held, log, log_us, ends)
        if ends[N_LOGGED] == len(log):
            log, log_us = grown(log), grown_line(log_us)
        if not is_room_held(held, ends):
            held = grown(held)


@folded_borrowing
def _run(
    links, waits, windows_us, scanned, since, throughput, reached, responses, heads, held, log, log_us, ends, counts,
    task, until, state,
):  # fmt: skip
    """Works until nothing is to be done, or until there is no more room. Takes and returns the clock, the level of the
    queue whose head is at work, and what is next for it. Allocates nothing, so that no references need be counted."""
    schedule, (until_us, max_logged), (now, level, phase) = task[0], until, state
    n_scans = 0
    while phase != _DONE or ends[N_LOGGED] < max_logged:
        if phase == _DONE:
            admit(links, waits, scanned, windows_us[-1], heads, counts, now)
            level, phase = choose(schedule, scanned, throughput), _SCANS
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
        if phase == _SCANS:
            now, phase = _scan(
                links, waits, windows_us, scanned, since, reached, responses, held, log, log_us, ends, counts, level,
                now, task,
            )  # fmt: skip
        if phase != _SCANS:
            phase = _complete(
                links, waits, scanned, since, reached, responses, held, log, log_us, ends, counts, level, now, task,
                phase,
            )  # fmt: skip
        if phase != _DONE:
            break
        n_scans += 1
        if n_scans >= MIN_SCANS_PER_RUN and max_logged != NEVER and scanned[level + 1] == counts[N_PUSHED]:
            break
    return now, level, phase


@folded_borrowing
def _scan(
    links, waits, windows_us, scanned, since, reached, responses, held, log, log_us, ends, counts, level, now, task
):  # fmt: skip
    """The head of a queue scans from the window it has completed to the next one, or to where there is no more room for
    a pair; returns the clock, and what is next."""
    schedule, _, scan_us, pair_us, measured_from, is_logged = task
    first_row, first_kept, number = counts[FIRST_ROW], counts[FIRST_KEPT], scanned[level + 1]
    row, last = number - first_row, level
    arrived, key = links[row, TS], links[row, KEY]
    limit = arrived - windows_us[level]
    is_held = schedule == SWF or scanned[-1] != number
    while schedule != SWF and last < len(windows_us) and scanned[last + 1] == number:
        last += 1
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
            release(since, responses, log, log_us, ends, (level, last, number, partner), when)
            for window in range(level, last):
                reached[window] = place
        partner = links[partner - first_row, BEFORE]
    waits[row, CURSOR] = partner
    return now, phase


@folded_borrowing
def _complete(
    links, waits, scanned, since, reached, responses, held, log, log_us, ends, counts, level, now, task, phase
):  # fmt: skip
    """Moves the head of a queue to the next one, and releases what thereby may be released; returns what is next."""
    schedule, _, _, _, measured_from, is_logged = task
    first_row, last = counts[FIRST_ROW], len(scanned) - 2
    if phase == _RELEASES:
        number = scanned[level + 1]
        when = (now, links[number - first_row, TS], measured_from, is_logged)
        window = level
        while schedule == SWF and window <= last and scanned[window + 1] == number:
            owner = (window, number, number - first_row)
            if not release_held(waits, since, reached, responses, held, log, log_us, ends, owner, when):
                return _RELEASES
            window += 1
        if scanned[-1] == number:
            forget_held(waits, scanned, reached, held, ends, counts, number)
        scanned[level + 1] = number + 1
        reached[level] = NOBODY
    number = scanned[level + 1]
    if schedule != SWF and number < scanned[0]:
        row = number - first_row
        when = (now, links[row, TS], measured_from, is_logged)
        owner = (level, number, row)
        if not release_held(waits, since, reached, responses, held, log, log_us, ends, owner, when):
            return _CATCHES_UP
        if level == last:
            forget_held(waits, scanned, reached, held, ends, counts, number)
    return _DONE
