"""Probing the buffers of a join of many streams: from combinations of some of its tuples to those of one more.

    slots    KEY | HEAD of window 0 | HEAD of window 1 | …       one place answers for a key in all windows
    records  TIME, EXPIRY of a row | LINKS: for each key the row before in its window that has the same one

Rows are numbered in order of time, so a chain leads from new to old: it ends at the first row that is too old, and at
rows below `floor`, which are gone. A slot all of whose chains are gone is free for another key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import borrowing_kernel, inlined_kernel

KEY, HEADS = 0, 1
TIME, EXPIRY, LINKS = 0, 1, 2
NONE = -1
FREE = -2
"""Stands for the first head in a slot that has never been used."""
FIRST, LAST = np.int64(-(2**63)), np.int64(2**63 - 1)


class ProbedRows(NamedTuple):
    """The rows of one window; a row's values stand at `row - base`, rows below `floor` are gone."""

    keys: Int64s
    records: Int64s
    base: int
    floor: int


class TimedRows(NamedTuple):
    """The rows of one window up to `next_row`, by their times alone."""

    ts: Int64s
    base: int
    floor: int
    next_row: int


class Partials(NamedTuple):
    """Combinations that are to grow. `times` are those of their members, a line per window, of which `bound` are there;
    `arriving` is the window of the last one. `reach` says how much newer a tuple may be than another.
    """

    times: Int64s
    bound: Int64s
    arriving: int
    reach: Int64s


class WantedKeys(NamedTuple):
    """What rows must have: `keys` in `column`, by which they are found, `more_keys` in `more_columns`."""

    column: int
    keys: Int64s
    more_columns: Int64s
    more_keys: Int64s


class GrownRoom(NamedTuple):
    """Room for combinations of one more: which one has grown, and by which row."""

    parents: Int64s
    rows: Int64s


@inlined_kernel
def home_of(key: int, n_slots: int) -> np.int64:
    """The slot at which the search for a key begins."""
    return np.int64(mix64(key) & np.uint64(n_slots - 1))


@borrowing_kernel
def _is_forgotten(slots: Int64s, position: int, floors: Int64s) -> bool:
    is_forgotten = True
    for window in range(floors.shape[0]):
        is_forgotten = is_forgotten and slots[position, HEADS + window] < floors[window]
    return is_forgotten


@borrowing_kernel
def link(
    window: int, first: int, last: int, rows: ProbedRows, column: int, floors: Int64s, slots: Int64s, n_free: int
) -> tuple[int, int]:
    """Puts rows `first..last-1` of a window into the table; stops when no slot may be used up any more.

    Returns the next row and how many slots may still be used up.
    """
    keys, records, base, _ = rows
    n_slots = slots.shape[0]
    for row in range(first, last):
        if n_free == 0:
            return row, n_free
        # 1. A key keeps its slot: a forgotten one on the way is taken only when the key is in none.
        key = keys[row - base, column]
        position = home_of(key, n_slots)
        forgotten = NONE
        while slots[position, HEADS] != FREE and slots[position, KEY] != key:
            if forgotten == NONE and _is_forgotten(slots, position, floors):
                forgotten = position
            position = (position + 1) & (n_slots - 1)
        if slots[position, HEADS] == FREE:
            if forgotten != NONE:
                position = forgotten
            else:
                n_free -= 1
            slots[position, KEY] = key
            for other in range(floors.shape[0]):
                slots[position, HEADS + other] = NONE
        # 2. The newest comes first in its chain.
        records[row - base, LINKS + column] = slots[position, HEADS + window]
        slots[position, HEADS + window] = row
    return last, n_free


@borrowing_kernel
def count_keys(slots: Int64s, floors: Int64s) -> int:
    """How many keys have rows that are not gone."""
    n_keys = 0
    for position in range(slots.shape[0]):
        if slots[position, HEADS] != FREE and not _is_forgotten(slots, position, floors):
            n_keys += 1
    return n_keys


@inlined_kernel
def _period(times: Int64s, bound: Int64s, idx: int, target: int, arriving: int, reach: Int64s) -> tuple[int, int]:
    """From when to when a tuple of the target may be to join a combination, and be found by its last tuple."""
    low = FIRST
    high = times[arriving, idx]
    if target > arriving:
        high -= 1
    for k in range(bound.shape[0]):
        member = bound[k]
        time = times[member, idx]
        if time > FIRST + reach[target, member]:
            low = max(low, time - reach[target, member])
        if time < LAST - reach[member, target]:
            high = min(high, time + reach[member, target])
    return low, high


@borrowing_kernel
def find_periods(partials: Partials, target: int, lows: Int64s, highs: Int64s) -> None:
    """Writes down from when to when a tuple of the window `target` may be to join each combination."""
    times, bound, arriving, reach = partials
    for idx in range(times.shape[1]):
        lows[idx], highs[idx] = _period(times, bound, idx, target, arriving, reach)


@borrowing_kernel
def expand_by_key(
    partials: Partials, start: int, target: int, wanted: WantedKeys, slots: Int64s, rows: ProbedRows, out: GrownRoom
) -> tuple[int, int, int]:
    """Adds rows of the window `target` to combinations `start..`: those with the combination's key, in its period.

    Of each combination the rows come oldest first. Stops before one whose rows do not fit. Returns where it stopped,
    the number of rows put out, and of rows looked at.
    """
    (times, bound, arriving, reach), (column, keys, more_columns, more_keys) = partials, wanted
    (own_keys, records, base, floor), (out_parents, out_rows) = rows, out
    n_slots = slots.shape[0]
    n_out = 0
    n_looked = 0
    for idx in range(start, keys.shape[0]):
        key = keys[idx]
        position = home_of(key, n_slots)
        while slots[position, HEADS] != FREE and slots[position, KEY] != key:
            position = (position + 1) & (n_slots - 1)
        if slots[position, HEADS] == FREE:
            continue
        row = slots[position, HEADS + target]
        if row < floor:
            continue
        # 1. Along the chain from new to old, up to the first row that is too old.
        low, high = _period(times, bound, idx, target, arriving, reach)
        first = n_out
        while row >= floor:
            at = row - base
            time = records[at, TIME]
            if time < low:
                break
            n_looked += 1
            fits = time <= high
            for k in range(more_columns.shape[0]):
                fits = fits and own_keys[at, more_columns[k]] == more_keys[k, idx]
            if fits:
                if n_out == out_rows.shape[0]:
                    return idx, first, n_looked
                out_parents[n_out] = idx
                out_rows[n_out] = row
                n_out += 1
            row = records[at, LINKS + column]
        # 2. Turned round: oldest first.
        last = n_out - 1
        while first < last:
            out_rows[first], out_rows[last] = out_rows[last], out_rows[first]
            first += 1
            last -= 1
    return keys.shape[0], n_out, n_looked


@borrowing_kernel
def _first_since(ts: Int64s, low: int, high: int, time: int) -> int:
    """The first of `ts[low:high]`, which never falls, that is not before a time."""
    while low < high:
        middle = (low + high) // 2
        if ts[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@borrowing_kernel
def expand_by_time(
    partials: Partials, start: int, target: int, rows: TimedRows, out: GrownRoom
) -> tuple[int, int, int]:
    """`expand_by_key` where no key is there to look for: all rows of the period."""
    (times, bound, arriving, reach), (ts, base, floor, next_row) = partials, rows
    out_parents, out_rows = out
    n_out = 0
    n_partial = times.shape[1]
    for idx in range(start, n_partial):
        low, high = _period(times, bound, idx, target, arriving, reach)
        first = _first_since(ts, floor - base, next_row - base, low)
        last = _first_since(ts, first, next_row - base, high + 1)
        if n_out + last - first > out_rows.shape[0]:
            return idx, n_out, n_out
        for at in range(first, last):
            out_parents[n_out] = idx
            out_rows[n_out] = at + base
            n_out += 1
    return n_partial, n_out, n_out
