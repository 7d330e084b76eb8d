"""Kostowski's window joins tuple by tuple (§2, Fig. 2 and 3), and the same buckets for steps that go in phases.

A pair joins iff keys are equal and lives overlap: max(ts) < min(end). Every pair is checked, so what is found does not
depend on the order of arrival; order only decides what is stale at the tail of a bucket, and may be removed. With a
single bucket this is the windowed nested-loops join (WNL).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.buckets import (
    CAPACITY,
    COUNT,
    HELD,
    INSERTED,
    OUTPUT,
    ROW,
    SAMPLED,
    SCANNED,
    START,
    TAIL,
    bucket_of,
    has_slot,
    insert_row,
    is_clogged,
    remove_all_stale,
    remove_stale,
    scan,
)
from sash.kernels.jit import borrowing_kernel, inlined_borrowing

DONE, PAUSED, NO_OUTPUT_ROOM, NO_LEFT_ROOM, NO_RIGHT_ROOM = 0, 1, 2, 3, 4
PROBE, PROBE_INSERT, PROBE_ALL, OPTIMAL = 0, 1, 2, 3
DEAD = np.iinfo(np.int64).min
"""The end of a row that was taken back before the buckets were built."""
FOUND = np.iinfo(np.int64).min
"""Stands for the first identity of a row that was found."""


class Samples(NamedTuple):
    """Instants, ascending, and how many tuples the left and right side hold then."""

    at: np.ndarray
    held: np.ndarray


@inlined_borrowing
def _arrive_one(row, own, other, horizon, strategy, out_own, out_other, n_out, counters):
    """A tuple arrives: invalidate the opposite bucket, scan it, insert into the own one. Returns `n_out`, -1, or -2.

    -1: the output might not suffice; -2: the slots of the own side might not. Nothing has been done then.
    """
    at = row - own.base
    key = own.keys[at]
    bucket, opposite = bucket_of(key, own.heads), bucket_of(key, other.heads)
    if n_out + other.heads[opposite, COUNT] > out_own.shape[0]:
        return -1
    if is_clogged(own, bucket):
        remove_stale(own, bucket, DEAD, counters)
    if not has_slot(own, bucket):
        return -2
    if strategy in (PROBE, PROBE_INSERT):
        remove_stale(other, opposite, horizon, counters)
    else:
        remove_all_stale(other, horizon, counters)
    counters[SCANNED] += other.heads[opposite, COUNT]
    probe = (key, own.ts[at], own.ends[at])
    n_found = scan(other, opposite, probe, row, out_own, out_other, n_out)
    counters[OUTPUT] += n_found - n_out
    if strategy == PROBE_INSERT:
        remove_stale(own, bucket, horizon, counters)
    elif strategy == OPTIMAL:
        remove_all_stale(own, horizon, counters)
    insert_row(own, bucket, row)
    counters[INSERTED] += 1
    return n_found


@borrowing_kernel
def arrive(left, right, orders, at, n_most, limit, strategy, out_left, out_right, counters, samples):
    """Lets the rows of both sides arrive in order of time, left first on ties, `n_most` at most.

    `orders` are the rows of each side in order of time, `at` says how far each has come and is moved on. A tuple is
    stale when it ends by the time of the arriving one, or by `limit` if that is earlier. Returns why it stopped and
    the number of pairs; stops between tuples only.
    """
    left_order, right_order = orders
    n_out = 0
    for _ in range(n_most):
        has_left, has_right = at[0] < left_order.shape[0], at[1] < right_order.shape[0]
        if not has_left and not has_right:
            return DONE, n_out
        left_ts = left.ts[left_order[at[0]] - left.base] if has_left else np.iinfo(np.int64).max
        right_ts = right.ts[right_order[at[1]] - right.base] if has_right else np.iinfo(np.int64).max
        is_left = has_left and (left_ts <= right_ts or not has_right)
        now = left_ts if is_left else right_ts
        while counters[SAMPLED] < samples.at.shape[0] and samples.at[counters[SAMPLED]] < now:
            samples.held[counters[SAMPLED], 0] = left.state[HELD]
            samples.held[counters[SAMPLED], 1] = right.state[HELD]
            counters[SAMPLED] += 1
        horizon = min(now, limit)
        if is_left:
            row = left_order[at[0]]
            n_found = _arrive_one(row, left, right, horizon, strategy, out_left, out_right, n_out, counters)
        else:
            row = right_order[at[1]]
            n_found = _arrive_one(row, right, left, horizon, strategy, out_right, out_left, n_out, counters)
        if n_found == -1:
            return NO_OUTPUT_ROOM, n_out
        if n_found == -2:
            return NO_LEFT_ROOM if is_left else NO_RIGHT_ROOM, n_out
        n_out = n_found
        at[0 if is_left else 1] += 1
    return PAUSED, n_out


@borrowing_kernel
def insert(table, first, last, horizon, is_eager, counters):
    """Inserts rows `first..last-1` that are not stale; returns the next row: not `last` when the slots are full.

    A bucket that overflows drops what is stale before it grows; if `is_eager`, every bucket that a row goes into.
    """
    for row in range(first, last):
        if table.ends[row - table.base] <= horizon:
            continue
        key = table.keys[row - table.base]
        bucket = bucket_of(key, table.heads)
        if is_eager or table.heads[bucket, COUNT] == table.heads[bucket, CAPACITY]:
            remove_stale(table, bucket, horizon, counters)
        if not has_slot(table, bucket):
            return row
        insert_row(table, bucket, row)
        counters[INSERTED] += 1
    return last


@borrowing_kernel
def probe(table, keys, ts, ends, first, last, row_limit, horizon, out_probe, out_row, counters):
    """Pairs the probing tuples `first..last-1` with the rows below `row_limit` that they join.

    Stops before a tuple whose bucket might not fit into the output any more. Returns the next tuple to probe with and
    the number of pairs.
    """
    n_out = 0
    for i in range(first, last):
        bucket = bucket_of(keys[i], table.heads)
        if n_out + table.heads[bucket, COUNT] > out_row.shape[0]:
            return i, n_out
        remove_stale(table, bucket, horizon, counters)
        counters[SCANNED] += table.heads[bucket, COUNT]
        n_found = scan(table, bucket, (keys[i], ts[i], ends[i]), i, out_probe, out_row, n_out)
        for j in range(n_out, n_found):
            row = out_row[j]
            if table.base <= row < row_limit and max(table.ts[row - table.base], ts[i]) < table.ends[row - table.base]:
                out_probe[n_out], out_row[n_out] = i, row
                n_out += 1
                counters[OUTPUT] += 1
    return last, n_out


@borrowing_kernel
def find(table, keys, ids, times, own_ids, out_row):
    """For each tuple, the row with the same key and identities that is alive until its time, or -1; each row once.

    An identity may come back after it was gone, also within a step: of several rows the newest before the time is
    meant, as it is only one at a time that lives.
    """
    heads, base = table.heads, table.base
    for i in range(keys.shape[0]):
        bucket = bucket_of(keys[i], heads)
        found = -1
        for k in range(heads[bucket, COUNT]):
            slot = heads[bucket, START] + ((heads[bucket, TAIL] + k) & (heads[bucket, CAPACITY] - 1))
            row = table.slots[slot, ROW]
            if table.slot_keys[slot] != keys[i] or row < base:
                continue
            if not table.ts[row - base] < times[i] <= table.ends[row - base]:
                continue
            if found >= 0 and table.ts[row - base] <= table.ts[found - base]:
                continue
            same = True
            for c in range(ids.shape[1]):
                if own_ids[row - base, c] != ids[i, c]:
                    same = False
                    break
            if same:
                found = row
        out_row[i] = found
        if found >= 0 and ids.shape[1]:
            own_ids[found - base, 0] = FOUND
