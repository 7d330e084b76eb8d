"""The frequent segment of a stream: the blocks that have made the most pairs, as far as it has places.

A free place counts as a block that has made none. A block takes the place of the least productive one if it leads by
enough: by δ tuples in EWJ (§3.4.2), by a part ρ in AH-EWJ (Alg. 4).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


class FrequentBlocks:
    """Numbers of blocks, in no order."""

    def __init__(self, n_places: int, lead: float, relative_lead: float):
        self._blocks = np.zeros(n_places, np.int64)
        self._n_blocks = 0
        self._lead, self._relative_lead = lead, relative_lead

    def __len__(self) -> int:
        return self._n_blocks

    def __iter__(self) -> Iterator[int]:
        return iter(self.blocks.tolist())

    @property
    def blocks(self) -> np.ndarray:
        return self._blocks[: self._n_blocks]

    @property
    def is_full(self) -> bool:
        return self._n_blocks == len(self._blocks)

    def bar(self, productivity: np.ndarray) -> float:
        """How productive a block must be, more than that, to take a place."""
        if not len(self._blocks):
            return np.inf
        least = float(productivity[self.blocks].min()) if self.is_full else 0.0
        return (1 + self._relative_lead) * least + self._lead

    def add(self, block: int) -> None:
        """Gives a block a free place."""
        self._blocks[self._n_blocks] = block
        self._n_blocks += 1

    def remove(self, block: int) -> None:
        self._remove_at(int(np.argmax(self.blocks == block)))

    def pop_least(self, productivity: np.ndarray) -> int:
        """Takes out the least productive block."""
        return self._remove_at(int(np.argmin(productivity[self.blocks])))

    def _remove_at(self, place: int) -> int:
        block = int(self._blocks[place])
        self._n_blocks -= 1
        self._blocks[place] = self._blocks[self._n_blocks]
        return block
