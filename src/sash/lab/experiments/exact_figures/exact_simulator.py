"""A join with a virtual clock: what arrives waits until the join is free, which computes and waits for its disk.

    arrivals   ·  · ···· ·   ·          buffered at a time: what has arrived less what the join has taken in
    join       ▇▇▇ idle ▇▇▇▇▇▇▇▇▇▇      busy: comparisons times their price, and the disk by Equation 3.2
    a pair            │   ×             delay: from the arrival of its newer tuple to when it is found

Everything repeats exactly. Nothing is measured before the thesis's warm-up is over, nor after the trace has ended: a
join that cannot keep up is busy until then, and what it has left is buffered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, EWJ, MB, MIB, ExactCase
from sash.lab.experiments.exact_figures.exact_trace import ExactTrace, draw_trace, fullest_window
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_kernels.block_frames import COMPARED, END, INSERTED, LATE, PAIRED, REMOVED, SCANNED, TS
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, RpwjSettings
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.work_clock import FoundPairs, WorkClock, WorkPrices
from sash.store.model_disk import DISK_9LZX, DiskModel, ModelDisk

N_SAMPLES = 2000
N_POINTS = 96
"""Of a curve over time that is kept."""
NOW, CPU, DISK, N_SAMPLED = 0, 1, 2, 3
COUNTED = {"compared": COMPARED, "scanned": SCANNED}
"""Pairs of tuples that were compared, and tuples that scans have gone over, as if at full scale."""

DiskJoin = ExactWindowJoin | ProgressiveWindowJoin | AdaptiveWindowJoin


class SampledClock(WorkClock):
    """A virtual clock that notes what was done by when, at most so often."""

    def __init__(self, prices: WorkPrices, every_us: float):
        super().__init__(prices)
        self._every_us, self._next_us = every_us, 0.0
        self._samples: list[tuple[float, ...]] = []

    @property
    def looked_at_us(self) -> float:
        return self._next_us

    def look(self) -> None:
        self.sample()

    def wait_until(self, time_us: float) -> None:
        super().wait_until(time_us)
        self.sample()

    def wait_for_disk(self, seconds: float) -> None:
        super().wait_for_disk(seconds)
        self.sample()

    def sample(self, is_last: bool = False) -> None:
        """Notes what was done so far, unless that was noted just before."""
        if is_last or self.now_us >= self._next_us:
            self._next_us = self.now_us + self._every_us
            self._samples.append((self.now_us, self.cpu_us, self.disk_us, *self.log.counters.tolist()))

    def done_by(self, column: int, times_us: Sequence[float] | np.ndarray) -> np.ndarray:
        """How much of a column was done by each of several times."""
        samples = np.array(self._samples)
        return np.interp(np.asarray(times_us), samples[:, NOW], samples[:, column], left=0.0)


@cache
def simulate(case: ExactCase, fraction: float = 1.0, length: float = 1.0) -> dict[str, Any]:
    """What a run of a case has measured, in numbers of the full scale; those of a `fraction` are divided by it.

    Whoever asks again for the same gets the same, which nobody may change.
    """
    duration_us, window_us = (round(1e6 * fraction * each) for each in (length * case.duration_s, case.window_s))
    trace = draw_trace(case.rate, duration_us, window_us, case.bias, case.seed)
    clock = SampledClock(
        WorkPrices(case.comparison_ns / 1000 / fraction, scanned_us=case.scanned_ns / 1000 / fraction),
        duration_us / N_SAMPLES,
    )
    join = make_join(case, fraction, clock)
    pairs = _run(join, trace, clock)
    return _facts(case, join, trace, pairs, (fraction, length))


def make_join(case: ExactCase, fraction: float, clock: WorkClock) -> DiskJoin:
    """The join of a case, with a part of its memory and times."""
    model = DiskModel(DISK_9LZX.seek_s * fraction, DISK_9LZX.latency_s * fraction, case.mb_per_s * MB)
    memory, basic_window = (max(1, round(each * fraction * MIB / case.block_bytes)) for each in (case.memory_mb, 1))
    block = {"block_rows": case.block_rows, "block_bytes": case.block_bytes, "memory": memory}
    epoch = max(1, round(100_000 * fraction))
    if case.method == EWJ:
        settings = EwjSettings(**block, basic_window=basic_window, epoch=epoch)
        return ExactWindowJoin(settings, _disks(case, model, basic_window), clock)
    times = {"slide_us": case.slide_s, "gap_us": case.gap_s, "epoch_us": 60}
    block |= {"n_part": case.n_part, **{name: round(1e6 * fraction * each) for name, each in times.items()}}
    if case.method == AHEWJ:
        settings = AhEwjSettings(**block, basic_window=basic_window, train=3 * basic_window, epoch=epoch)
        return AdaptiveWindowJoin(settings, _disks(case, model, basic_window), clock)
    marks = {"h_mark": max(2, round(100 * fraction)), "l_mark": max(1, round(2 * fraction))}
    settings = RpwjSettings(**block, **marks, flush=case.flush, m_read=max(2, basic_window))
    disk = ModelDisk(case.block_bytes, model)
    return ProgressiveWindowJoin(settings, disk, clock, model, case.is_gap_of_partition)


def _disks(case: ExactCase, model: DiskModel, basic_window: int) -> list[ModelDisk]:
    return [ModelDisk(case.block_bytes, model, adjacent_blocks=basic_window) for _ in range(2)]


def _run(join: DiskJoin, trace: ExactTrace, clock: SampledClock) -> FoundPairs:
    """Feeds all rows; all pairs. RPWJ looks how many rows are pending, so it is fed all of them at once."""
    n_pieces = 1 if isinstance(join, ProgressiveWindowJoin) else N_SAMPLES
    found = []
    for piece in np.array_split(np.arange(len(trace.sides)), n_pieces):
        if len(piece):
            rows = slice(piece[0], piece[-1] + 1)
            found += join.feed(trace.records[rows], trace.sides[rows])
            clock.sample()
    clock.sample(is_last=True)
    return FoundPairs(*(np.concatenate([each[column] for each in found] or [np.empty(0)]) for column in range(3)))


def _facts(
    case: ExactCase, join: DiskJoin, trace: ExactTrace, pairs: FoundPairs, scale: tuple[float, float]
) -> dict[str, Any]:
    fraction, length = scale
    clock, to_full_s = join.clock, 1e-6 / fraction
    assert isinstance(clock, SampledClock)
    times = begin_us, end_us = [1e6 * fraction * length * each for each in (case.warm_s, case.duration_s)]
    cpu_us, disk_us = (_done(clock, column, times) for column in (CPU, DISK))
    removed, late = (float(clock.log.counters[each]) for each in (REMOVED, LATE))
    counts = [disk.counts for disk in join.disks]
    return {
        "method": case.method,
        "rate": case.rate,
        "cpu_s": cpu_us * to_full_s,
        "disk_s": disk_us * to_full_s,
        "total_s": (cpu_us + disk_us) * to_full_s,
        "busy": (cpu_us + disk_us) / (end_us - begin_us),
        "late_inputs": late / max(1.0, removed),
        **_delays(case, trace, pairs, (begin_us, end_us, fraction)),
        "window_mb": fullest_window(trace, (0, 1)) * case.tuple_bytes / fraction / MB,
        "stream_mb": max(fullest_window(trace, (side,)) for side in (0, 1)) * case.tuple_bytes / fraction / MB,
        "accesses_per_tuple": sum(each.accesses for each in counts) / max(1, int(clock.log.counters[INSERTED])),
        **{name: _done(clock, N_SAMPLED + each, times) / fraction**2 for name, each in COUNTED.items()},
        **_stages(join),
        "bytes_written": round(sum(each.bytes_written for each in counts) / fraction),
        **_curves(trace, clock, end_us, fraction),
    }


def _done(clock: SampledClock, column: int, times_us: Sequence[float]) -> float:
    """How much of a column was done between two times."""
    return float(np.diff(clock.done_by(column, times_us))[0])


def _stages(join: DiskJoin) -> dict[str, int]:
    """How many periodic and reactive stages RPWJ has had, over all of the trace."""
    if not isinstance(join, ProgressiveWindowJoin):
        return {"n_periods": 0, "n_reactions": 0}
    return {"n_periods": join.n_periods, "n_reactions": join.n_reactions}


def _delays(
    case: ExactCase, trace: ExactTrace, pairs: FoundPairs, times: tuple[float, float, float]
) -> dict[str, float]:
    """Of the pairs that were found while it was measured: how late they are, and how many after the window's limit."""
    begin_us, end_us, fraction = times
    left, right = (trace.records[each.astype(np.int64)] for each in (pairs.left, pairs.right))
    is_measured = (pairs.at_us >= begin_us) & (pairs.at_us < end_us)
    delays_us = (pairs.at_us - np.maximum(left[:, TS], right[:, TS]))[is_measured]
    limits_us = np.minimum(left[:, END], right[:, END]) + 1e6 * fraction * case.slide_s
    n_pairs = max(1, len(delays_us))
    return {
        "n_pairs": len(delays_us),
        "delay_s": float(delays_us.sum()) / n_pairs / 1e6 / fraction,
        "late_outputs": float(np.count_nonzero((pairs.at_us > limits_us)[is_measured])) / n_pairs,
    }


def _curves(trace: ExactTrace, clock: SampledClock, end_us: float, fraction: float) -> dict[str, Any]:
    """Over time: tuples of both streams that are buffered, tuples that were processed, and pairs."""
    points = np.linspace(0, end_us, N_SAMPLES + 1)[1:]
    taken, paired = (clock.done_by(N_SAMPLED + each, points) for each in (INSERTED, PAIRED))
    buffered = np.maximum(np.searchsorted(trace.records[:, TS], points, side="right") - taken, 0) / fraction
    parts = np.array_split(buffered, N_POINTS)
    last = np.array([each[-1] for each in np.array_split(np.arange(len(points)), N_POINTS)])
    return {
        "buffered_peak": float(buffered.max()),
        "buffered_end": float(buffered[-1]),
        "times_s": (points[last] / 1e6 / fraction).round(3).tolist(),
        "buffered": [float(each.max()) for each in parts],
        "processed": (taken[last] / fraction).tolist(),
        "outputs": (paired[last] / fraction).tolist(),
    }
