"""Numbers of groups, which are all zero until someone writes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sash.store.vector import Home, Vector


class GroupArray:
    """Items of one shape for each group; groups are dense numbers that may be renumbered."""

    def __init__(self, dtype: Any, home: Home, shape: tuple[int, ...] = ()):
        self.shape = shape
        self.n_groups = 0
        self._items = Vector(dtype, home)

    @property
    def array(self) -> np.ndarray:
        """The items by group. Not to be kept over a call that may make room."""
        return self._items.array[: self._n_items(self.n_groups)].reshape(self.n_groups, *self.shape)

    def reserve(self, n_groups: int) -> None:
        """Makes room for groups below `n_groups`; new ones are zero."""
        if n_groups > self.n_groups:
            n_before = self.n_groups
            self._items.reserve(self._n_items(n_groups))
            self.n_groups = n_groups
            self.array[n_before:] = 0

    def widen(self) -> None:
        """Makes the last dimension twice as long; what a group had stays in front."""
        *outer, width = self.shape
        before = self.array.copy()
        self.shape = (*outer, 2 * width)
        self._items.reserve(self._n_items(self.n_groups))
        self.array[:] = 0
        self.array[..., :width] = before

    def compact(self, mapping: np.ndarray) -> None:
        """Renumbers groups: the new number by the old one, -1 for a group that is gone."""
        assert len(mapping) >= self.n_groups, "a group has no new number"
        mapping = mapping[: self.n_groups]
        stays = np.flatnonzero(mapping >= 0)
        kept = self.array[stays]
        self.n_groups = int(mapping.max(initial=-1)) + 1
        self._items.resize(self._n_items(self.n_groups))
        self.array[:] = 0
        self.array[mapping[stays]] = kept

    def clear(self) -> None:
        """Forgets all groups."""
        self.n_groups = 0
        self._items.resize(1)

    def _n_items(self, n_groups: int) -> int:
        return n_groups * math.prod(self.shape)
