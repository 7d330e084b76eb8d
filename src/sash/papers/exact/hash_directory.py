"""Hash partitions that can be split: extendible hashing, as Exact, §7.4 keeps partitions between θ and 2θ.

    entries     0   1   0   2        2^d of them, by the d low bits of a key's hash; d is the global depth
    depths      1   2       2        of each segment, how many bits its keys have in common

A segment that outgrows 2θ is split by one more bit, in one half and the other; where its depth is the global one, all
entries are there twice then. One key cannot be split, nor more bits be asked than `MOST_BITS`.
"""

from __future__ import annotations

import numpy as np

from sash.papers.exact.exact_kernels.relation_frames import map_by_hash

MOST_BITS = 20


class HashDirectory:
    """Maps keys to segments."""

    def __init__(self, n_keys: int, theta: int):
        """For so many keys: segments have θ on average, or less, but more than half of it."""
        depth = 0
        while n_keys > theta << depth and depth < MOST_BITS:
            depth += 1
        self._entries = np.arange(1 << depth)
        self._depths = np.full(1 << depth, depth)

    @property
    def n_parts(self) -> int:
        return len(self._depths)

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        """The segment of each key."""
        return self._entries[_bits_of(keys, len(self._entries))]

    def split(self, segment: int, keys: np.ndarray, theta: int) -> None:
        """Splits one segment, with the keys that its rows have now, until none has more than 2θ; new ones come last."""
        if len(keys) <= 2 * theta or keys.min() == keys.max() or self._depths[segment] == MOST_BITS:
            return
        depth, other = int(self._depths[segment]), self.n_parts
        if 1 << depth == len(self._entries):
            self._entries = np.tile(self._entries, 2)
        numbers = np.arange(len(self._entries))
        self._entries[(self._entries == segment) & (numbers >> depth & 1 == 1)] = other
        self._depths[segment] += 1
        self._depths = np.append(self._depths, depth + 1)
        owners = self.segments_of(keys)
        for each in (segment, other):
            self.split(each, keys[owners == each], theta)


def _bits_of(keys: np.ndarray, n_entries: int) -> np.ndarray:
    found = np.empty(len(keys), np.int64)
    map_by_hash(keys, n_entries, found)
    return found
