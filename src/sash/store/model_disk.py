"""A disk that takes no time and says how long another one would have taken: Equation 3.2 of Exact.

    RT(n) = ⌈n / B_win⌉ (C_L + C_S) + n c_b / B          C_L latency, C_S seek, B bytes per second, c_b block

Each access costs a seek and a latency, sequential or not, and every block its transfer. A span of more than `B_win`
blocks, the basic window, is several accesses: blocks of a basic window are adjacent, those of two are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sash.errors import PlanError
from sash.store.block_disk import DiskCounts, Extent, Span


@dataclass(frozen=True, slots=True)
class DiskModel:
    """What a disk needs: seconds for each access, and for each byte."""

    seek_s: float
    latency_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        if self.seek_s < 0 or self.latency_s < 0 or self.bytes_per_s <= 0:
            raise PlanError(f"a disk takes time, and gives none back, but not so {self}")

    @property
    def access_s(self) -> float:
        """From one place to another: `t_A`."""
        return self.seek_s + self.latency_s

    def seconds(self, n_accesses: float, n_bytes: float) -> float:
        """So many accesses, and so many bytes transferred."""
        return n_accesses * self.access_s + n_bytes / self.bytes_per_s


DISK_9LZX = DiskModel(seek_s=0.0049, latency_s=0.00299, bytes_per_s=20e6)
"""The thesis's device, of which it prints no number: what is public of the family, and a bandwidth in its range."""


class ModelDisk:
    """Keeps blocks in memory, and counts."""

    def __init__(self, block_bytes: int, model: DiskModel = DISK_9LZX, adjacent_blocks: int | None = None):
        """`block_bytes` is what a block takes on the disk, `adjacent_blocks` the basic window; None: no end of it."""
        assert block_bytes > 0
        assert adjacent_blocks is None or adjacent_blocks > 0
        self.model = model
        self._block_bytes = block_bytes
        self._adjacent = adjacent_blocks
        self._extents: dict[int, np.ndarray] = {}
        self._starts: dict[int, int] = {}
        self._next_place = self._next_number = 0
        self._head = -1
        self._n_sequential = self._n_random = self._n_read = self._n_written = 0

    def append(self, blocks: np.ndarray) -> Extent:
        """Writes blocks behind all others."""
        extent = Extent(self._next_number, len(blocks))
        self._extents[extent.number] = blocks.copy()
        self._starts[extent.number] = self._next_place
        self._go(self._next_place, len(blocks))
        self._next_number += 1
        self._next_place += len(blocks)
        self._n_written += len(blocks)
        return extent

    def read(self, extent: Extent, spans: Sequence[Span]) -> list[np.ndarray]:
        """The blocks of each span."""
        blocks, start = self._extents[extent.number], self._starts[extent.number]
        for first, last in spans:
            assert 0 <= first <= last <= extent.n_blocks
            self._go(start + first, last - first)
            self._n_read += last - first
        return [blocks[first:last] for first, last in spans]

    def free(self, extent: Extent) -> None:
        """Forgets blocks, which costs nothing."""
        del self._extents[extent.number], self._starts[extent.number]

    @property
    def counts(self) -> DiskCounts:
        n_accesses, n_bytes = self._n_sequential + self._n_random, self._n_read + self._n_written
        read, written = self._n_read * self._block_bytes, self._n_written * self._block_bytes
        seconds = self.model.seconds(n_accesses, n_bytes * self._block_bytes)
        return DiskCounts(n_accesses, self._n_sequential, self._n_random, read, written, seconds)

    @property
    def n_blocks(self) -> int:
        """How many blocks it keeps."""
        return sum(map(len, self._extents.values()))

    def _go(self, place: int, n_blocks: int) -> None:
        """Moves the head to a place and over so many blocks."""
        if not n_blocks:
            return
        n_accesses = 1 if self._adjacent is None else -(-n_blocks // self._adjacent)
        n_sequential = n_accesses - 1 + (place == self._head)
        self._n_sequential += n_sequential
        self._n_random += n_accesses - n_sequential
        self._head = place + n_blocks
