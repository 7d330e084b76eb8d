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

import numpy as np

from sash.kernels.hashing import mix64
from sash.kernels.jit import inlined_kernel, kernel

KEY, HEADS = 0, 1
SLOT_WIDTH = 4
NEXT, TS, EXPIRES, END = 0, 1, 2, 3
RECORD_WIDTH = 4
NONE = -1
FREE = -2
"""Stands for the head of the left chain in a slot that has never been used."""
GROUP = 32


@inlined_kernel
def _home_of(key, n_slots):
    return np.int64(mix64(key) & np.uint64(n_slots - 1))


@inlined_kernel
def _claim(slots, position, key, floors):
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
def link(side, first, last, keys, records, base, floors, slots, n_free):
    """Puts rows `first..last-1` into the table; stops when no slot may be used up any more. Returns the next row."""
    for row in range(first, last):
        if n_free == 0:
            return row, n_free
        position, n_used = _claim(slots, _home_of(keys[row - base], slots.shape[0]), keys[row - base], floors)
        n_free -= n_used
        records[row - base, NEXT] = slots[position, HEADS + side]
        slots[position, HEADS + side] = row
    return last, n_free


@kernel
def _reverse(first, last, out_other, out_ts, out_expires):
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
    side, first, last, keys, own, own_base, other, other_base, floors, slots, n_free,
    n_out, out_own, out_other, out_ts, out_expires,
):  # fmt: skip
    """Joins rows `first..last-1` of a side with those of the other that are in the table, and puts them into it.

    `n_out` pairs are there already. Stops before a row whose pairs do not fit into the output, or when no slot may be
    used up any more. Returns the next row, the number of pairs, the number of slots that may still be used up, and the
    number of rows looked at.
    """
    n_slots = slots.shape[0]
    other_floor = floors[1 - side]
    homes = np.empty(GROUP + 1, np.int64)
    n_scanned = 0
    start = first
    while start < last:
        stop = min(start + GROUP, last)
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
        for row in range(start, stop):
            if n_free == 0:
                return row, n_out, n_free, n_scanned
            key = keys[row - own_base]
            position, n_used = _claim(slots, homes[row - start], key, floors)
            n_free -= n_used
            own_ts = own[row - own_base, TS]
            own_end = own[row - own_base, END]
            own_expires = own[row - own_base, EXPIRES]
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
            own[row - own_base, NEXT] = slots[position, HEADS + side]
            slots[position, HEADS + side] = row
        start = stop
    return last, n_out, n_free, n_scanned


@kernel
def count_keys(slots, floors):
    """How many keys have rows that are not gone."""
    n_keys = 0
    for position in range(slots.shape[0]):
        if slots[position, HEADS] >= floors[0] or slots[position, HEADS + 1] >= floors[1]:
            n_keys += 1
    return n_keys
