"""Combinations of tuples that all have one key: what an arriving tuple meets in each window, and all of these together.

arriving   c                 window A   a1 a2      window B   b1 b2 b3
product    (a1, b1, c) (a1, b2, c) … (a2, b3, c)   less those that are out of reach of one another
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Int64s
from sash.kernels.jit import borrowing_kernel, kernel
from sash.kernels.probes import EXPIRY, FIRST, FREE, HEADS, KEY, LAST, LINKS, NONE, TIME, home_of

N_LANES = 16
"""So many chains are followed in step."""
LANE_ROWS = 64
"""A chain that has so many rows to be met is followed to its end by itself."""


class Chains(NamedTuple):
    """The rows of one window by key: its place among the heads of a slot, the column of its links, and its rows, whose
    values stand at `row - base`; those below `floor` are gone.
    """

    slots: Int64s
    head: int
    column: int
    records: Int64s
    base: int
    floor: int


class Seekers(NamedTuple):
    """Arriving tuples of one window: the slots of their keys, their times, who has met nothing in some window, and
    their places among all arriving tuples.
    """

    positions: Int64s
    times: Int64s
    is_alone: Bools
    places: Int64s


class Meetings(NamedTuple):
    """What arriving tuples meet in a window, or in all with a line for each: the rows, with their lives, and where
    those of each tuple begin and end.
    """

    firsts: Int64s
    lasts: Int64s
    rows: Int64s
    ts: Int64s
    expires: Int64s


class Arrived(NamedTuple):
    """All arriving tuples, in order of time."""

    windows: Int64s
    rows: Int64s
    times: Int64s
    expires: Int64s


class CombinationRoom(NamedTuple):
    """Room for combinations: a line of rows for each window, and their lives."""

    rows: Int64s
    ts: Int64s
    expires: Int64s


@kernel
def find_slots(keys: Int64s, column: int, slots: Int64s) -> Int64s:
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
    start: int, seekers: Seekers, chains: Chains, latest: int, reach_back: int, met: Meetings, n_met: int
) -> tuple[int, int, int]:
    """What arriving tuples `start..` meet in one window, oldest first, after `n_met` that others have met.

    A tuple that arrives at `times[idx]` meets those of its key that are at most `reach_back` older, and not newer than
    itself less `latest`. It notes where they begin and end, at its place among all arriving tuples, and in `is_alone`
    if there are none, so that it need not be looked at for other windows. Stops before tuples whose meetings do not
    fit. Returns where it stopped, the number of meetings, and of rows looked at.

    Several tuples follow their chains in step: the processor waits for several lines of memory at a time.
    """
    (positions, times, is_alone, places), (slots, head, column, records, base, floor) = seekers, chains
    firsts, lasts = met.firsts, met.lasts
    lanes = np.empty(N_LANES, np.int64)
    nexts = np.empty(N_LANES, np.int64)
    lows = np.empty(N_LANES, np.int64)
    highs = np.empty(N_LANES, np.int64)
    counts = np.empty(N_LANES, np.int64)
    found = np.empty((N_LANES, LANE_ROWS), np.int64)
    n_looked = 0
    idx = start
    while idx < positions.shape[0]:
        # 1. Whoever has met nothing in another window takes no lane.
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
        # 2. One row of every chain in turn, until all are at their ends or have no more room in their lane.
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
        # 3. In order of arrival, so that it can stop before any of them.
        for lane in range(n_lanes):
            n_after, n_more = _write_met(found[lane, : counts[lane]], nexts[lane], lows[lane], chains, met, n_met)
            n_looked += n_more
            if n_after < 0:
                return lanes[lane], n_met, n_looked
            place = places[lanes[lane]]
            firsts[place] = n_met
            lasts[place] = n_after
            is_alone[lanes[lane]] = n_after == n_met
            n_met = n_after
    return positions.shape[0], n_met, n_looked


@borrowing_kernel
def _write_met(found: Int64s, row: int, low: int, chains: Chains, met: Meetings, n_met: int) -> tuple[int, int]:
    """Writes down rows that were found newest first, and those further down the chain, which had no room, oldest first.

    Returns how many there are then, -1 if they do not fit, and how many rows were looked at for it.
    """
    records, column, base, floor = chains.records, chains.column, chains.base, chains.floor
    met_rows, met_ts, met_expires = met.rows, met.ts, met.expires
    first = n_met
    # 1. What does not fit is not met: whatever is written behind `n_met` counts for nothing then.
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
    # 2. Turned round: oldest first.
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
def multiply(start: int, arrived: Arrived, met: Meetings, reach: Int64s, out: CombinationRoom) -> tuple[int, int, int]:
    """The combinations of arriving tuples `start..` with what they meet, in order: by arriving tuple, then by the rows
    of each window, the first window first.

    Stops before a tuple whose combinations might not fit. Returns where it stopped, the number of combinations, and
    how many that tuple might have.
    """
    windows, rows, times, expires = arrived
    firsts, lasts, met_rows, met_ts, met_expires = met
    out_rows, out_ts, out_expires = out
    n_windows = firsts.shape[0]
    n_others = n_windows - 1
    others = np.empty(n_windows, np.int64)
    cursors = np.empty(n_windows, np.int64)
    chosen = np.empty(n_windows, np.int64)
    ends = np.empty(n_windows, np.int64)
    n_out = 0
    for place in range(start, rows.shape[0]):
        # 1. No combination is cut off: there must be room for all, even if none were out of reach.
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
        # 2. A nested loop over the other windows, `depth` of which have a row chosen.
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
            # 3. Rows are in order of time, so those within reach of all chosen ones lie side by side.
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
            # 4. In the last window they all belong to the combination: its other rows are written beside them.
            first = n_out
            while cursor < stop and met_ts[window, cursor] <= high:
                out_rows[window, n_out] = met_rows[window, cursor]
                out_expires[n_out] = min(end, met_expires[window, cursor])
                n_out += 1
                cursor += 1
            for before in range(depth):
                row = met_rows[others[before], chosen[before]]
                for k in range(first, n_out):
                    out_rows[others[before], k] = row
            for k in range(first, n_out):
                out_rows[arriving, k] = rows[place]
                out_ts[k] = times[place]
            depth -= 1
    return rows.shape[0], n_out, 0
