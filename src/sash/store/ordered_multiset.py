"""Ordered multisets of integers, one per owner, that kernels work on (`kernels/treaps.py`)."""

from __future__ import annotations

import numpy as np

from sash.kernels import treaps as kernel
from sash.kernels.arrays import Words
from sash.store.group_array import GroupArray
from sash.store.vector import Arena, Vector

FIRST_NODES = 16

NO_WORDS: Words = (np.empty(0, np.int64), np.empty(0, np.uint8))
"""Values are integers."""


class OrderedMultiset:
    """Multisets of the owners 0, 1, …; an owner that was never heard of has an empty one."""

    def __init__(self, arena: Arena):
        self._roots = GroupArray(np.int64, arena, (kernel.ROOT_WIDTH,))
        self._nodes = Vector(np.int64, arena, kernel.NODE_WIDTH, FIRST_NODES)
        self._pool = Vector(np.int64, arena, capacity=kernel.POOL_WIDTH)
        self.clear()

    def reserve(self, n_owners: int, n_more_nodes: int) -> None:
        """Makes room for owners below `n_owners`, and for so many insertions."""
        self._roots.reserve(n_owners)
        self._nodes.reserve(int(self._pool.array[kernel.TOP]) + n_more_nodes)

    def treaps(self, words: Words = NO_WORDS) -> kernel.Treaps:
        """For the kernels, with the byte strings that values stand for. Not to be kept over `reserve`."""
        return kernel.Treaps(self._roots.array, self._nodes.array, self._pool.array, words)

    def clear(self) -> None:
        """Forgets all owners and members."""
        self._roots.clear()
        self._nodes.resize(FIRST_NODES)
        self._nodes.array[0] = 0
        self._pool.array[:] = 0
        self._pool.array[kernel.TOP] = 1

    def compact(self, mapping: np.ndarray) -> None:
        """Renumbers owners: the new number by the old one, -1 for one that is gone, which must be empty."""
        self._roots.compact(mapping)

    def renumber(self, mapping: np.ndarray) -> None:
        """Replaces every value by another; the new ones must be in the same order as the old ones."""
        values = self._nodes.array[1 : int(self._pool.array[kernel.TOP]), kernel.VALUE]
        # Freed nodes hold values of the past, which may be beyond the mapping.
        values[:] = mapping[np.minimum(values, len(mapping) - 1)]
