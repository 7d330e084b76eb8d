"""Rows by the time they expire.

    push  (expires, row)  ->  ring   sorted: what comes in order of expiry, nearly always
                              heap   the rest
    pop   everything with expires <= clock, merged from both

In order an entry costs a write and a read, out of order the logarithm of the heap; neither a push nor a pop looks at
entries that stay. The room follows the number of entries: it doubles when they fill it, and halves when they have
become few.
"""

from __future__ import annotations

import numpy as np

from sash.kernels import expiry_heap
from sash.store.batch import NEVER
from sash.store.vector import Arena, Memory, Vector

FIRST_PLACES = 1024
FEWEST_PLACES = 32
"""Of a queue at the beginning, where memory is limited."""


class ExpiryQueue:
    """Entries (expires, row), taken out in this order."""

    def __init__(self, arena: Arena | None = None):
        arena = arena or Memory()
        self._arena = arena
        self._least = FIRST_PLACES if arena.budget is None else FEWEST_PLACES
        self._ring, self._heap = (Vector(np.int64, arena, expiry_heap.ENTRY_WIDTH) for _ in range(2))
        self.clear()

    def __len__(self) -> int:
        return self._count + self._size

    def clear(self) -> None:
        """Forgets all entries."""
        self._head, self._count, self._size = 0, 0, 0
        self._ring.resize(self._least)
        self._heap.resize(self._least)

    def push(self, expires: np.ndarray, rows: np.ndarray) -> None:
        """Adds entries; those that expire `NEVER` are left out."""
        first = 0
        while first < len(expires):
            last = min(len(expires), first + self._arena.rows_per_call)
            first, self._count, self._size = expiry_heap.push(expires, rows, first, last, NEVER, self._entries())
            self._arena.release_pages()
            if self._count == len(self._ring):
                self._grow_ring()
            if self._size == len(self._heap):
                self._heap.resize(2 * len(self._heap))

    def pop(self, clock: int) -> tuple[np.ndarray, np.ndarray]:
        """Removes what expires at `clock` or before. Returns expiries and rows, in order of both."""
        n_out, first = sum(self._count_due(clock, NEVER)), 0
        expires, rows = np.empty(n_out, np.int64), np.empty(n_out, np.int64)
        while first < n_out:
            last = min(n_out, first + self._arena.rows_per_call)
            self._head, self._count, self._size = expiry_heap.pop(first, last, self._entries(), expires, rows)
            self._arena.release_pages()
            first = last
        self._shrink()
        return expires, rows

    def pace(self, clock: int, n_max: int) -> int:
        """The latest instant up to `clock` by which at most `n_max` entries expire.

        When more than `n_max` expire at the earliest instant of all, that instant: popping up to the pace always gets
        on.
        """
        n_max = min(n_max, len(self))
        if sum(self._count_due(clock, n_max + 1)) <= n_max:
            return clock
        earliest, too_late = self._nth_expiry(0), self._nth_expiry(n_max)
        return too_late if too_late == earliest else too_late - 1

    def _count_due(self, clock: int, limit: int) -> tuple[int, int]:
        return expiry_heap.count_due(clock, limit, self._entries())

    def _nth_expiry(self, n: int) -> int:
        return int(expiry_heap.nth_expiry(n, self._entries()))

    def _entries(self) -> expiry_heap.RingAndHeap:
        return expiry_heap.RingAndHeap(self._ring.array, self._head, self._count, self._heap.array, self._size)

    def _grow_ring(self) -> None:
        """Doubles the ring, which is full; what stands before the head moves behind what stands from it on."""
        n_before = len(self._ring)
        self._ring.resize(2 * n_before)
        self._ring.array[n_before : n_before + self._head] = self._ring.array[: self._head]

    def _shrink(self) -> None:
        """Gives back room once most of it is free; with enough left that the next entries find some."""
        if len(self._ring) > max(8 * self._count, self._least):
            n_places = max(self._least, _places_for(self._count))
            kept = self._ring.array[(self._head + np.arange(self._count)) & (len(self._ring) - 1)]
            self._ring.resize(n_places)
            self._ring.array[: self._count] = kept
            self._head = 0
        if len(self._heap) > max(8 * self._size, self._least):
            self._heap.resize(max(self._least, _places_for(self._size)))


def _places_for(n_entries: int) -> int:
    """A power of two, of which the entries take a quarter to a half."""
    return 1 << (2 * n_entries).bit_length()
