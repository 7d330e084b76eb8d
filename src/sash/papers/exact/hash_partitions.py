"""Hash partitions of a relation (Exact, §6.3.2): a fixed number of them, none of which knows which keys are near."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sash.papers.exact.exact_kernels.relation_frames import map_by_hash


@dataclass(frozen=True, slots=True)
class HashPartitions:
    """Maps keys to segments."""

    n_parts: int

    def segments_of(self, keys: np.ndarray) -> np.ndarray:
        """The segment of each key."""
        segments = np.empty(len(keys), np.int64)
        map_by_hash(keys, self.n_parts, segments)
        return segments
