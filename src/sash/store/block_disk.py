"""A disk as joins see it whose windows outgrow memory: blocks that are written in one go, read in spans, and let go.

    append(blocks)         n blocks, one after the other: one extent
    read(extent, spans)    of each span the blocks that were written
    free(extent)           nobody reads it again

What is not read is not there: whoever wants a row of a block that is not in memory asks the disk for it. So what the
disk has counted is what an algorithm has cost. Blocks of one call have one shape, and rows of numbers are all that a
disk knows of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

Span: TypeAlias = tuple[int, int]
"""The blocks of an extent from the first up to, and not with, the last; counted from the extent's beginning."""


class Extent(NamedTuple):
    """Blocks that lie one behind the other."""

    number: int
    """No two extents of a disk share it, not even if one is gone."""
    n_blocks: int


class DiskCounts(NamedTuple):
    """What a disk has done so far."""

    accesses: int = 0
    """How often it went to a place: for each span of a read, and for each write, at least once."""
    sequential: int = 0
    """Of these, how often the place was where the access before had ended."""
    random: int = 0
    """The others."""
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    """How long it took, or would have taken."""


class BlockDisk(Protocol):
    """Keeps blocks: arrays whose first dimension counts them."""

    def append(self, blocks: np.ndarray) -> Extent:
        """Writes blocks behind each other, at once. The array may be overwritten afterwards."""
        ...

    def read(self, extent: Extent, spans: Sequence[Span]) -> list[np.ndarray]:
        """The blocks of each span, as they were written. They are not to be changed."""
        ...

    def free(self, extent: Extent) -> None:
        """Forgets blocks."""
        ...

    @property
    def counts(self) -> DiskCounts: ...
