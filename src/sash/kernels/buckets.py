"""Hash buckets that are circular buffers in order of arrival: the window buffer of Kostowski's joins (§2).

    bucket b:   `heads[b]` holds START, CAPACITY, TAIL, COUNT: its part of the slots, and what is in it

        slot_keys  | ka | kb |    |    | kc | ka |     a scan reads keys from end to end, and nothing else
        slots      | 17 | 23 |    |    |  5 |  9 |     ROW, TIME and END of each: what a pair needs lies together
                               ^ next insert  ^ tail

A row is a number that grows with every tuple of a side; its values stand at `row - base` in the columns. Rows below
`base` are gone. Capacities are powers of two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import borrowing_kernel, inlined_borrowing

START, CAPACITY, TAIL, COUNT = 0, 1, 2, 3
HEAD_WIDTH = 4
ROW, TIME, END = 0, 1, 2
SLOT_WIDTH = 3
TOP, HELD = 0, 1
"""The state of a table: how much of the slots has been given to buckets, and how many tuples are in them."""
SCANNED, INSERTED, INVALIDATED, CHECKED, OUTPUT, SAMPLED = 0, 1, 2, 3, 4, 5
N_COUNTERS = 6


class Table(NamedTuple):
    """One side: the columns of its rows, and its buckets."""

    keys: Int64s
    ts: Int64s
    ends: Int64s
    base: int
    heads: Int64s
    slot_keys: Int64s
    slots: Int64s
    state: Int64s


@inlined_borrowing
def bucket_of(key: int, heads: Int64s) -> np.int64:
    n_buckets = np.uint64(heads.shape[0])
    if n_buckets & (n_buckets - np.uint64(1)) == 0:  # a division takes longer than the rest
        return np.int64(mix64(key) & (n_buckets - np.uint64(1)))
    return np.int64(mix64(key) % n_buckets)


@inlined_borrowing
def remove_stale(table: Table, bucket: int, horizon: int, counters: Int64s) -> None:
    """Removes what ends by the horizon from the tail of a bucket, up to the first tuple that does not."""
    heads = table.heads
    start, capacity = heads[bucket, START], heads[bucket, CAPACITY]
    tail, count = heads[bucket, TAIL], heads[bucket, COUNT]
    n_stale = 0
    while n_stale < count:
        row = table.slots[start + tail, ROW]
        if row >= table.base and table.ends[row - table.base] > horizon:
            break
        tail = (tail + 1) & (capacity - 1)
        n_stale += 1
    counters[CHECKED] += 1 + n_stale
    if n_stale:
        heads[bucket, TAIL] = tail
        heads[bucket, COUNT] = count - n_stale
        table.state[HELD] -= n_stale
        counters[INVALIDATED] += n_stale


@borrowing_kernel
def remove_all_stale(table: Table, horizon: int, counters: Int64s) -> None:
    """Removes what ends by the horizon from the tails of all buckets."""
    for bucket in range(table.heads.shape[0]):
        remove_stale(table, bucket, horizon, counters)


@inlined_borrowing
def is_clogged(table: Table, bucket: int) -> bool:
    """Whether a bucket is full, with a row at its tail that its owner does not have any more."""
    heads = table.heads
    is_full = 0 < heads[bucket, COUNT] == heads[bucket, CAPACITY]
    return is_full and table.slots[heads[bucket, START] + heads[bucket, TAIL], ROW] < table.base


@inlined_borrowing
def has_slot(table: Table, bucket: int) -> bool:
    """Whether a bucket has a slot left, or can move to a larger place."""
    capacity = table.heads[bucket, CAPACITY]
    if table.heads[bucket, COUNT] < capacity:
        return True
    return table.state[TOP] + max(2 * capacity, 2) <= table.slots.shape[0]


@borrowing_kernel
def _grow(table: Table, bucket: int) -> None:
    """Moves a bucket to the top of the slots, with twice the room. What it leaves is reclaimed by `move_together`."""
    heads, top = table.heads, table.state[TOP]
    start, capacity, tail = heads[bucket, START], heads[bucket, CAPACITY], heads[bucket, TAIL]
    for i in range(heads[bucket, COUNT]):
        slot = start + ((tail + i) & (capacity - 1))
        table.slot_keys[top + i] = table.slot_keys[slot]
        for c in range(SLOT_WIDTH):
            table.slots[top + i, c] = table.slots[slot, c]
    heads[bucket, START] = top
    heads[bucket, CAPACITY] = max(2 * capacity, 2)
    heads[bucket, TAIL] = 0
    table.state[TOP] = top + heads[bucket, CAPACITY]


@inlined_borrowing
def insert_row(table: Table, bucket: int, row: int) -> None:
    """Puts a row at the head of a bucket. There must be a slot for it, or room to grow."""
    heads = table.heads
    if heads[bucket, COUNT] == heads[bucket, CAPACITY]:
        _grow(table, bucket)
    slot = heads[bucket, START] + ((heads[bucket, TAIL] + heads[bucket, COUNT]) & (heads[bucket, CAPACITY] - 1))
    at = row - table.base
    table.slot_keys[slot] = table.keys[at]
    table.slots[slot, ROW] = row
    table.slots[slot, TIME] = table.ts[at]
    table.slots[slot, END] = table.ends[at]
    heads[bucket, COUNT] += 1
    table.state[HELD] += 1


@inlined_borrowing
def scan(
    table: Table,
    bucket: int,
    probe: tuple[int, int, int],
    own_value: int,
    out_own: Int64s,
    out_rows: Int64s,
    n_out: int,
) -> int:
    """Puts out the rows of a bucket that join a tuple (key, ts, end), each beside `own_value`. Returns `n_out`.

    Slots with the key are gathered first, without a branch that could be mispredicted; there is room for all.
    """
    key, ts, end = probe
    # 1. A ring is two stretches of slots. Every slot is written down, and kept by counting it if it has the key.
    start, tail, count = table.heads[bucket, START], table.heads[bucket, TAIL], table.heads[bucket, COUNT]
    n_first = min(count, table.heads[bucket, CAPACITY] - tail)
    n_same = n_out
    for part in range(2):
        first = start + tail if part == 0 else start
        last = first + n_first if part == 0 else start + count - n_first
        for slot in range(np.uint64(first), np.uint64(last)):
            out_rows[np.uint64(n_same)] = slot
            n_same += table.slot_keys[slot] == key
    # 2. Pairs are never more than slots looked at, so they can be written over these.
    for i in range(n_out, n_same):
        slot = out_rows[i]
        if max(table.slots[slot, TIME], ts) < min(table.slots[slot, END], end):
            out_own[n_out] = own_value
            out_rows[n_out] = table.slots[slot, ROW]
            n_out += 1
    return n_out


@borrowing_kernel
def _reverse(values: Int64s, first: int, last: int) -> None:
    last -= 1
    while first < last:
        for c in range(values.shape[1]):
            values[first, c], values[last, c] = values[last, c], values[first, c]
        first += 1
        last -= 1


@borrowing_kernel
def _straighten(values: Int64s, start: int, capacity: int, tail: int) -> None:
    """Turns a circular buffer in its place so that its tail comes first."""
    _reverse(values, start, start + tail)
    _reverse(values, start + tail, start + capacity)
    _reverse(values, start, start + capacity)


@borrowing_kernel
def _slide(values: Int64s, start: int, count: int, top: int) -> None:
    for i in range(count):
        for c in range(values.shape[1]):
            values[top + i, c] = values[start + i, c]


@borrowing_kernel
def move_together(heads: Int64s, slot_keys: Int64s, slots: Int64s, by_start: Int64s) -> int:
    """Moves all buckets, given in order of their place, to the beginning of the slots, each with just enough room.

    `slot_keys` has one column. Returns the new top.
    """
    top = 0
    for bucket in by_start:
        start, capacity = heads[bucket, START], heads[bucket, CAPACITY]
        tail, count = heads[bucket, TAIL], heads[bucket, COUNT]
        # 1. In its own place first: what is moved then lies in one stretch, at or behind where it goes.
        _straighten(slot_keys, start, capacity, tail)
        _straighten(slots, start, capacity, tail)
        _slide(slot_keys, start, count, top)
        _slide(slots, start, count, top)
        # 2. Capacities stay powers of two.
        while capacity > 2 and capacity // 2 >= count:
            capacity //= 2
        heads[bucket, START] = top
        heads[bucket, CAPACITY] = capacity
        heads[bucket, TAIL] = 0
        top += capacity
    return top
