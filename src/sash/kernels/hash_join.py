"""A hash table over the rows of both inputs of a join: open addressing by key, rows chained newest first.

    slots    KEY | HEAD of left | HEAD of right          one line of the cache answers for a key on both sides
    records  NEXT, TS, EXPIRES, END of a row             one line per row that is looked at

An arriving tuple finds the slot of its key once: there it meets the other side's chain, and is put before its own. Rows
below `floor` are gone, and so is everything behind them in a chain: rows are numbered in order of arrival. A slot whose
chains are both gone is free for another key.

Tuples are taken in groups: first their slots are looked at, then the rows these lead to, then the work is done. The
processor waits for several lines of memory at a time instead of one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import borrowing_kernel, inlined_kernel, kernel

KEY, HEADS = 0, 1
SLOT_WIDTH = 4
NEXT, TS, EXPIRES, END = 0, 1, 2, 3
RECORD_WIDTH = 4
NONE = -1
FREE = -2
"""Stands for the head of the left chain in a slot that has never been used."""
GROUP = 32


class JoinSides(NamedTuple):
    """The keys and records of the side that arrives, and the records of the other; a row's stand at `row - base`."""

    keys: Int64s
    own: Int64s
    own_base: int
    other: Int64s
    other_base: int


class SlotTable(NamedTuple):
    """The slots of the keys of both sides, below which row of each side everything is gone, and how many slots may
    still be used up.
    """

    slots: Int64s
    floors: Int64s
    n_free: int


class PairRoom(NamedTuple):
    """Room for pairs: the rows of the side that arrives and of the other one, and the life of both together."""

    own: Int64s
    other: Int64s
    ts: Int64s
    expires: Int64s


@inlined_kernel
def _home_of(key: int, n_slots: int) -> np.int64:
    return np.int64(mix64(key) & np.uint64(n_slots - 1))


@inlined_kernel
def _claim(slots: Int64s, position: int, key: int, floors: Int64s) -> tuple[int, int]:
    """The slot of a key: where it is, or a free or forgotten one that it gets. Also whether a free one was used up."""
    n_slots = slots.shape[0]
    forgotten = NONE
    while slots[position, HEADS] != FREE:
        if slots[position, KEY] == key:
            return position, 0
        if forgotten == NONE and slots[position, HEADS] < floors[0] and slots[position, HEADS + 1] < floors[1]:
            forgotten = position
        position = (position + 1) & (n_slots - 1)
    n_used = 0
    if forgotten != NONE:
        position = forgotten
    else:
        n_used = 1
    slots[position, KEY] = key
    slots[position, HEADS] = NONE
    slots[position, HEADS + 1] = NONE
    return position, n_used


@kernel
def link(
    side: int, first: int, last: int, keys: Int64s, records: Int64s, base: int, table: SlotTable
) -> tuple[int, int]:
    """Puts rows `first..last-1` into the table; stops when no slot may be used up any more.

    Returns the next row, and how many slots may still be used up.
    """
    slots, floors, n_free = table
    for row in range(first, last):
        if n_free == 0:
            return row, n_free
        position, n_used = _claim(slots, _home_of(keys[row - base], slots.shape[0]), keys[row - base], floors)
        n_free -= n_used
        records[row - base, NEXT] = slots[position, HEADS + side]
        slots[position, HEADS + side] = row
    return last, n_free


@borrowing_kernel
def _reverse(first: int, last: int, out_other: Int64s, out_ts: Int64s, out_expires: Int64s) -> None:
    """Turns the pairs of one tuple round: oldest first is how most columns grow, so that less is left to sort."""
    last -= 1
    while first < last:
        out_other[first], out_other[last] = out_other[last], out_other[first]
        out_ts[first], out_ts[last] = out_ts[last], out_ts[first]
        out_expires[first], out_expires[last] = out_expires[last], out_expires[first]
        first += 1
        last -= 1


@kernel
def arrive(
    side: int, first: int, last: int, sides: JoinSides, table: SlotTable, n_out: int, out: PairRoom
) -> tuple[int, int, int, int]:
    """Joins rows `first..last-1` of a side with those of the other that are in the table, and puts them into it.

    `n_out` pairs are there already. Stops before a row whose pairs do not fit into the output, or when no slot may be
    used up any more. Returns the next row, the number of pairs, the number of slots that may still be used up, and the
    number of rows looked at.
    """
    return _arrive(side, first, last, sides, table, n_out, out, np.empty(GROUP + 1, np.int64))


@borrowing_kernel
def _arrive(
    side: int,
    first: int,
    last: int,
    sides: JoinSides,
    table: SlotTable,
    n_out: int,
    out: PairRoom,
    homes: Int64s,
) -> tuple[int, int, int, int]:
    """`arrive` with room for the homes of a group: it makes no array itself, so that none is counted per row."""
    keys, own, own_base, other, other_base = sides
    (slots, floors, n_free), (out_own, out_other, out_ts, out_expires) = table, out
    n_slots = slots.shape[0]
    other_floor = floors[1 - side]
    n_scanned = 0
    start = first
    while start < last:
        stop = min(start + GROUP, last)
        # 1. All slots, then all rows they lead to, are asked for before the first is needed.
        for row in range(start, stop):
            homes[row - start] = _home_of(keys[row - own_base], n_slots)
        touched = 0
        for row in range(start, stop):
            touched ^= slots[homes[row - start], HEADS + 1 - side]
        for row in range(start, stop):
            head = slots[homes[row - start], HEADS + 1 - side]
            if head >= other_floor:
                touched ^= other[head - other_base, TS]
        homes[GROUP] = touched  # so that the compiler does not leave the looking out
        # 2. A slot is claimed anew for every row: one before it may have taken the slot that was looked at.
        for row in range(start, stop):
            if n_free == 0:
                return row, n_out, n_free, n_scanned
            key = keys[row - own_base]
            position, n_used = _claim(slots, homes[row - start], key, floors)
            n_free -= n_used
            own_ts = own[row - own_base, TS]
            own_end = own[row - own_base, END]
            own_expires = own[row - own_base, EXPIRES]
            # 3. If the room ends within a chain, the row comes again from its beginning: nothing of it may stay.
            n_before = n_out
            candidate = slots[position, HEADS + 1 - side]
            while candidate >= other_floor:
                at = candidate - other_base
                n_scanned += 1
                ts = max(other[at, TS], own_ts)
                if ts < min(other[at, END], own_end):
                    if n_out == out_own.shape[0]:
                        return row, n_before, n_free, n_scanned
                    out_own[n_out] = row
                    out_other[n_out] = candidate
                    out_ts[n_out] = ts
                    out_expires[n_out] = min(other[at, EXPIRES], own_expires)
                    n_out += 1
                candidate = other[at, NEXT]
            if n_out - n_before > 1:
                _reverse(n_before, n_out, out_other, out_ts, out_expires)
            # 4. A row is linked when it has met the other side, so that it may come again until then.
            own[row - own_base, NEXT] = slots[position, HEADS + side]
            slots[position, HEADS + side] = row
        start = stop
    return last, n_out, n_free, n_scanned


@kernel
def count_keys(slots: Int64s, floors: Int64s) -> int:
    """How many keys have rows that are not gone."""
    n_keys = 0
    for position in range(slots.shape[0]):
        if slots[position, HEADS] >= floors[0] or slots[position, HEADS + 1] >= floors[1]:
            n_keys += 1
    return n_keys
