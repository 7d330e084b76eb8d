"""The buffers of a pipeline of window joins: chains of slots in buckets, and the update routine of HW-join (§3.1.2).

A node of the pipeline joins a left stream, tuples of the first streams joined so far (m_tuples), with a right one. Each
of its sides has a buffer: number 2 * node + side. All buffers share one pool of slots. A slot stands for an interval
[low, high]: that of a source tuple is its time-stamp, that of an m_tuple its period, where tuples of the node's right
stream may lie. So a tuple and an m_tuple are within the window if their intervals meet, and a slot is out if its
interval ends before the horizon of its buffer.
"""

# pyright: reportArgumentType=false
# An item at a place that is itself an item is an array to pyright, and a number to numba.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Bools, Int64s
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

    rows: Int64s
    ts: Int64s
    keys: Int64s
    low: Int64s
    high: Int64s
    following: Int64s
    """The next slot of the same bucket, or of the free ones."""
    free: Int64s
    """[the first free slot]"""


class Buckets(NamedTuple):
    """Chains of slots. Those of a buffer that are not empty are in a list, the longest unvisited one first."""

    first: Int64s
    last: Int64s
    visited_at: Int64s
    before: Int64s
    after: Int64s
    starts: Int64s
    """The first bucket of each buffer, and the end of all."""
    stalest: Int64s
    freshest: Int64s
    held: Int64s
    """How many slots are in each buffer."""
    horizons: Int64s
    """What ends before it is out, in each buffer."""


@inlined_borrowing
def bucket_of(buffer: int, keys: Int64s, slot: int, node_keys: Bools, buckets: Buckets) -> int | np.int64:
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
def take_slot(slots: Slots) -> int:
    """A slot that was free. There must be one."""
    slot = slots.free[0]
    slots.free[0] = slots.following[slot]
    return slot


@borrowing_kernel
def append(slot: int, buffer: int, clock: int, node_keys: Bools, slots: Slots, buckets: Buckets) -> None:
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
def remove(slot: int, previous: int, bucket: int, buffer: int, slots: Slots, buckets: Buckets) -> int:
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
def touch(bucket: int, buffer: int, clock: int, buckets: Buckets) -> None:
    """Notes that a bucket is visited now."""
    if buckets.visited_at[bucket] != UNLISTED:
        _unlist(bucket, buffer, buckets)
        _list_last(bucket, buffer, clock, buckets)


@borrowing_kernel
def sweep(bucket: int, buffer: int, horizon: int, slots: Slots, buckets: Buckets, counters: Int64s) -> None:
    """Removes the slots of a bucket that are out."""
    previous, slot = NONE, buckets.first[bucket]
    while slot != NONE:
        counters[CHECKED] += 1
        if slots.high[slot] < horizon:
            counters[REMOVED] += 1
            slot = remove(slot, previous, bucket, buffer, slots, buckets)
        else:
            previous, slot = slot, slots.following[slot]


@inlined_borrowing
def update_rarely_probed(
    buffer: int, clock: int, spans: Int64s, slots: Slots, buckets: Buckets, counters: Int64s
) -> None:
    """HW-join's update routine: sweeps the buckets that nothing has probed for longer than their tuples live.

    Every tuple that was there when such a bucket was visited last may have gone out unseen. Each look at the bucket
    that has waited longest is a check, as is each tuple of those swept.
    """
    span, horizon = spans[buffer], buckets.horizons[buffer]
    while buckets.stalest[buffer] != NONE:
        bucket = buckets.stalest[buffer]
        counters[CHECKED] += 1
        if clock - buckets.visited_at[bucket] <= span:
            return
        sweep(bucket, buffer, horizon, slots, buckets, counters)
        # Swept now, it has waited shortest; an empty one need not be visited at all.
        _unlist(bucket, buffer, buckets)
        if buckets.first[bucket] == NONE:
            buckets.visited_at[bucket] = UNLISTED
        else:
            _list_last(bucket, buffer, clock, buckets)


@borrowing_kernel
def regroup(old: Buckets, new: Buckets, slots: Slots, node_keys: Bools) -> None:
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
def _list_last(bucket: int, buffer: int, clock: int, buckets: Buckets) -> None:
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
def _unlist(bucket: int, buffer: int, buckets: Buckets) -> None:
    before, after = buckets.before[bucket], buckets.after[bucket]
    if before == NONE:
        buckets.stalest[buffer] = after
    else:
        buckets.after[before] = after
    if after == NONE:
        buckets.freshest[buffer] = before
    else:
        buckets.before[after] = before
