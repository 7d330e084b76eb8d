"""What is simulated of Exact, chapters 3 to 5: how much of it at which scale, and the setting of a run.

    full       windows of 30 and of 10 minutes over 4 and 1.6 hours, as printed
    default    all times and the memory are a part `fraction` of it: window / duration, rate · window · tuple / memory
               and slide / window are as printed, so there are as many dumps and probes, each of a smaller window
    reported   as it would be at full scale: times, bytes and tuples are divided by `fraction`

A comparison costs 1 / `fraction` times as much as at full scale, where windows have that many times the tuples, and an
access of the disk takes `fraction` of its time. What does not scale is a block: 60 open heads of 16 tuples each take as
long to fill as at full scale, which is much longer against a smaller window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.lab.experiments.experiment import Paper

EWJ, RPWJ, AHEWJ = "ewj", "rpwj", "ahewj"
TITLES = {EWJ: "EWJ", RPWJ: "RPWJ", AHEWJ: "AH-EWJ"}
MB = 1_000_000
MIB = 1 << 20
NESTED_NS = 3.0
"""For a comparison of chapter 3. A join is saturated at the rate from which on it is, at some time, behind by more than
half a window. With this price EWJ is at a rate between 250 and 300 tuples per second and stream, as the thesis says."""
BUCKET_NS = 8.0
"""For a comparison of chapter 5: with it RPWJ is saturated at 1,400 tuples per second and stream, and not at 1,200. The
thesis measured Java on a machine of 2004; today's would saturate far later."""
SCANNED_NS = 16.0
"""For a tuple that a scan of a partition goes over, beside what comparing it costs: 64 bytes at 4 GB/s, about what the
memory of such a machine gave. The thesis says that scans cost, and that blocks share them, but not how much; so all is
simulated without, and what it would come to is computed from how many tuples scans have gone over."""
SEED = 15
"""Of 30 traces the first whose fullest window is the median: 183 MB of both streams at 1,600 tuples per second."""
SPEEDS = (12, 20, 30)
"""Megabytes per second of the disk; the thesis prints none, and 20 is taken where nothing else is said."""


@dataclass(frozen=True, slots=True)
class ExactScale:
    """How much is simulated of joins whose windows are larger than memory."""

    name: str
    fraction: float
    """Of the times and of the memory that are printed."""
    length: float
    """Of the duration that would belong to that."""
    ewj_rates: tuple[int, ...]
    rates: tuple[int, ...]
    """Tuples per second of each stream, in chapter 3 and in chapter 5."""
    fitting_rates: tuple[int, ...]
    """Those at which the windows of chapter 5 fit into memory, each into its stream's, with a head for every bucket."""
    speeds: tuple[int, ...]
    ewj_biases: tuple[float, ...]
    biases: tuple[float, ...]
    slides_s: tuple[int, ...]
    flushes: tuple[float, ...]
    parts: tuple[int, ...]
    memories: tuple[int, ...]
    """Megabytes of the join."""
    blocks: tuple[int, ...]
    """Bytes of a block."""


QUICK = ExactScale(
    "quick", 1 / 64, 0.25, (100, 200, 250, 300), (1000, 1400, 1600), (15, 30), (20,), (0.5, 0.6), (0.5, 0.6), (60, 120),
    (0.4, 0.8), (30, 60), (20, 40), (512, 1024),
)  # fmt: skip
DEFAULT = ExactScale(
    "default", 1 / 16, 1.0, (100, 150, 200, 250, 300), (800, 1000, 1200, 1400, 1600, 1800), (30, 60), SPEEDS,
    (0.5, 0.55, 0.6, 0.65), (0.5, 0.6, 0.7), (30, 60, 120, 240), (0.2, 0.4, 0.6, 0.8), (30, 60, 90, 120),
    (10, 20, 40), (512, 1024, 2048, 4096),
)  # fmt: skip
FULL = replace(
    DEFAULT, name="full", fraction=1.0, ewj_rates=(50, 100, 150, 200, 225, 250, 275, 300),
    rates=(600, 800, 1000, 1200, 1400, 1600, 1800, 2000), biases=(0.5, 0.55, 0.6, 0.65, 0.7),
)  # fmt: skip
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
PAPER = Paper("Exact", "Processing exact results for queries over data streams, chapters 3 to 6", SCALES)


@dataclass(frozen=True, slots=True)
class ExactCase:
    """One run, in the numbers of the thesis: Tables 3.2 and 5.2."""

    method: str
    rate: float
    """Tuples per second of each stream."""
    bias: float = 0.6
    window_s: float = 600
    duration_s: float = 5760
    warm_s: float = 720
    slide_s: float = 60
    gap_s: float = 15
    """Between what is done in idle time."""
    n_part: int = 60
    flush: float = 0.4
    memory_mb: float = 20
    """Of the join, or of each stream with EWJ."""
    tuple_bytes: int = 64
    block_bytes: int = 1024
    mb_per_s: float = 20
    comparison_ns: float = BUCKET_NS
    scanned_ns: float = 0.0
    """For a tuple that a scan goes over."""
    is_gap_of_partition: bool = False
    """Whether the gap is between reactive stages of the same partition of RPWJ, or between any two."""
    seed: int = SEED

    @property
    def block_rows(self) -> int:
        return self.block_bytes // self.tuple_bytes


def nested_case(rate: float, **changes: float) -> ExactCase:
    """A run of EWJ, chapter 3, where nothing slides but with every tuple."""
    case = ExactCase(EWJ, rate, window_s=1800, duration_s=14_400, warm_s=1800, slide_s=0, tuple_bytes=128)
    return replace(case, block_bytes=4096, comparison_ns=NESTED_NS, **changes)
