"""The join memory of PartitionedJoin: segments that many tuples arrive for (Exact, §6.3.3).

    C_k    one more for every arrival in partition k; at the end of an epoch, α times as much

    P_i, which was just read, takes the place of P_m if

        C_i ≥ (|P_i| / |P_m|) (1 + ρ) C_m      (6.1)        and        M_free + |P_m| ≥ |P_i|      (6.2)

If there is room it is kept without that. Of several P_m it takes the place of the one with the least C_m / |P_m|, and
never of more than one. The R-buffer, to which segments are read, is large enough for each of them.
"""

from __future__ import annotations

import numpy as np

from sash.errors import PlanError
from sash.papers.exact.exact_kernels.relation_frames import RELATION_WIDTH, SegmentFrames
from sash.papers.exact.relation_segments import RelationSegments
from sash.papers.exact.relation_settings import PartitionedSettings


class JoinMemory:
    """Copies of some segments, and the R-buffer."""

    def __init__(self, settings: PartitionedSettings, relation: RelationSegments):
        n_part, n_buffer = len(relation), max(1, relation.n_largest)
        self.n_frames = settings.memory - settings.wait - n_buffer
        """Blocks of the join memory: what the wait buffer and the R-buffer leave of it."""
        if self.n_frames < 0:
            raise PlanError(
                f"`memory` is {settings.memory} blocks; the wait buffer has {settings.wait}, and the largest segment "
                f"{n_buffer}: give {settings.wait + n_buffer} blocks or more, or make segments smaller"
            )
        self.frequencies = np.zeros(n_part)
        """C of each partition."""
        self.n_admitted = self.n_evicted = 0
        self._rho, self._relation = settings.rho, relation
        self.arrays = SegmentFrames(
            np.empty((self.n_frames + n_buffer, settings.block_rows, RELATION_WIDTH), np.int64),
            np.zeros((n_part + 1, n_buffer), np.int64),
            relation.n_rows,
            np.zeros(n_part, np.bool_),
        )
        self.arrays.frames[n_part] = self.n_frames + np.arange(n_buffer)
        self._free = list(range(self.n_frames))

    @property
    def n_free(self) -> int:
        """Blocks that are free: M_free."""
        return len(self._free)

    @property
    def buffer(self) -> int:
        """Where a segment is that was read: the number of the R-buffer."""
        return len(self.frequencies)

    @property
    def residents(self) -> np.ndarray:
        """Segments that are in memory."""
        return np.flatnonzero(self.arrays.is_resident)

    def is_resident(self, segment: int) -> bool:
        return bool(self.arrays.is_resident[segment])

    def load(self, segment: int) -> None:
        """Reads a segment into the R-buffer."""
        blocks = self._relation.read(segment)
        self.arrays.records[self.n_frames : self.n_frames + len(blocks)] = blocks

    def admit(self, segment: int) -> None:
        """Keeps what is in the R-buffer, if it deserves that (Alg. 9, line 4)."""
        size = self._size(segment)
        if self.n_free < size:
            victim = self.choose_victim(segment)
            if victim is None:
                return
            self.drop(victim)
            self.n_evicted += 1
        frames = [self._free.pop() for _ in range(size)]
        self.arrays.frames[segment, :size] = frames
        self.arrays.records[frames] = self.arrays.records[self.n_frames : self.n_frames + size]
        self.arrays.is_resident[segment] = True
        self.n_admitted += 1

    def choose_victim(self, segment: int) -> int | None:
        """The segment whose place another one may take, by (6.1) and (6.2)."""
        return choose_victim(
            segment, self.residents, self.frequencies, self._relation.n_blocks, (self.n_free, self._rho)
        )

    def drop(self, segment: int) -> None:
        """A segment is in memory no more; it is on disk."""
        self._free += self.arrays.frames[segment, : self._size(segment)].tolist()
        self.arrays.is_resident[segment] = False

    def _size(self, segment: int) -> int:
        return -(-int(self._relation.n_rows[segment]) // self.arrays.records.shape[1])


def choose_victim(
    segment: int, residents: np.ndarray, frequencies: np.ndarray, sizes: np.ndarray, limits: tuple[int, float]
) -> int | None:
    """The segment in memory whose place another one may take; None if there is none. `limits` are M_free and ρ."""
    n_free, rho = limits
    size, own_sizes, own_frequencies = sizes[segment], sizes[residents], frequencies[residents]
    is_busier = frequencies[segment] * own_sizes >= size * (1 + rho) * own_frequencies
    candidates = np.flatnonzero(is_busier & (n_free + own_sizes >= size))
    if not len(candidates):
        return None
    return int(residents[candidates[np.argmin(own_frequencies[candidates] / own_sizes[candidates])]])
