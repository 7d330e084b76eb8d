"""The rows of several windows by their keys: a hash table for each key, which all windows that have it share.

A row that has left is not taken out: chains end at the first row that is gone, and the place of a key all of whose rows
are gone is given to another. A table grows when its keys have become too many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sash.kernels import probes
from sash.store.ordered_window import OrderedWindow
from sash.store.vector import Vector

FIRST_SLOTS = 1024
LEAST_SLOTS = 64
"""So many are there at first where memory is limited."""


class KeyTables:
    """Tables over windows whose rows are linked into them in order."""

    def __init__(self, windows: Sequence[OrderedWindow], has_key: np.ndarray):
        """`has_key[window, key]` says which keys the rows of a window have."""
        self.has_key = has_key
        self._windows = tuple(windows)
        self._arena = windows[0].arena
        self._tables = [Vector(np.int64, self._arena, probes.HEADS + len(windows)) for _ in range(has_key.shape[1])]
        self._n_free = [0] * len(self._tables)
        self._first_slots = FIRST_SLOTS if self._arena.budget is None else LEAST_SLOTS
        self.refill()

    def __len__(self) -> int:
        return len(self._tables)

    def table(self, key: int) -> np.ndarray:
        """The slots of a key's table."""
        return self._tables[key].array

    def refill(self) -> None:
        """Puts all rows of the windows into fresh tables."""
        self.linked = [window.next_row for window in self._windows]
        for key in range(len(self._tables)):
            self._fill(key, self._first_slots)

    def free(self) -> None:
        """Gives the room of the tables back."""
        for table in self._tables:
            table.free()

    def link(self, window: int, first: int, last: int) -> None:
        """Puts rows of a window into the tables of its keys, after all before them."""
        self.linked[window] = last
        for key in range(len(self._tables)):
            if self.has_key[window, key] and not self._link_by(key, window, first, last):
                self._fill(key, self._enough_slots(key))

    def _link_by(self, key: int, window: int, first: int, last: int) -> bool:
        """Puts rows into a key's table; False if it had not enough room for all of them."""
        each = self._windows[window]
        while first < last and self._n_free[key]:
            stop = min(last, first + self._arena.rows_per_call)
            rows = probes.ProbedRows(each.keys, each.records, each.base, each.floor)
            first, self._n_free[key] = probes.link(
                window, first, stop, rows, key, self._floors(), self._tables[key].array, self._n_free[key]
            )
            self._arena.release_pages()
        return first == last

    def _fill(self, key: int, n_slots: int) -> None:
        """Puts the rows that are linked into a fresh table of so many slots, or of more if they are too few."""
        self._tables[key].resize(n_slots)
        self._tables[key].array[:, probes.HEADS] = probes.FREE
        self._n_free[key] = n_slots * 5 // 8
        for number, window in enumerate(self._windows):
            is_in = not self.has_key[number, key] or self._link_by(key, number, window.floor, self.linked[number])
            if not is_in:
                self._fill(key, (4 if self._arena.budget is None else 2) * n_slots)
                return

    def _enough_slots(self, key: int) -> int:
        """So many that the keys that are there take less than half of what may be taken."""
        n_slots, n_keys = self._first_slots, probes.count_keys(self._tables[key].array, self._floors())
        while n_slots * 5 // 8 <= 2 * n_keys:
            n_slots *= 2
        return n_slots

    def _floors(self) -> np.ndarray:
        return np.array([window.floor for window in self._windows])
