"""Kostowski's window joins tuple by tuple (§2, Fig. 2 and 3), and the same buckets for steps that go in phases.

A pair joins iff keys are equal and lives overlap: max(ts) < min(end). Every pair is checked, so what is found does not
depend on the order of arrival; order only decides what is stale at the tail of a bucket, and may be removed. With a
single bucket this is the windowed nested-loops join (WNL).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
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
    Table,
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

    at: Int64s
    held: Int64s


class OrderedArrivals(NamedTuple):
    """The rows of each side in order of time, and how far each side has come, which is moved on."""

    left: Int64s
    right: Int64s
    at: Int64s


class MatchRoom(NamedTuple):
    """Room for pairs: rows of the side that arrives or probing tuples, and rows of the other side."""

    own: Int64s
    other: Int64s


class ProbingTuples(NamedTuple):
    """Tuples that look for rows, and are not put into buckets."""

    keys: Int64s
    ts: Int64s
    ends: Int64s


@inlined_borrowing
def _arrive_one(
    row: int, own: Table, other: Table, horizon: int, strategy: int, out: MatchRoom, n_out: int, counters: Int64s
) -> int:
    """A tuple arrives: invalidate the opposite bucket, scan it, insert into the own one. Returns `n_out`, -1, or -2.

    -1: the output might not suffice; -2: the slots of the own side might not. Nothing has been done then.
    """
    out_own, out_other = out
    at = row - own.base
    key = own.keys[at]
    bucket, opposite = bucket_of(key, own.heads), bucket_of(key, other.heads)
    # 1. Whether there is room, before anything changes. A row that its owner has forgotten may make some.
    if n_out + other.heads[opposite, COUNT] > out_own.shape[0]:
        return -1
    if is_clogged(own, bucket):
        remove_stale(own, bucket, DEAD, counters)
    if not has_slot(own, bucket):
        return -2
    # 2. What is stale in the opposite bucket is not scanned.
    if strategy in (PROBE, PROBE_INSERT):
        remove_stale(other, opposite, horizon, counters)
    else:
        remove_all_stale(other, horizon, counters)
    counters[SCANNED] += other.heads[opposite, COUNT]
    probe = (key, own.ts[at], own.ends[at])
    n_found = scan(other, opposite, probe, row, out_own, out_other, n_out)
    counters[OUTPUT] += n_found - n_out
    # 3. The tuple itself goes in last: it does not join its own side.
    if strategy == PROBE_INSERT:
        remove_stale(own, bucket, horizon, counters)
    elif strategy == OPTIMAL:
        remove_all_stale(own, horizon, counters)
    insert_row(own, bucket, row)
    counters[INSERTED] += 1
    return n_found


@borrowing_kernel
def arrive(
    left: Table,
    right: Table,
    arrivals: OrderedArrivals,
    n_most: int,
    bounds: tuple[int, int],
    out: MatchRoom,
    counters: Int64s,
    samples: Samples,
) -> tuple[int, int]:
    """Lets the rows of both sides arrive in order of time, left first on ties, `n_most` at most.

    `bounds` are a limit and the strategy: a tuple is stale when it ends by the time of the arriving one, or by the
    limit if that is earlier. `out.own` is for rows of the left side. Returns why it stopped and the number of pairs;
    stops between tuples only.
    """
    (left_order, right_order, at), (limit, strategy) = arrivals, bounds
    out_of_right = MatchRoom(out.other, out.own)
    n_out = 0
    for _ in range(n_most):
        # 1. Who is next; a side that has come to its end is later than any.
        has_left, has_right = at[0] < left_order.shape[0], at[1] < right_order.shape[0]
        if not has_left and not has_right:
            return DONE, n_out
        left_ts = left.ts[left_order[at[0]] - left.base] if has_left else np.iinfo(np.int64).max
        right_ts = right.ts[right_order[at[1]] - right.base] if has_right else np.iinfo(np.int64).max
        is_left = has_left and (left_ts <= right_ts or not has_right)
        now = left_ts if is_left else right_ts
        # 2. An instant is over when a later tuple arrives: what was held then is what is held now.
        while counters[SAMPLED] < samples.at.shape[0] and samples.at[counters[SAMPLED]] < now:
            samples.held[counters[SAMPLED], 0] = left.state[HELD]
            samples.held[counters[SAMPLED], 1] = right.state[HELD]
            counters[SAMPLED] += 1
        # 3. Both sides are one code path; only if it has arrived is a tuple passed over.
        horizon = min(now, limit)
        if is_left:
            row = left_order[at[0]]
            n_found = _arrive_one(row, left, right, horizon, strategy, out, n_out, counters)
        else:
            row = right_order[at[1]]
            n_found = _arrive_one(row, right, left, horizon, strategy, out_of_right, n_out, counters)
        if n_found == -1:
            return NO_OUTPUT_ROOM, n_out
        if n_found == -2:
            return NO_LEFT_ROOM if is_left else NO_RIGHT_ROOM, n_out
        n_out = n_found
        at[0 if is_left else 1] += 1
    return PAUSED, n_out


@borrowing_kernel
def insert(table: Table, first: int, last: int, horizon: int, is_eager: bool, counters: Int64s) -> int:
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
def probe(
    table: Table,
    probing: ProbingTuples,
    first: int,
    last: int,
    row_limit: int,
    horizon: int,
    out: MatchRoom,
    counters: Int64s,
) -> tuple[int, int]:
    """Pairs the probing tuples `first..last-1` with the rows below `row_limit` that they join.

    Stops before a tuple whose bucket might not fit into the output any more. Returns the next tuple to probe with and
    the number of pairs.
    """
    (keys, ts, ends), (out_probe, out_row) = probing, out
    n_out = 0
    for i in range(first, last):
        bucket = bucket_of(keys[i], table.heads)
        if n_out + table.heads[bucket, COUNT] > out_row.shape[0]:
            return i, n_out
        remove_stale(table, bucket, horizon, counters)
        counters[SCANNED] += table.heads[bucket, COUNT]
        # Slots know when a tuple was to end, its owner if it was taken back since: that is looked at of pairs alone.
        n_found = scan(table, bucket, (keys[i], ts[i], ends[i]), i, out_probe, out_row, n_out)
        for j in range(n_out, n_found):
            row = out_row[j]
            if table.base <= row < row_limit and max(table.ts[row - table.base], ts[i]) < table.ends[row - table.base]:
                out_probe[n_out], out_row[n_out] = i, row
                n_out += 1
                counters[OUTPUT] += 1
    return last, n_out


@borrowing_kernel
def find(table: Table, keys: Int64s, ids: Int64s, times: Int64s, own_ids: Int64s, out_row: Int64s) -> None:
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
            # 1. What costs least is compared first; identities last.
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
        # 2. A row that is found cannot be found again.
        out_row[i] = found
        if found >= 0 and ids.shape[1]:
            own_ids[found - base, 0] = FOUND
