"""Range partitions that can be split: where each begins, in order, with the number that it has.

    fences      −∞      40       90              keys below 40 are in segment 0, those from 90 on in segment 1
    numbers      0       2        1              segment 2 was split off segment 0

It is what the slot array is (Exact, §6.3.2) for a relation that changes, where no least or greatest key is known: a key
is found in O(log n). A segment that outgrows 2θ is cut into such of θ to 2θ, between two keys; one key cannot be cut.
"""

from __future__ import annotations

import numpy as np

_LEAST = np.iinfo(np.int64).min


class KeyFences:
    """Maps keys to segments."""

    def __init__(self, keys: np.ndarray, theta: int):
        """Cuts the range of the keys of a relation's rows, such that segments have θ of them and less than 2θ."""
        self.fences = np.concatenate([[_LEAST], _cuts(np.sort(keys), theta)]).astype(np.int64)
        self.numbers = np.arange(len(self.fences))

    @property
    def n_parts(self) -> int:
        return len(self.fences)

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        """The segment of each key."""
        return self.numbers[np.searchsorted(self.fences, keys, side="right") - 1]

    def split(self, segment: int, keys: np.ndarray, theta: int) -> None:
        """Cuts one segment, with the keys that its rows have now, in order; the new ones come last."""
        cuts = _cuts(keys, theta)
        place = int(np.flatnonzero(self.numbers == segment)[0]) + 1
        more = np.arange(self.n_parts, self.n_parts + len(cuts))
        self.fences = np.insert(self.fences, place, cuts)
        self.numbers = np.insert(self.numbers, place, more)


def _cuts(keys: np.ndarray, theta: int) -> np.ndarray:
    """The keys at which parts begin, but for the first one; keys are in order. What has more than θ rows is alone."""
    chosen = keys[theta : max(theta, len(keys) - theta + 1) : theta]
    firsts, lasts = np.searchsorted(keys, chosen, "left"), np.searchsorted(keys, chosen, "right")
    cuts = np.concatenate([firsts, lasts[lasts - firsts > theta]])
    return keys[np.unique(cuts[(cuts > 0) & (cuts < len(keys))])]
