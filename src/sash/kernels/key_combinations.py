"""Combinations of tuples that all have one key: what an arriving tuple meets in each window, and all of these together.

arriving   c                 window A   a1 a2      window B   b1 b2 b3
product    (a1, b1, c) (a1, b2, c) … (a2, b3, c)   less those that are out of reach of one another
"""

from __future__ import annotations

import numpy as np

from sash.kernels.jit import kernel
from sash.kernels.probes import EXPIRY, FIRST, FREE, HEADS, KEY, LAST, LINKS, NONE, TIME, home_of

N_LANES = 16
"""So many chains are followed in step."""
LANE_ROWS = 64
"""A chain that has so many rows to be met is followed to its end by itself."""


@kernel
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


@kernel
def collect(
    start, positions, times, is_alone, places, latest, reach_back, slots, head,
    records, column, base, floor, firsts, lasts, n_met, met_rows, met_ts, met_expires,
):  # fmt: skip
    """What arriving tuples `start..` meet in one window, oldest first, after `n_met` that others have met.

    A tuple that arrives at `times[idx]` meets those of its key that are at most `reach_back` older, and not newer than
    itself less `latest`. It notes where they begin and end, at its place among all arriving tuples, and in `is_alone`
    if there are none, so that it need not be looked at for other windows. Stops before tuples whose meetings do not
    fit. Returns where it stopped, the number of meetings, and of rows looked at.

    Several tuples follow their chains in step: the processor waits for several lines of memory at a time.
    """
    lanes = np.empty(N_LANES, np.int64)
    nexts = np.empty(N_LANES, np.int64)
    lows = np.empty(N_LANES, np.int64)
    highs = np.empty(N_LANES, np.int64)
    counts = np.empty(N_LANES, np.int64)
    found = np.empty((N_LANES, LANE_ROWS), np.int64)
    n_looked = 0
    idx = start
    while idx < positions.shape[0]:
        n_lanes = 0
        while idx < positions.shape[0] and n_lanes < N_LANES:
            if not is_alone[idx]:
                lanes[n_lanes] = idx
                nexts[n_lanes] = slots[positions[idx], HEADS + head]
                lows[n_lanes] = times[idx] - reach_back if times[idx] > FIRST + reach_back else FIRST
                highs[n_lanes] = times[idx] - latest
                counts[n_lanes] = 0
                n_lanes += 1
            idx += 1
        n_left = n_lanes
        while n_left > 0:
            n_left = 0
            for lane in range(n_lanes):
                row = nexts[lane]
                if row < floor or counts[lane] == LANE_ROWS:
                    continue
                at = row - base
                time = records[at, TIME]
                if time < lows[lane]:
                    nexts[lane] = NONE
                    continue
                n_looked += 1
                if time <= highs[lane]:
                    found[lane, counts[lane]] = row
                    counts[lane] += 1
                nexts[lane] = records[at, LINKS + column]
                n_left += 1
        for lane in range(n_lanes):
            n_after, n_more = _write_met(
                found[lane, : counts[lane]], nexts[lane], lows[lane], records, column, base, floor, n_met,
                met_rows, met_ts, met_expires,
            )  # fmt: skip
            n_looked += n_more
            if n_after < 0:
                return lanes[lane], n_met, n_looked
            place = places[lanes[lane]]
            firsts[place] = n_met
            lasts[place] = n_after
            is_alone[lanes[lane]] = n_after == n_met
            n_met = n_after
    return positions.shape[0], n_met, n_looked


@kernel
def _write_met(found, row, low, records, column, base, floor, n_met, met_rows, met_ts, met_expires):
    """Writes down rows that were found newest first, and those further down the chain, which had no room, oldest first.

    Returns how many there are then, -1 if they do not fit, and how many rows were looked at for it.
    """
    first = n_met
    if n_met + found.shape[0] > met_rows.shape[0]:
        return NONE, 0
    for k in range(found.shape[0]):
        met_rows[n_met] = found[k]
        n_met += 1
    n_looked = 0
    while row >= floor and records[row - base, TIME] >= low:
        if n_met == met_rows.shape[0]:
            return NONE, n_looked
        met_rows[n_met] = row
        n_met += 1
        n_looked += 1
        row = records[row - base, LINKS + column]
    low_idx = first
    high_idx = n_met - 1
    while low_idx < high_idx:
        met_rows[low_idx], met_rows[high_idx] = met_rows[high_idx], met_rows[low_idx]
        low_idx += 1
        high_idx -= 1
    for k in range(first, n_met):
        met_ts[k] = records[met_rows[k] - base, TIME]
        met_expires[k] = records[met_rows[k] - base, EXPIRY]
    return n_met, n_looked


@kernel
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
