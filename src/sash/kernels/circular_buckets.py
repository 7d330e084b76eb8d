"""Hash buckets that are circular buffers in order of arrival: the window buffer of Kostowski's WHJ (§2, Fig. 3).

    bucket b:   start[b] .. start[b] + capacity[b]  in `slots`

        slots  | 17 | 23 |    |    |  5 |  9 |        rows, oldest at `tail`, newest before `tail + count`
                           ^ next insert  ^ tail

A row is a number that grows with every insertion; its values stand at `row - base` in the columns `keys`, `ts`,
`expires`, `ends`. Rows below `base` are gone. With a single bucket the same buffer serves the nested-loops join (WNL):
the paper reads it as a hash join with one bucket.

A pair of tuples joins iff their lives overlap: max(ts) < min(end). This holds in whatever order the two arrive, so a
probe need not wait for the tuples to be put in order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sash.kernels.hashing import mix64


@njit(cache=True, inline="always")
def _bucket_of(key, n_buckets):
    return np.int64(mix64(key) & np.uint64(n_buckets - 1))


@njit(cache=True, inline="always")
def _drop_stale(bucket, start, capacity, tail, count, slots, base, ends, clock):
    """Removes dead tuples from the tail of a bucket; stops at the first that lives (Kostowski's `remove` step)."""
    while count[bucket] > 0:
        row = slots[start[bucket] + tail[bucket]]
        if row >= base and ends[row - base] > clock:
            break
        tail[bucket] = (tail[bucket] + 1) % capacity[bucket]
        count[bucket] -= 1


@njit(cache=True)
def insert(first, last, keys, ends, base, clock, start, capacity, tail, count, slots, top):
    """Inserts rows `first..last-1`; stops early when `slots` is full. Returns the next row to insert and the new top.

    A bucket that overflows moves to the top of `slots` with twice the room; what it leaves behind is reclaimed when
    the whole structure is rebuilt.
    """
    n_buckets = start.shape[0]
    for row in range(first, last):
        bucket = _bucket_of(keys[row - base], n_buckets)
        if count[bucket] == capacity[bucket]:
            _drop_stale(bucket, start, capacity, tail, count, slots, base, ends, clock)
        if count[bucket] == capacity[bucket]:
            grown = max(2 * capacity[bucket], 2)
            if top + grown > slots.shape[0]:
                return row, top
            for i in range(count[bucket]):
                slots[top + i] = slots[start[bucket] + (tail[bucket] + i) % capacity[bucket]]
            start[bucket] = top
            capacity[bucket] = grown
            tail[bucket] = 0
            top += grown
        slots[start[bucket] + (tail[bucket] + count[bucket]) % capacity[bucket]] = row
        count[bucket] += 1
    return last, top


@njit(cache=True)
def probe(
    probe_keys, probe_ts, probe_ends, first, row_limit,
    keys, ts, ends, base, clock, start, capacity, tail, count, slots,
    out_probe, out_row,
):  # fmt: skip
    """Pairs each probing tuple, from `first` on, with the rows below `row_limit` that it joins.

    Stops before a tuple whose bucket might not fit into the output any more. Returns the next tuple to probe with, the
    number of pairs, and the number of bucket entries scanned.
    """
    n_buckets = start.shape[0]
    n_out = 0
    n_scanned = 0
    for i in range(first, probe_keys.shape[0]):
        key = probe_keys[i]
        bucket = _bucket_of(key, n_buckets)
        _drop_stale(bucket, start, capacity, tail, count, slots, base, ends, clock)
        if n_out + count[bucket] > out_row.shape[0]:
            return i, n_out, n_scanned
        n_scanned += count[bucket]
        for k in range(count[bucket]):
            row = slots[start[bucket] + (tail[bucket] + k) % capacity[bucket]]
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
    return probe_keys.shape[0], n_out, n_scanned


@njit(cache=True)
def find(find_keys, find_ids, keys, ids, ends, base, start, capacity, tail, count, slots, out_row):
    """For each tuple, the live row with the same key and the same identities, or -1."""
    n_buckets = start.shape[0]
    for i in range(find_keys.shape[0]):
        bucket = _bucket_of(find_keys[i], n_buckets)
        out_row[i] = -1
        for k in range(count[bucket]):
            row = slots[start[bucket] + (tail[bucket] + k) % capacity[bucket]]
            position = row - base
            if row < base or keys[position] != find_keys[i]:
                continue
            same = True
            for c in range(find_ids.shape[1]):
                if ids[position, c] != find_ids[i, c]:
                    same = False
                    break
            if same:
                out_row[i] = row
                break
