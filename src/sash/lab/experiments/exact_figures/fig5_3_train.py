"""Exact, §5.1 to §5.3, with Figure 5.3: what AH-EWJ writes if windows fit, how full memory is, and the train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, measure, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_simulator import DiskJoin, make_join
from sash.lab.experiments.exact_figures.exact_trace import draw_trace, fullest_window
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_settings import AhEwjSettings
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.recent_buckets import RecentBuckets
from sash.papers.exact.work_clock import WorkClock, WorkPrices

ROOMY_RATE = 100
"""At this one, both windows have up to 11 MB together, of 20."""
RATE = 1200
N_LOOKS = 100
TRAIN, BASIC_WINDOW, N_PART = 3072, 1024, 60
"""As at full scale, since a train of fewer blocks has fewer of each bucket."""
N_DUMPS = 12
STILL = 1e9
"""A ρ with which no stream is ever so much faster that it yields memory (Equation 5.1)."""


def run(scale: ExactScale, note: Note) -> Outcome:
    """Small rates; and one that spills, over three windows, in which computing takes no time."""
    rows = measure([(ExactCase(AHEWJ, rate), {}) for rate in (*scale.fitting_rates, ROOMY_RATE)], scale, note)
    fraction = min(scale.fraction, 1 / 16)
    empty = [_empty_share(method, fraction) for method in (RPWJ, AHEWJ)]
    fitting = [row for row in rows if row["rate"] in scale.fitting_rates]
    bypasses = [_bypass(fitting), _bypass_both(rows), _bypass_still()]
    claims = {"E5.27": bypasses, "E5.28": _empty(*empty), "E5.29": _train()}
    return Outcome(rows, numbered(claims))


def _bypass(rows: Sequence[Row]) -> Claim:
    found, windows = (line(rows, column, "rate") for column in ("bytes_written", "window_mb"))
    return Claim(
        "AH-EWJ writes nothing to disk while each window fits into what its stream has of memory (0 bytes)",
        f"bytes {tell(found)}; windows {tell(windows, '{:.1f}', ' MB')}",
        set(found.values()) == {0},
    )


def _bypass_both(rows: Sequence[Row]) -> Claim:
    found, windows = (line(rows, column, "rate")[ROOMY_RATE] for column in ("bytes_written", "window_mb"))
    return Claim(
        "Nor does it while both windows together fit into memory (0 bytes)",
        f"{found:,} bytes; windows {windows:.1f} MB ({ROOMY_RATE})",
        found == 0,
        "by Equation 5.1 the faster stream yields recent memory to the slower one, down to 4.2 MB, whether or not its "
        "own window still fits then; and blocks bypass the disk only while the invalidation segment, of 1.5 MB, has "
        "room",
    )


def _bypass_still() -> Claim:
    printed, still = (roomy_run(rho) for rho in (AhEwjSettings().rho, STILL))
    return Claim(
        "It does not while both windows together fit, if no stream yields memory to the other one (Equation 5.1)",
        f"{still.bytes_written:,} bytes; {printed.bytes_written:,} bytes with Equation 5.1, by which "
        f"{printed.n_moved:,} frames have moved; no stream has had more than {printed.fullest_blocks:,} blocks in its "
        f"window, and one has yielded down to {printed.least_blocks:,} for recent and invalid ones",
        still.bytes_written == 0,
        "heads of buckets are blocks, too, and windows slide once a minute",
    )


class RoomyRun(NamedTuple):
    """What AH-EWJ has written, how many frames went from stream to stream, blocks of the fullest window of a stream,
    and the fewest that a stream has had for recent and invalid blocks.
    """

    bytes_written: int
    n_moved: int
    fullest_blocks: int
    least_blocks: int


def roomy_run(rho: float, fraction: float = 1 / 4) -> RoomyRun:
    """Windows that fit into memory together, joined in no time.

    At much less than a quarter of full scale heads of buckets take so long to fill, compared with the window, that
    blocks do not fit for that alone.
    """
    case = ExactCase(AHEWJ, ROOMY_RATE)
    duration_us, window_us = (round(1e6 * fraction * each) for each in (case.duration_s, case.window_s))
    made = make_join(case, fraction, WorkClock(WorkPrices()))
    assert isinstance(made, AdaptiveWindowJoin)
    settings = replace(made.settings, rho=rho)
    join, least = AdaptiveWindowJoin(settings, clock=WorkClock(WorkPrices())), settings.n_recent
    trace = draw_trace(case.rate, duration_us, window_us, case.bias, case.seed)
    for rows in np.array_split(np.arange(len(trace.sides)), N_LOOKS):
        list(join.feed(trace.records[rows], trace.sides[rows]))
        least = min(least, *join.shares)
    fullest = max(fullest_window(trace, (side,)) for side in (0, 1))
    written = sum(disk.counts.bytes_written for disk in join.disks)
    return RoomyRun(written, join.n_moved, -(-fullest // case.block_rows), least + settings.n_invalidation)


def _empty_share(method: str, fraction: float) -> float:
    """Which part of its memory, or of its recent segments, a join left empty in the last two of three windows without
    bursts.
    """
    case = ExactCase(method, RATE, bias=0.5)
    window_us = round(1e6 * case.window_s * fraction)
    join = make_join(case, fraction, WorkClock(WorkPrices()))
    trace = draw_trace(case.rate, 3 * window_us, window_us, case.bias, case.seed)
    shares = []
    for rows in np.array_split(np.arange(len(trace.sides)), N_LOOKS):
        list(join.feed(trace.records[rows], trace.sides[rows]))
        shares.append(_empty_now(join))
    return float(np.mean(shares[N_LOOKS // 3 :]))


def _empty_now(join: DiskJoin) -> float:
    if isinstance(join, ProgressiveWindowJoin):
        return join.memory.n_free / join.settings.memory
    assert isinstance(join, AdaptiveWindowJoin)
    return 1 - sum(map(len, join.recent)) / join.settings.n_recent


def _empty(progressive: float, adaptive: float) -> list[Claim]:
    half = ExactCase(RPWJ, RATE).flush / 2
    return [
        Claim(
            f"RPWJ leaves half of what it flushes empty on average, {half:.0%} of its memory (within a third of that)",
            f"{progressive:.1%} empty",
            abs(progressive / half - 1) < 1 / 3,
            "invalidation frees memory, too, and whole partitions are more than what has to be flushed",
        ),
        Claim(
            "AH-EWJ leaves nothing of its recent segments empty (less than 1 %)",
            f"{adaptive:.1%} empty",
            adaptive < 0.01,
        ),
    ]


def _train() -> list[Claim]:
    """Dumps of blocks of random buckets, as many as memory has at a time."""
    recent, rng = RecentBuckets(N_PART, TRAIN), np.random.default_rng(1)
    n_blocks = N_DUMPS * BASIC_WINDOW
    buckets, numbers, dumped = rng.integers(0, N_PART, n_blocks), np.arange(n_blocks), []
    for first in range(0, n_blocks, TRAIN):
        for block in range(first, min(first + TRAIN, n_blocks)):
            recent.open_head(int(buckets[block]), block)
            recent.close_head(int(buckets[block]))
        recent.make_stale()
        for _ in range(TRAIN // BASIC_WINDOW):
            dumped += recent.flush(BASIC_WINDOW, numbers)
    order = np.array(dumped)
    switches = {"train": _n_switches(buckets[order]), "by number": _n_switches(buckets), "in turn": n_blocks - 1}
    disorder = int((np.maximum.accumulate(order) - order).max())
    return [
        Claim(
            "On disk, buckets change far less often by the train than in order of numbers or in turn (a tenth)",
            f"in {n_blocks:,} blocks: {tell(switches)}",
            10 * switches["train"] < min(switches["by number"], switches["in turn"]),
        ),
        Claim(
            f"No block is out of order by more than a train, {TRAIN} blocks", f"by {disorder} at most", disorder < TRAIN
        ),
    ]


def _n_switches(buckets: np.ndarray) -> int:
    return int(np.count_nonzero(np.diff(buckets)))


EXPERIMENT = Experiment(
    "5-3",
    "what AH-EWJ writes, and in which order",
    PAPER,
    run,
    partial(draw_lines, over="rate", axis="tuples/s of a stream", columns=("window_mb", "delay_s")),
)
