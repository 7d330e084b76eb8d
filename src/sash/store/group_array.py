"""Numbers of groups, which are all zero until someone writes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sash.store.vector import Arena, Vector


class GroupArray:
    """Items of one shape for each group; groups are dense numbers that may be renumbered."""

    def __init__(self, dtype: Any, arena: Arena, shape: tuple[int, ...] = ()):
        self.shape = shape
        self.n_groups = 0
        self._items = Vector(dtype, arena)

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

    def dump(self, groups: np.ndarray) -> pa.Array:
        """The items of each of these groups, bit by bit."""
        items = self.array[groups].view(np.uint8).reshape(-1)
        offsets = np.arange(len(groups) + 1, dtype=np.int64) * (len(items) // max(1, len(groups)))
        return pa.Array.from_buffers(pa.large_binary(), len(groups), [None, pa.py_buffer(offsets), pa.py_buffer(items)])

    def load(self, groups: np.ndarray, dumped: pa.Array) -> None:
        """Puts back what `dump` gave, perhaps before the last dimension became longer."""
        if not len(groups):
            return
        self.reserve(int(groups.max()) + 1)
        offsets = dumped.buffers()[1]
        assert offsets is not None
        lengths = np.diff(np.frombuffer(offsets, np.int64)[dumped.offset :][: len(dumped) + 1])
        for n_bytes in np.unique(lengths):
            places = np.flatnonzero(lengths == n_bytes)
            self._load_alike(groups[places], dumped.take(pa.array(places)), int(n_bytes))

    def clear(self) -> None:
        """Forgets all groups."""
        self.n_groups = 0
        self._items.resize(1)

    def _load_alike(self, groups: np.ndarray, dumped: pa.Array, n_bytes: int) -> None:
        """Puts back items that are all of one length."""
        data = dumped.buffers()[2]
        assert data is not None
        items = np.frombuffer(data, self.array.dtype, len(dumped) * n_bytes // self.array.itemsize)
        if not self.shape:
            self.array[groups] = items
            return
        *outer, width = self.shape
        items = items.reshape(len(dumped), *outer, -1)
        while width < items.shape[-1]:
            self.widen()
            width = self.shape[-1]
        self.array[groups] = 0
        self.array[groups, ..., : items.shape[-1]] = items

    def _n_items(self, n_groups: int) -> int:
        return n_groups * math.prod(self.shape)
