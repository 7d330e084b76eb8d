"""Combinations of tuples that all have one key: what an arriving tuple meets in each window, and all of these together.

arriving   c                 window A   a1 a2      window B   b1 b2 b3
product    (a1, b1, c) (a1, b2, c) … (a2, b3, c)   less those that are out of reach of one another
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sash.kernels.probes import FIRST, FREE, HEADS, KEY, LAST, NONE, home_of


@njit(cache=True)
def find_slots(keys, column, slots):
    """Where in a key's table each row's key is; NONE if it is not there."""
    n_slots = slots.shape[0]
    positions = np.empty(keys.shape[0], np.int64)
    for idx in range(keys.shape[0]):
        key = keys[idx, column]
        position = home_of(key, n_slots)
        while slots[position, HEADS] != FREE and slots[position, KEY] != key:
            position = (position + 1) & (n_slots - 1)
        positions[idx] = position if slots[position, HEADS] != FREE else NONE
    return positions


@njit(cache=True)
def collect(
    start, positions, times, is_alone, places, latest, reach_back, slots, head,
    ts, expires, links, column, base, floor, firsts, lasts, n_met, met_rows, met_ts, met_expires,
):  # fmt: skip
    """What arriving tuples `start..` meet in one window, oldest first, after `n_met` that others have met.

    A tuple that arrives at `times[idx]` meets those of its key that are at most `reach_back` older, and not newer than
    itself less `latest`. It notes where they begin and end, at its place among all arriving tuples, and in `is_alone`
    if there are none, so that it need not be looked at for other windows. Stops before a tuple whose meetings do not
    fit. Returns where it stopped, the number of meetings, and of rows looked at.
    """
    n_looked = 0
    for idx in range(start, positions.shape[0]):
        if is_alone[idx]:
            continue
        time = times[idx]
        low = time - reach_back if time > FIRST + reach_back else FIRST
        row = slots[positions[idx], HEADS + head]
        first = n_met
        while row >= floor and ts[row - base] >= low:
            at = row - base
            n_looked += 1
            if ts[at] <= time - latest:
                if n_met == met_rows.shape[0]:
                    return idx, first, n_looked
                met_rows[n_met] = row
                met_ts[n_met] = ts[at]
                met_expires[n_met] = expires[at]
                n_met += 1
            row = links[at, column]
        firsts[places[idx]] = first
        lasts[places[idx]] = n_met
        is_alone[idx] = first == n_met
        last = n_met - 1
        while first < last:
            met_rows[first], met_rows[last] = met_rows[last], met_rows[first]
            met_ts[first], met_ts[last] = met_ts[last], met_ts[first]
            met_expires[first], met_expires[last] = met_expires[last], met_expires[first]
            first += 1
            last -= 1
    return positions.shape[0], n_met, n_looked


@njit(cache=True)
def multiply(
    start, windows, rows, times, expires, firsts, lasts, met_rows, met_ts, met_expires, reach,
    out_rows, out_ts, out_expires,
):  # fmt: skip
    """The combinations of arriving tuples `start..` with what they meet, in order: by arriving tuple, then by the rows
    of each window, the first window first.

    Stops before a tuple whose combinations might not fit. Returns where it stopped, the number of combinations, and
    how many that tuple might have.
    """
    n_windows = firsts.shape[0]
    n_others = n_windows - 1
    others = np.empty(n_windows, np.int64)
    cursors = np.empty(n_windows, np.int64)
    chosen = np.empty(n_windows, np.int64)
    ends = np.empty(n_windows, np.int64)
    n_out = 0
    for place in range(start, rows.shape[0]):
        arriving = windows[place]
        n_most = 1
        depth = 0
        for window in range(n_windows):
            if window != arriving:
                others[depth] = window
                n_most *= lasts[window, place] - firsts[window, place]
                depth += 1
        if n_most == 0:
            continue
        if n_out + n_most > out_ts.shape[0]:
            return place, n_out, n_most
        depth = 0
        cursors[0] = firsts[others[0], place]
        while depth >= 0:
            window = others[depth]
            low = FIRST
            high = times[place]
            for before in range(depth):
                time = met_ts[others[before], chosen[before]]
                if time > FIRST + reach[window, others[before]]:
                    low = max(low, time - reach[window, others[before]])
                if time < LAST - reach[others[before], window]:
                    high = min(high, time + reach[others[before], window])
            end = ends[depth - 1] if depth > 0 else expires[place]
            cursor = cursors[depth]
            stop = lasts[window, place]
            while cursor < stop and met_ts[window, cursor] < low:
                cursor += 1
            if depth < n_others - 1:
                if cursor == stop or met_ts[window, cursor] > high:
                    depth -= 1
                    continue
                chosen[depth] = cursor
                ends[depth] = min(end, met_expires[window, cursor])
                cursors[depth] = cursor + 1
                depth += 1
                cursors[depth] = firsts[others[depth], place]
                continue
            first = n_out
            while cursor < stop and met_ts[window, cursor] <= high:
                out_rows[window, n_out] = met_rows[window, cursor]
                out_expires[n_out] = min(end, met_expires[window, cursor])
                n_out += 1
                cursor += 1
            for before in range(depth):
                row = met_rows[others[before], chosen[before]]
                for out in range(first, n_out):
                    out_rows[others[before], out] = row
            for out in range(first, n_out):
                out_rows[arriving, out] = rows[place]
                out_ts[out] = times[place]
            depth -= 1
    return rows.shape[0], n_out, 0
