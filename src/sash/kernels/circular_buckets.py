"""Hash buckets that are circular buffers in order of arrival: the window buffer of Kostowski's WHJ (§2, Fig. 3).

    bucket b:   `heads[b]` holds START, CAPACITY, TAIL, COUNT: its part of `slots`, and what is in it

        slots  | 17 | 23 |    |    |  5 |  9 |        rows, oldest at `tail`, newest before `tail + count`
                           ^ next insert  ^ tail

A row is a number that grows with every insertion; its values stand at `row - base` in the columns `keys`, `ts`,
`ends`. Rows below `base` are gone. With a single bucket the same buffer serves the nested-loops join (WNL):
the paper reads it as a hash join with one bucket.

A pair of tuples joins iff their lives overlap: max(ts) < min(end). This holds in whatever order the two arrive, so a
probe need not wait for the tuples to be put in order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sash.kernels.hashing import mix64

START, CAPACITY, TAIL, COUNT = 0, 1, 2, 3
HEAD_WIDTH = 4
DEAD = np.iinfo(np.int64).min
"""The end of a row that was taken back before the buckets were built."""
FOUND = np.iinfo(np.int64).min
"""Stands for the first identity of a row that was found."""


@njit(cache=True, inline="always")
def _bucket_of(key, n_buckets):
    return np.int64(mix64(key) & np.uint64(n_buckets - 1))


@njit(cache=True, inline="always")
def _drop_stale(head, slots, base, ends, clock):
    """Removes dead tuples from the tail of a bucket; stops at the first that lives (Kostowski's `remove` step)."""
    while head[COUNT] > 0:
        row = slots[head[START] + head[TAIL]]
        if row >= base and ends[row - base] > clock:
            break
        head[TAIL] = (head[TAIL] + 1) & (head[CAPACITY] - 1)
        head[COUNT] -= 1


@njit(cache=True)
def insert(first, last, keys, ends, base, clock, heads, slots, top):
    """Inserts rows `first..last-1`; stops early when `slots` is full. Returns the next row to insert and the new top.

    A bucket that overflows moves to the top of `slots` with twice the room; what it leaves behind is reclaimed when
    the whole structure is rebuilt. Capacities are powers of two.
    """
    n_buckets = heads.shape[0]
    for row in range(first, last):
        head = heads[_bucket_of(keys[row - base], n_buckets)]
        if head[COUNT] == head[CAPACITY]:
            _drop_stale(head, slots, base, ends, clock)
        if head[COUNT] == head[CAPACITY]:
            grown = max(2 * head[CAPACITY], 2)
            if top + grown > slots.shape[0]:
                return row, top
            for i in range(head[COUNT]):
                slots[top + i] = slots[head[START] + ((head[TAIL] + i) & (head[CAPACITY] - 1))]
            head[START] = top
            head[CAPACITY] = grown
            head[TAIL] = 0
            top += grown
        slots[head[START] + ((head[TAIL] + head[COUNT]) & (head[CAPACITY] - 1))] = row
        head[COUNT] += 1
    return last, top


@njit(cache=True)
def probe(
    probe_keys, probe_ts, probe_ends, first, last, row_limit,
    keys, ts, ends, base, clock, heads, slots,
    out_probe, out_row,
):  # fmt: skip
    """Pairs the probing tuples `first..last-1` with the rows below `row_limit` that they join.

    Stops before a tuple whose bucket might not fit into the output any more. Returns the next tuple to probe with, the
    number of pairs, and the number of bucket entries scanned.
    """
    n_buckets = heads.shape[0]
    n_out = 0
    n_scanned = 0
    for i in range(first, last):
        key = probe_keys[i]
        head = heads[_bucket_of(key, n_buckets)]
        _drop_stale(head, slots, base, ends, clock)
        if n_out + head[COUNT] > out_row.shape[0]:
            return i, n_out, n_scanned
        n_scanned += head[COUNT]
        for k in range(head[COUNT]):
            row = slots[head[START] + ((head[TAIL] + k) & (head[CAPACITY] - 1))]
            position = row - base
            if (
                row < row_limit
                and row >= base
                and keys[position] == key
                and max(ts[position], probe_ts[i]) < min(ends[position], probe_ends[i])
            ):
                out_probe[n_out] = i
                out_row[n_out] = row
                n_out += 1
    return last, n_out, n_scanned


@njit(cache=True)
def find(find_keys, find_ids, keys, ids, ends, base, heads, slots, out_row):
    """For each tuple, the oldest row with the same key and the same identities, or -1. No row is found twice."""
    n_buckets = heads.shape[0]
    for i in range(find_keys.shape[0]):
        head = heads[_bucket_of(find_keys[i], n_buckets)]
        out_row[i] = -1
        for k in range(head[COUNT]):
            row = slots[head[START] + ((head[TAIL] + k) & (head[CAPACITY] - 1))]
            position = row - base
            if row < base or keys[position] != find_keys[i] or ends[position] == DEAD:
                continue
            same = True
            for c in range(find_ids.shape[1]):
                if ids[position, c] != find_ids[i, c]:
                    same = False
                    break
            if same:
                out_row[i] = row
                ids[position, 0] = FOUND
                break
