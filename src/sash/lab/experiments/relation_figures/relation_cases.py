"""What is simulated of Exact, chapter 6: how much of it at which scale, and the setting of a run.

    full       a relation of 200 MB, 40 MB of memory, 0.8 hours, as printed
    default    a part `fraction` of it: of the relation, of all times, and of a block, so of all that is in blocks, of
               `N_invoke`, τ and θ. Rates are as printed, so there are as many blocks, lists, segments and probes
    reported   as it would be at full scale: times, bytes and tuples are divided by `fraction`. What does not scale is
               how many tuples share a scan: those of a block

A comparison costs 1 / `fraction` times as much as at full scale, where segments have that many times the rows, and an
access of the disk takes `fraction` of its time; but not of indexed nested loops, which read a page for a tuple.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.lab.experiments.experiment import Paper

HASHED, RANGED, MESH, INL = "hash", "range", "mesh", "inl"
NAMES = {HASHED: "hash-partitioned", RANGED: "range-partitioned", MESH: "MESHJOIN", INL: "indexed nested loops"}
PARTITIONED = (HASHED, RANGED)
COMPARED_METHODS = (HASHED, RANGED, MESH)
MIB = 1 << 20
ALL_NS = 45.0
"""For a comparison, if nothing else costs: with it MESHJOIN is saturated at 1,200 tuples per second, as in the thesis.
A tuple is compared with 18,409 rows there, on average: one of 89 buckets."""
SCANNED_NS = 16.0
"""For 64 bytes that a scan goes over: 4 GB/s, about what the memory of such a machine gave, and as in chapters 3 to 5.
A block shares a scan; a tuple, and MESHJOIN, does not. A comparison is then what is left of the 45 ns."""
SEED = 15
N_KEYS = 1_000_001
"""0 to 10^6."""


@dataclass(frozen=True, slots=True)
class RelationScale:
    """How much is simulated of joins with a relation."""

    name: str
    fraction: float
    rates: tuple[int, ...]
    """Tuples per second."""
    inl_rates: tuple[int, ...]
    reads_mb: tuple[float, ...]
    """R-buffers of MESHJOIN."""
    memories: tuple[int, ...]
    biases: tuple[float, ...]
    invokes: tuple[int, ...]
    """`N_invoke`."""
    speeds: tuple[int, ...]
    """Megabytes per second of the disk; the thesis prints none, and 20 is taken where nothing else is said."""


QUICK = RelationScale(
    "quick", 1 / 32, (500, 1000, 1500, 2000), (50, 100), (0.25, 1, 4), (20, 40, 80), (0.5, 0.6, 0.7), (500, 3000),
    (20,),
)  # fmt: skip
DEFAULT = RelationScale(
    "default", 1 / 4, (500, 800, 1000, 1200, 1500, 1800, 2000), (25, 50, 100, 200), (0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
    (20, 30, 40, 60, 80, 120), (0.5, 0.55, 0.6, 0.65, 0.7), (500, 1000, 2000, 3000, 6000), (12, 20, 36),
)  # fmt: skip
FULL = replace(DEFAULT, name="full", fraction=1.0)
RELATION_SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
RELATION_PAPER = Paper(
    "Exact", "Processing exact results for queries over data streams, chapters 3 to 6", RELATION_SCALES
)


@dataclass(frozen=True, slots=True)
class RelationCase:
    """One run, in the numbers of the thesis: Table 6.2."""

    method: str
    rate: float = 1000
    bias: float = 0.6
    duration_s: float = 2880
    warm_s: float = 360
    relation_mb: float = 200
    memory_mb: float = 40
    wait_mb: float = 4
    read_mb: float = 1
    """The R-buffer of MESHJOIN."""
    n_invoke: int = 3000
    is_eager: bool = False
    h_mark: int = 100
    l_mark: int = 2
    mb_per_s: float = 20
    is_scan_priced: bool = True
    """Whether scans cost, so that blocks save some; else all of the price is a comparison's."""
    is_even_relation: bool = False
    """Whether the relation's keys are drawn evenly, rather than by the stream's law: then the stream's hot ranges are
    hot segments, while by the same law a hot range has as many more rows, and so segments, as it has tuples."""
    is_even_stream: bool = False
    """Whether the stream's keys are, too: then nothing is near in time that is near in keys."""
    epoch: int = 10_000
    """τ."""
    seed: int = SEED

    @property
    def comparison_ns(self) -> float:
        return ALL_NS - SCANNED_NS if self.is_scan_priced else ALL_NS

    @property
    def scanned_ns(self) -> float:
        """For a tuple that a scan goes over: 64 bytes of the stream's, or 128 of the relation's."""
        if not self.is_scan_priced:
            return 0.0
        return SCANNED_NS if self.method == MESH else 2 * SCANNED_NS
