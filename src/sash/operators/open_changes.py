"""Changes of what passes in the middle of an instant: some of its tuples have been weighed, and more come.

    part      +a passes        part     +b passes        the rest   a does not pass any more, and c does not
    noted     a +1                      a +1, b +1                  b +1, c -1

What passes at one instant is seen once, however the tuples are cut into parts. So changes are noted, those that undo
each other are struck out, and what is left in the end is what has happened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.store.vector import Arena, Vector

CONTENT, EXPIRES, NET = 0, 1, 2
LEAST_NOTED = 1 << 10
"""Fewer are not worth while to be looked through."""


class NetChanges(NamedTuple):
    """By tuple, a line each: its content, when it expires, and whether it passes now or no longer does."""

    contents: np.ndarray
    expires: np.ndarray
    signs: np.ndarray


class OpenChanges:
    """Of one instant. They are in a vector, so that they count as what is in memory, and may be in a file."""

    def __init__(self, arena: Arena):
        self._lines = Vector(np.int64, arena, 3)
        self._n_lines, self._n_netted = 0, 0

    def note(self, changes: NetChanges) -> None:
        """What a part has changed."""
        self._lines.write(self._n_lines, np.column_stack(changes).astype(np.int64))
        self._n_lines += len(changes.signs)
        if self._n_lines > 2 * self._n_netted + LEAST_NOTED:
            self._strike_out()

    def close(self) -> NetChanges:
        """What is left of all that was noted; in order of contents. There is nothing any more."""
        self._strike_out()
        lines = self._lines.array[: self._n_lines]
        lines = np.repeat(lines, np.abs(lines[:, NET]), axis=0)
        self._lines.free()
        return NetChanges(lines[:, CONTENT], lines[:, EXPIRES], np.sign(lines[:, NET]).astype(np.int8))

    def _strike_out(self) -> None:
        """Makes one line of those of a tuple and its equals, unless they undo each other."""
        lines = self._lines.array[: self._n_lines]
        lines = lines[np.lexsort((lines[:, EXPIRES], lines[:, CONTENT]))]
        is_new = np.any(lines[1:, :NET] != lines[:-1, :NET], axis=1)
        firsts = np.flatnonzero(np.concatenate([[True], is_new])) if len(lines) else np.empty(0, np.int64)
        kept = lines[firsts]
        if len(firsts):
            kept[:, NET] = np.add.reduceat(lines[:, NET], firsts)
        kept = kept[kept[:, NET] != 0]
        self._lines.write(0, kept)
        self._n_lines = self._n_netted = len(kept)
