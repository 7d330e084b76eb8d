"""What can be set of joins with a relation on disk, with the defaults of Exact, Table 6.2 and the text beside it.

Memory is counted in blocks of 4 KB: 64 tuples of the stream, or 32 of the relation. Where the thesis gives no number,
the one here is a choice, and its docstring says so.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from sash.errors import PlanError

HASH_PARTITIONED, RANGE_PARTITIONED = "hash", "range"


@dataclass(frozen=True, slots=True)
class PartitionedSettings:
    """Of PartitionedJoin (Alg. 8 and 9)."""

    partitioning: str = RANGE_PARTITIONED
    """How keys are mapped: by hash, to `n_part` segments, or by range, to segments of `theta` to twice as many rows."""
    n_part: int = 89
    theta: int = 8192
    """Rows of 1 MB."""
    max_levels: int = 20
    """A slot array has at most 2 to this power entries; chosen. A slot that is still too full stays so."""
    rho: float = 0.25
    """By which part the arrivals per block must be more, for a segment to take another one's place."""
    alpha: float = 0.3
    """What is left of the arrival frequencies after an epoch."""
    epoch: int = 10_000
    """Its length in tuples, τ; chosen: ten seconds of the default rate."""
    r_wb: float = 0.4
    """The part of the wait buffer that is free after it was full."""
    n_invoke: int = 3000
    """So many tuples in a list make idle time a time to probe."""
    is_eager: bool = False
    """Whether such a list is probed at once, busy or not, as §6.3.1 may be read."""
    max_wait_us: int | None = None
    """After how long a tuple is joined, whoever else waits; without end in the thesis."""
    h_mark: int = 100
    """More blocks than these in the input buffer make it work block by block."""
    l_mark: int = 2
    """Less than these make it work tuple by tuple."""
    memory: int = 10_240
    """Blocks of the join memory, the wait buffer and the R-buffer together: 40 MB."""
    wait: int = 1024
    """Blocks of the wait buffer."""
    basic_window: int = 512
    """Blocks that are adjacent on disk: 2 MB."""
    stream_rows: int = 64
    """Tuples of the stream in a block."""
    block_rows: int = 32
    """Rows of the relation in a block."""
    block_bytes: int = 4096

    def __post_init__(self) -> None:
        kinds = (HASH_PARTITIONED, RANGE_PARTITIONED)
        _check(self.partitioning in kinds, self, "partitioning", " or ".join(f"`{each}`" for each in kinds))
        _check_positive(self, "n_part", "theta", "epoch", "n_invoke", "memory", "wait", "basic_window")
        _check_positive(self, "stream_rows", "block_rows", "block_bytes")
        _check(0 <= self.max_levels <= 30, self, "max_levels", "0 to 30")
        _check(self.rho >= 0, self, "rho", "not negative")
        _check(0 < self.alpha <= 1, self, "alpha", "more than 0 and at most 1")
        _check(0 <= self.r_wb < 1, self, "r_wb", "at least 0 and less than 1")
        _check(0 <= self.l_mark <= self.h_mark, self, "l_mark", "not above `h_mark`, nor negative")
        _check(self.max_wait_us is None or self.max_wait_us >= 0, self, "max_wait_us", "not negative")


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """Of MESHJOIN (§6.2)."""

    read: int = 256
    """Blocks of the R-buffer, and of a segment of the relation, `d`: 1 MB."""
    n_bucket: int = 89
    memory: int = 10_240
    """Blocks of the R-buffer and the queue."""
    basic_window: int = 512
    stream_rows: int = 64
    block_rows: int = 32
    block_bytes: int = 4096

    def __post_init__(self) -> None:
        _check_positive(self, "read", "n_bucket", "memory", "basic_window", "stream_rows", "block_rows", "block_bytes")
        _check(self.read < self.memory, self, "read", "less than `memory`, so that there is room for a queue")


@dataclass(frozen=True, slots=True)
class InlSettings:
    """Of the indexed nested-loop join, which the thesis names and does not describe: all of it is chosen."""

    fan_out: int = 256
    """Entries of a page of the index: 16 bytes each."""
    memory: int = 10_240
    """Pages that are kept, of the index and of the relation, those that were used last."""
    basic_window: int = 512
    block_rows: int = 32
    block_bytes: int = 4096

    def __post_init__(self) -> None:
        _check_positive(self, "memory", "basic_window", "block_rows", "block_bytes")
        _check(self.fan_out >= 2, self, "fan_out", "2 or more")


RelationSettings = PartitionedSettings | MeshSettings | InlSettings


def _check_positive(settings: RelationSettings, *names: str) -> None:
    for name in names:
        _check(getattr(settings, name) >= 1, settings, name, "1 or more")


def _check(holds: bool, settings: RelationSettings, name: str, wanted: str) -> None:
    if not holds:
        assert name in {each.name for each in fields(settings)}
        raise PlanError(f"`{name}` is {getattr(settings, name)}; it must be {wanted}")
