"""What can be set of the three joins, with the thesis's defaults (Tables 3.2 and 5.2, and the text beside them).

Memory is counted in blocks. Where the thesis gives no number, the one here is a choice, and its docstring says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from sash.errors import PlanError

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class EwjSettings:
    """Of EWJ, Exact Window Join (ch. 3). A tuple has 128 bytes, a block 4 KB, a stream 20 MB of memory."""

    r: float = 0.95
    """The part of the recent segment that is fresh when the disk is probed."""
    delta: float = 100.0
    """By how many tuples a block must be more productive than the one whose place it takes."""
    alpha: float = 0.5
    """What is left of productivities after an update."""
    epoch: int = 100_000
    """After how many tuples frequent blocks are updated; chosen."""
    block_rows: int = 32
    block_bytes: int = 4096
    memory: int = 5120
    """Blocks of each stream."""
    recent: float = 0.7
    """The share of the recent segment; chosen, as in ch. 5."""
    frequent: float = 0.15
    """The share of the frequent segment; the rest is the invalidation segment. Chosen, as in ch. 5."""
    basic_window: int = 256
    """Blocks that are adjacent on disk; chosen, as in ch. 5: 1 MB."""

    def __post_init__(self) -> None:
        _check_positive(self, "epoch", "block_rows", "block_bytes", "memory", "basic_window")
        _check_shares(self, "r", "alpha", "recent")
        _check(0 <= self.frequent < 1 - self.recent, self, "frequent", "at least 0, and leaves room for invalidation")
        _check(self.delta >= 0, self, "delta", "not negative")
        _check(self.n_invalidation >= 1, self, "memory", "large enough for a block to be invalidated")
        _check(math.ceil(self.r * self.n_recent) < self.n_recent, self, "r", "so that a block is not fresh then")

    @property
    def n_recent(self) -> int:
        """Blocks of a stream's recent segment."""
        return round(self.memory * self.recent)

    @property
    def n_frequent(self) -> int:
        return round(self.memory * self.frequent)

    @property
    def n_invalidation(self) -> int:
        return self.memory - self.n_recent - self.n_frequent


@dataclass(frozen=True, slots=True)
class RpwjSettings:
    """Of RPWJ, Rate-based Progressive Window Join (ch. 4). A tuple has 64 bytes, a block 1 KB, the join 20 MB."""

    n_part: int = 60
    flush: float = 0.4
    """Which part of memory is flushed at once, at least."""
    slide_us: int = 60 * SECOND_US
    """How often windows slide, and so how often all tasks are run."""
    alpha: float = 0.4
    """What is left of the counts of arrivals after an epoch."""
    epoch_us: int = 60 * SECOND_US
    """Chosen: a slide."""
    m_read: int = 1024
    """Blocks that are read at once; chosen: 1 MB."""
    h_mark: int = 100
    """So many blocks pending make it work block by block; as in ch. 6."""
    l_mark: int = 2
    """So few make it work tuple by tuple; as in ch. 6."""
    gap_us: int = 15 * SECOND_US
    """Between reactive stages."""
    block_rows: int = 16
    block_bytes: int = 1024
    memory: int = 20480
    """Blocks of both streams."""

    def __post_init__(self) -> None:
        _check_positive(self, "n_part", "slide_us", "epoch_us", "m_read", "block_rows", "block_bytes", "memory")
        _check_shares(self, "flush", "alpha")
        _check(0 <= self.l_mark <= self.h_mark, self, "l_mark", "not above `h_mark`, nor negative")
        _check(self.gap_us >= 0, self, "gap_us", "not negative")


@dataclass(frozen=True, slots=True)
class AhEwjSettings:
    """Of AH-EWJ, Adaptive Hash-partitioned EWJ (ch. 5). A tuple has 64 bytes, a block 1 KB, the join 20 MB."""

    n_part: int = 60
    r: float = 0.9
    """The part of the least recent segment that is fresh when the disk is probed."""
    rho: float = 0.4
    """By which part a block must be more productive, or a stream faster, to take memory or to give it."""
    alpha: float = 0.4
    """What is left of productivities after an update, and of the counts of arrivals after an epoch."""
    least_recent: float = 0.3
    """The least share of a stream in the memory of both recent segments."""
    recent: float = 0.7
    """The share of both recent segments in memory; the rest is for frequent blocks and invalidation."""
    frequent: float = 0.15
    """The share of both frequent segments."""
    epoch: int = 100_000
    """After how many tuples frequent blocks are updated; chosen."""
    epoch_us: int = 60 * SECOND_US
    """After how long the counts of arrivals are decayed; chosen: a slide."""
    slide_us: int = 60 * SECOND_US
    """How often windows slide."""
    gap_us: int = 15 * SECOND_US
    """Between probes for which the join had nothing else to do."""
    basic_window: int = 1024
    """Blocks that are adjacent on disk, and that are dumped at once: 1 MB."""
    train: int = 3072
    """By less than so many block numbers is the disk out of order; chosen as in Fig. 5.3: three dumps."""
    block_rows: int = 16
    block_bytes: int = 1024
    memory: int = 20480
    """Blocks of both streams."""

    def __post_init__(self) -> None:
        _check_positive(self, "n_part", "epoch", "epoch_us", "basic_window", "train", "block_rows", "block_bytes")
        _check_shares(self, "r", "alpha", "recent", "least_recent")
        _check(self.rho >= 0, self, "rho", "not negative")
        _check(self.slide_us >= 0 and self.gap_us >= 0, self, "slide_us", "not negative, nor is `gap_us`")
        _check(self.least_recent < 0.5, self, "least_recent", "below 0.5: there are two streams")
        _check(0 <= self.frequent < 1 - self.recent, self, "frequent", "at least 0, and leaves room for invalidation")
        _check(self.n_invalidation >= 1, self, "memory", "large enough for a block of each stream to be invalidated")
        needed = f"so large that a stream has at least {self.n_part + 1} recent blocks, one more than buckets"
        _check(self.n_least > self.n_part, self, "memory", needed)

    @property
    def n_recent(self) -> int:
        """Blocks of both recent segments."""
        return round(self.memory * self.recent)

    @property
    def n_least(self) -> int:
        """The least number of blocks of a stream's recent segment."""
        return math.floor(self.n_recent * self.least_recent)

    @property
    def n_frequent(self) -> int:
        """Blocks of a stream's frequent segment."""
        return round(self.memory * self.frequent) // 2

    @property
    def n_invalidation(self) -> int:
        """Blocks of a stream's invalidation segment."""
        return (self.memory - self.n_recent - 2 * self.n_frequent) // 2


ExactSettings = EwjSettings | RpwjSettings | AhEwjSettings


def _check_positive(settings: ExactSettings, *names: str) -> None:
    for name in names:
        _check(getattr(settings, name) >= 1, settings, name, "1 or more")


def _check_shares(settings: ExactSettings, *names: str) -> None:
    for name in names:
        _check(0 < getattr(settings, name) < 1, settings, name, "more than 0 and less than 1")


def _check(holds: bool, settings: ExactSettings, name: str, wanted: str) -> None:
    if not holds:
        assert name in {each.name for each in fields(settings)}
        raise PlanError(f"`{name}` is {getattr(settings, name)}; it must be {wanted}")
