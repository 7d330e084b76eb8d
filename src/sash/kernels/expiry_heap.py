"""A sorted ring and a binary heap beside it: entries (expires, row) that leave in order.

    ring   | 7 | 9 |   |   | 3 | 5 |      sorted; `head` is the place of the first of `count`; a power of two of places
                            ^ head
    heap   [4, 6, 8, 9]                   the least at 0, the children of i at 2i + 1 and 2i + 2

What comes in order goes into the ring at once. What comes too early for its place goes into the heap; unless it is the
last of the ring that came too late: then that one does, so that a single far expiry does not keep all others out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.jit import inlined_kernel, kernel

EXPIRES, ROW = 0, 1
ENTRY_WIDTH = 2
MAX_DEPTH = 128


class RingAndHeap(NamedTuple):
    """The ring with the place of its first entry and their number, and the heap with the number of its own."""

    ring: Int64s
    head: int
    n_ring: int
    heap: Int64s
    n_heap: int


@inlined_kernel
def _is_before(a_expires: int, a_row: int, b_expires: int, b_row: int) -> bool:
    return a_expires < b_expires or (a_expires == b_expires and a_row < b_row)


@kernel
def _sift_up(heap: Int64s, n: int, expires: int, row: int) -> None:
    """Adds an entry to a heap of n."""
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        if not _is_before(expires, row, heap[parent, EXPIRES], heap[parent, ROW]):
            break
        heap[i, EXPIRES] = heap[parent, EXPIRES]
        heap[i, ROW] = heap[parent, ROW]
        i = parent
    heap[i, EXPIRES] = expires
    heap[i, ROW] = row


@kernel
def _remove_least(heap: Int64s, n: int) -> None:
    """Removes the first entry of a heap of n."""
    # The last entry fills the gap; the lesser child moves up until the place is one where it may stand.
    last = n - 1
    expires, row = heap[last, EXPIRES], heap[last, ROW]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and _is_before(
            heap[child + 1, EXPIRES], heap[child + 1, ROW], heap[child, EXPIRES], heap[child, ROW]
        ):
            child += 1
        if not _is_before(heap[child, EXPIRES], heap[child, ROW], expires, row):
            break
        heap[i, EXPIRES] = heap[child, EXPIRES]
        heap[i, ROW] = heap[child, ROW]
        i = child
    heap[i, EXPIRES] = expires
    heap[i, ROW] = row


@kernel
def push(
    expires: Int64s, rows: Int64s, first: int, last: int, never: int, entries: RingAndHeap
) -> tuple[int, int, int]:
    """Adds the entries `first..last-1` but those that never expire; stops when ring or heap is full.

    Returns the next entry to add and the new count and size.
    """
    ring, head, count, heap, size = entries
    mask = ring.shape[0] - 1
    for i in range(first, last):
        if expires[i] == never:
            continue
        if count > mask or size >= heap.shape[0]:
            return i, count, size
        # 1. In order, at the end of the ring: so it is nearly always.
        end = (head + count - 1) & mask
        if count == 0 or not _is_before(expires[i], rows[i], ring[end, EXPIRES], ring[end, ROW]):
            end = (end + 1) & mask
            count += 1
        else:
            # 2. Too early also for the last place but one: the heap. Else the last one came too late, and makes room.
            before = (end - 1) & mask
            if count > 1 and _is_before(expires[i], rows[i], ring[before, EXPIRES], ring[before, ROW]):
                _sift_up(heap, size, expires[i], rows[i])
                size += 1
                continue
            _sift_up(heap, size, ring[end, EXPIRES], ring[end, ROW])
            size += 1
        ring[end, EXPIRES] = expires[i]
        ring[end, ROW] = rows[i]
    return last, count, size


@kernel
def count_due(clock: int, limit: int, entries: RingAndHeap) -> tuple[int, int]:
    """How many entries expire at `clock` or before: in the ring, and in the heap. Counts the heap's up to `limit`."""
    ring, head, count, heap, size = entries
    # 1. The ring is sorted.
    mask = ring.shape[0] - 1
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if ring[(head + middle) & mask, EXPIRES] <= clock:
            low = middle + 1
        else:
            high = middle
    # 2. Of the heap no more is looked at than what is due and its children, depth first.
    stack = np.empty(MAX_DEPTH, np.int64)
    stack[0] = 0
    n_stack, n_heap = 1, 0
    while n_stack > 0 and n_heap < limit:
        n_stack -= 1
        i = stack[n_stack]
        if i < size and heap[i, EXPIRES] <= clock:
            n_heap += 1
            stack[n_stack] = 2 * i + 1
            stack[n_stack + 1] = 2 * i + 2
            n_stack += 2
    return low, n_heap


@kernel
def pop(first: int, last: int, entries: RingAndHeap, out_expires: Int64s, out_rows: Int64s) -> tuple[int, int, int]:
    """Removes entries, which become `first..last-1` of the output. Returns the new head, count and size."""
    ring, head, count, heap, size = entries
    mask = ring.shape[0] - 1
    for k in range(first, last):
        if count > 0 and (
            size == 0 or _is_before(ring[head, EXPIRES], ring[head, ROW], heap[0, EXPIRES], heap[0, ROW])
        ):
            out_expires[k] = ring[head, EXPIRES]
            out_rows[k] = ring[head, ROW]
            head = (head + 1) & mask
            count -= 1
        else:
            out_expires[k] = heap[0, EXPIRES]
            out_rows[k] = heap[0, ROW]
            _remove_least(heap, size)
            size -= 1
    return head, count, size


@kernel
def nth_expiry(n: int, entries: RingAndHeap) -> int:
    """When the entry with n others before it expires. There are more than n entries. Nothing is moved.

    A second, small heap holds the places of the heap that may be next: the children of those that were.
    """
    ring, head, count, heap, size = entries
    mask = ring.shape[0] - 1
    places = np.empty((n + 3, ENTRY_WIDTH), np.int64)
    n_places, k_ring = 0, 0
    if size > 0:
        _sift_up(places, 0, heap[0, EXPIRES], 0)
        n_places = 1
    expires = np.int64(0)
    for _ in range(n + 1):
        # 1. The next of the ring, unless the heap has an earlier one.
        in_ring = k_ring < count
        if in_ring and (n_places == 0 or ring[(head + k_ring) & mask, EXPIRES] <= places[0, EXPIRES]):
            expires = ring[(head + k_ring) & mask, EXPIRES]
            k_ring += 1
            continue
        # 2. Who comes after an entry of the heap is one of its children, or was a candidate before.
        expires = places[0, EXPIRES]
        child = 2 * places[0, ROW] + 1
        _remove_least(places, n_places)
        n_places -= 1
        for i in range(child, min(child + 2, size)):
            _sift_up(places, n_places, heap[i, EXPIRES], i)
            n_places += 1
    return expires
