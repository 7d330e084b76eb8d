"""Range partitions that are found in O(1): the slot array of Exact, §6.3.2 and Figure 6.4.

    slots       │ 3 │ 1 │ 4 │ 0 │ 2 │ 5 │ 1 │ 1 │     rows in each of 2^n slots of equal length l
    segments      0   0   1   1   1   2   2   2       neighbours together, from the left, until there are θ rows or more

n is the least for which no slot has more than θ rows, so a segment has θ to 2θ; what is left over at the right joins
its left neighbour. A key is mapped to entry ⌊(key − least key) / l⌋. Keys are whole, so l is |domain| / 2^n rounded up.
A slot of a single key, or one of as many as there may be, can be fuller than θ: then it is, and `n_overfull` says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NO_SEGMENT = -1
"""For a key outside the domain: no row of the relation has it."""


@dataclass(frozen=True, slots=True)
class SlotArray:
    """Maps keys to segments."""

    low: int
    """The least key, and the greatest."""
    high: int
    length: int
    entries: np.ndarray
    """The segment of each slot."""
    n_parts: int
    n_overfull: int = 0
    """How many slots have more than θ rows."""

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        """The segment of each key, or `NO_SEGMENT`."""
        if not self.n_parts:
            return np.full(len(keys), NO_SEGMENT)
        is_inside = (keys >= self.low) & (keys <= self.high)
        slots = _slots(np.where(is_inside, keys, self.low), self.low, self.length)
        return np.where(is_inside, self.entries[slots], NO_SEGMENT)

    def span(self, segment: int) -> int:
        """How many neighbouring keys a segment may have: its slots times their length."""
        return int(np.count_nonzero(self.entries == segment)) * self.length


def make_slot_array(keys: np.ndarray, theta: int, max_levels: int) -> SlotArray:
    """Cuts the range of the keys of a relation's rows."""
    if not len(keys):
        return SlotArray(0, -1, 1, np.zeros(0, np.int64), 0)
    low, high = int(keys.min()), int(keys.max())
    length, counts = _least_slots(np.sort(keys), theta, max_levels)
    entries = _cluster(counts, theta)
    return SlotArray(low, high, length, entries, int(entries[-1]) + 1, int(np.count_nonzero(counts > theta)))


def _least_slots(keys: np.ndarray, theta: int, max_levels: int) -> tuple[int, np.ndarray]:
    """The length of the fewest slots that are not too full, and how many rows each has; keys are in order."""
    low, domain = int(keys[0]), int(keys[-1]) - int(keys[0]) + 1
    length, counts = domain, np.array([len(keys)])
    for level in range(max_levels + 1):
        length = -(-domain // 2**level)
        counts = np.bincount(_slots(keys, low, length), minlength=2**level)
        if counts.max() <= theta or length == 1:
            break
    return length, counts


def _cluster(counts: np.ndarray, theta: int) -> np.ndarray:
    """The segment of each slot."""
    entries, segment, n_rows = np.zeros(len(counts), np.int64), 0, 0
    for slot, n_more in enumerate(counts.tolist()):
        if n_rows >= theta:
            segment, n_rows = segment + 1, 0
        entries[slot] = segment
        n_rows += n_more
    if segment and n_rows < theta:
        entries[entries == segment] = segment - 1
    return entries


def _slots(keys: np.ndarray, low: int, length: int) -> np.ndarray:
    """Differences of 64-bit numbers need all 64 bits, so they have no sign."""
    if length == 2**64:  # all that there is, which has no number of 64 bits
        return np.zeros(len(keys), np.int64)
    offsets = keys.astype(np.uint64) - np.uint64(low & (2**64 - 1))
    return (offsets // np.uint64(length)).astype(np.int64)
