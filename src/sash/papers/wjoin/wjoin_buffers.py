"""The buffers of a pipeline of window joins: chains of slots in buckets, and the update routine of HW-join (§3.1.2).

A node of the pipeline joins a left stream, tuples of the first streams joined so far (m_tuples), with a right one. Each
of its sides has a buffer: number 2 * node + side. All buffers share one pool of slots. A slot stands for an interval
[low, high]: that of a source tuple is its time-stamp, that of an m_tuple its period, where tuples of the node's right
stream may lie. So a tuple and an m_tuple are within the window if their intervals meet, and a slot is out if its
interval ends before the horizon of its buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.hashing import mix64
from sash.kernels.jit import borrowing_kernel, inlined_borrowing

COMPARED, INSERTED, REMOVED, CHECKED, OUTPUT = 0, 1, 2, 3, 4
"""Places of the counters."""
LEFT, RIGHT = 0, 1
NONE = -1
UNLISTED = np.iinfo(np.int64).min
"""Since when a bucket that is not in its list has not been visited."""


class Slots(NamedTuple):
    """Source tuples and m_tuples: a row number and a time-stamp for each member, in the columns of its stream."""

    rows: np.ndarray
    ts: np.ndarray
    keys: np.ndarray
    low: np.ndarray
    high: np.ndarray
    following: np.ndarray
    """The next slot of the same bucket, or of the free ones."""
    free: np.ndarray
    """[the first free slot]"""


class Buckets(NamedTuple):
    """Chains of slots. Those of a buffer that are not empty are in a list, the longest unvisited one first."""

    first: np.ndarray
    last: np.ndarray
    visited_at: np.ndarray
    before: np.ndarray
    after: np.ndarray
    starts: np.ndarray
    """The first bucket of each buffer, and the end of all."""
    stalest: np.ndarray
    freshest: np.ndarray
    held: np.ndarray
    """How many slots are in each buffer."""


@inlined_borrowing
def bucket_of(buffer, keys, slot, node_keys, buckets):
    """The bucket of a buffer for the keys that its node compares; a buffer may have one bucket alone."""
    start = buckets.starts[buffer]
    n_buckets = buckets.starts[buffer + 1] - start
    if n_buckets == 1:
        return start
    hashed = np.uint64(0)
    for key in range(keys.shape[1]):
        if node_keys[buffer >> 1, key]:
            hashed = mix64(hashed * np.uint64(31) + mix64(keys[slot, key]))
    return start + np.int64(hashed & np.uint64(n_buckets - 1))


@borrowing_kernel
def take_slot(slots):
    """A slot that was free. There must be one."""
    slot = slots.free[0]
    slots.free[0] = slots.following[slot]
    return slot


@borrowing_kernel
def append(slot, buffer, clock, node_keys, slots, buckets):
    """Puts a slot at the end of its bucket."""
    bucket = bucket_of(buffer, slots.keys, slot, node_keys, buckets)
    slots.following[slot] = NONE
    if buckets.first[bucket] == NONE:
        buckets.first[bucket] = slot
    else:
        slots.following[buckets.last[bucket]] = slot
    buckets.last[bucket] = slot
    buckets.held[buffer] += 1
    if buckets.visited_at[bucket] == UNLISTED:
        _list_last(bucket, buffer, clock, buckets)


@borrowing_kernel
def remove(slot, previous, bucket, buffer, slots, buckets):
    """Takes a slot out of its bucket and frees it. `previous` is the one before it, or NONE. Returns the next one."""
    following = slots.following[slot]
    if previous == NONE:
        buckets.first[bucket] = following
    else:
        slots.following[previous] = following
    if following == NONE:
        buckets.last[bucket] = previous
    buckets.held[buffer] -= 1
    slots.following[slot] = slots.free[0]
    slots.free[0] = slot
    return following


@borrowing_kernel
def touch(bucket, buffer, clock, buckets):
    """Notes that a bucket is visited now."""
    if buckets.visited_at[bucket] != UNLISTED:
        _unlist(bucket, buffer, buckets)
        _list_last(bucket, buffer, clock, buckets)


@borrowing_kernel
def sweep(bucket, buffer, horizon, slots, buckets, counters):
    """Removes the slots of a bucket that are out."""
    previous, slot = NONE, buckets.first[bucket]
    while slot != NONE:
        counters[CHECKED] += 1
        if slots.high[slot] < horizon:
            counters[REMOVED] += 1
            slot = remove(slot, previous, bucket, buffer, slots, buckets)
        else:
            previous, slot = slot, slots.following[slot]


@borrowing_kernel
def update_rarely_probed(buffer, clock, span, horizon, slots, buckets, counters):
    """HW-join's update routine: sweeps the buckets that nothing has probed for longer than their tuples live.

    Every tuple that was there when such a bucket was visited last may have gone out unseen. Each look at the bucket
    that has waited longest is a check, as is each tuple of those swept.
    """
    while buckets.stalest[buffer] != NONE:
        bucket = buckets.stalest[buffer]
        counters[CHECKED] += 1
        if clock - buckets.visited_at[bucket] <= span:
            return
        sweep(bucket, buffer, horizon, slots, buckets, counters)
        _unlist(bucket, buffer, buckets)
        if buckets.first[bucket] == NONE:
            buckets.visited_at[bucket] = UNLISTED
        else:
            _list_last(bucket, buffer, clock, buckets)


@borrowing_kernel
def regroup(old, new, slots, node_keys):
    """Moves all slots into buckets of other numbers. The order of visits stays as it was."""
    for buffer in range(old.held.shape[0]):
        bucket = old.stalest[buffer]
        while bucket != NONE:
            slot = old.first[bucket]
            while slot != NONE:
                following = slots.following[slot]
                append(slot, buffer, old.visited_at[bucket], node_keys, slots, new)
                slot = following
            bucket = old.after[bucket]


@borrowing_kernel
def _list_last(bucket, buffer, clock, buckets):
    freshest = buckets.freshest[buffer]
    buckets.visited_at[bucket] = clock
    buckets.before[bucket] = freshest
    buckets.after[bucket] = NONE
    if freshest == NONE:
        buckets.stalest[buffer] = bucket
    else:
        buckets.after[freshest] = bucket
    buckets.freshest[buffer] = bucket


@borrowing_kernel
def _unlist(bucket, buffer, buckets):
    before, after = buckets.before[bucket], buckets.after[bucket]
    if before == NONE:
        buckets.stalest[buffer] = after
    else:
        buckets.after[before] = after
    if after == NONE:
        buckets.freshest[buffer] = before
    else:
        buckets.before[after] = before
