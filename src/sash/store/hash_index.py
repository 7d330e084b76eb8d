"""The index of a join whose tuples leave by the clock alone: one hash table over the windows of both sides.

A tuple that has left is not taken out: a chain of rows ends at the first one that is gone, and the place of a key all
of whose rows are gone is given to another. The table grows when its keys have become too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.kernels import hash_join
from sash.store import join_index
from sash.store.join_index import LEFT, RIGHT, JoinCounts, Pairs
from sash.store.vector import Vector
from sash.store.window import Window

FIRST_SLOTS = 1024


class HashIndex:
    """Rows of two windows by key."""

    def __init__(self, windows: Sequence[Window]):
        self._windows = tuple(windows)
        self._home = windows[LEFT].home
        self._slots = Vector(np.int64, self._home, hash_join.SLOT_WIDTH)
        self._n_free = 0
        self._n_scanned = self._n_inserted = self._n_output = 0
        self.refill()

    def arrive(self, firsts: tuple[int, int], clock: int) -> Iterator[Pairs]:
        """The pairs that the rows from `firsts` on make, in chunks; see `JoinIndex`."""
        capacity = join_index.PAIRS_PER_CHUNK
        out, n_out, upto = Pairs.room(capacity), 0, list(firsts)
        self._n_inserted += sum(window.next_row - first for window, first in zip(self._windows, firsts))
        for side in (LEFT, RIGHT):
            while upto[side] < self._windows[side].next_row:
                first, last = upto[side], self._next_stop(side, upto[side])
                upto[side], n_out = self._arrive(side, first, last, out, n_out)
                if upto[side] == last:
                    continue
                if not self._n_free:
                    self._fill(self._enough_slots(), upto)
                    continue
                if n_out:
                    yield self._counted(out, n_out)
                else:
                    capacity *= 2
                out, n_out = Pairs.room(capacity), 0
        if n_out:
            yield self._counted(out, n_out)

    def advance(self, clock: int) -> None:
        """The windows say what is gone."""

    def refill(self) -> None:
        """Puts all rows of the windows into a fresh table."""
        self._fill(FIRST_SLOTS, [window.next_row for window in self._windows])

    @property
    def counts(self) -> JoinCounts:
        """Tuples are removed with their windows' blocks, which needs no comparison."""
        n_evicted = sum(window.n_evicted for window in self._windows)
        return JoinCounts(self._n_scanned, self._n_inserted, n_evicted, 0, self._n_output)

    def _counted(self, out: Pairs, n_out: int) -> Pairs:
        self._n_output += n_out
        return out.first(n_out)

    def _arrive(self, side: int, first: int, last: int, out: Pairs, n_out: int) -> tuple[int, int]:
        """Up to which row tuples have arrived, and how many pairs there are now."""
        own, other = self._windows[side], self._windows[1 - side]
        rows = (out.left, out.right) if side == LEFT else (out.right, out.left)
        upto, n_out, self._n_free, n_scanned = hash_join.arrive(
            side, first, last, own.keys, own.records, own.base, other.records, other.base, self._floors(),
            self._slots.array, self._n_free, n_out, *rows, out.ts, out.expires,
        )  # fmt: skip
        self._n_scanned += n_scanned
        self._home.relax()
        return upto, n_out

    def _fill(self, n_slots: int, upto: list[int]) -> None:
        """Puts the rows below `upto` into a fresh table of so many slots, or of more if they are too few."""
        self._slots.resize(n_slots)
        self._slots.array[:, hash_join.HEADS :] = hash_join.FREE
        self._n_free = n_slots * 5 // 8
        for side, window in enumerate(self._windows):
            first = window.floor
            while first < upto[side]:
                if not self._n_free:
                    self._fill(4 * n_slots, upto)
                    return
                first, self._n_free = hash_join.link(
                    side, first, min(upto[side], first + self._home.step), window.keys, window.records, window.base,
                    self._floors(), self._slots.array, self._n_free,
                )  # fmt: skip
                self._home.relax()

    def _enough_slots(self) -> int:
        """So many that the keys that are there take less than half of what may be taken."""
        n_slots, n_keys = FIRST_SLOTS, hash_join.count_keys(self._slots.array, self._floors())
        while n_slots * 5 // 8 <= 2 * n_keys:
            n_slots *= 2
        return n_slots

    def _next_stop(self, side: int, first: int) -> int:
        return min(self._windows[side].next_row, first + self._home.step)

    def _floors(self) -> np.ndarray:
        return np.array([window.floor for window in self._windows])
