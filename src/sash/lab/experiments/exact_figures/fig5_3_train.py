"""Exact, §5.1 to §5.3, with Figure 5.3: what AH-EWJ writes if windows fit, how full memory is, and the train."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_measures import line, measure, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_simulator import make_join
from sash.lab.experiments.exact_figures.exact_trace import ExactTrace, draw_trace
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.work_clock import WorkClock, WorkPrices

RATE = 1200
N_LOOKS = 400


def run(scale: ExactScale, note: Note) -> Outcome:
    """Small rates; and one that spills, over three windows, in which computing takes no time."""
    rows = measure([(ExactCase(AHEWJ, rate), {}) for rate in scale.fitting_rates], scale, note)
    fraction = min(scale.fraction, 1 / 16)
    adaptive, free = _looked_at(AHEWJ, fraction)
    _, free_progressive = _looked_at(RPWJ, fraction)
    assert isinstance(adaptive, AdaptiveWindowJoin)
    return Outcome(rows, [_bypass(rows), *_empty(free, free_progressive), *_train(adaptive)])


def _bypass(rows: Sequence[Row]) -> Claim:
    found, windows = (line(rows, column, "rate") for column in ("bytes_written", "window_mb"))
    return Claim(
        "AH-EWJ writes nothing to disk while both windows fit into memory (0 bytes)",
        f"bytes {tell(found)}; windows {tell(windows, '{:.1f}', ' MB')}",
        set(found.values()) == {0},
    )


def _looked_at(method: str, fraction: float) -> tuple[Any, float]:
    """A join after three windows of a trace without bursts, and which part of its memory was free after the first."""
    case = ExactCase(method, RATE, bias=0.5)
    window_us = round(1e6 * case.window_s * fraction)
    join = make_join(case, fraction, WorkClock(WorkPrices()))
    trace: ExactTrace = draw_trace(case.rate, 3 * window_us, window_us, case.bias, case.seed)
    free = []
    for rows in np.array_split(np.arange(len(trace.sides)), N_LOOKS):
        list(join.feed(trace.records[rows], trace.sides[rows]))
        memory = join.memory if isinstance(join, ProgressiveWindowJoin) else join.store.memory
        free.append(memory.n_free / len(memory.frames.n_rows))
    return join, float(np.mean(free[N_LOOKS // 3 :]))


def _empty(adaptive: float, progressive: float) -> list[Claim]:
    half = ExactCase(RPWJ, RATE).flush / 2
    return [
        Claim(
            f"RPWJ leaves half of what it flushes empty on average, {half:.0%} of its memory (within a third of that)",
            f"{progressive:.1%} empty",
            abs(progressive / half - 1) < 1 / 3,
            "invalidation frees memory, too, and whole partitions are more than what has to be flushed",
        ),
        Claim(
            "AH-EWJ leaves none empty (less than 3 %)",
            f"{adaptive:.1%} empty",
            adaptive < 0.03,
            "the invalidation segments are empty until they have room for a whole chunk of the disk",
        ),
    ]


def _train(join: AdaptiveWindowJoin) -> list[Claim]:
    blocks = join.store.disks[0].blocks
    buckets, numbers = join.store.memory.heads.buckets[blocks], join.store.memory.numbers[blocks]
    by_number = buckets[np.argsort(numbers)]
    switches = {"train": _n_switches(buckets), "by number": _n_switches(by_number), "in turn": len(blocks) - 1}
    disorder = int((np.maximum.accumulate(numbers) - numbers).max(initial=0))
    return [
        Claim(
            "On disk, buckets change far less often by the train than in order of numbers or in turn (a fifth)",
            f"in {len(blocks):,} blocks: {tell(switches)}",
            5 * switches["train"] < min(switches["by number"], switches["in turn"]),
            "a train of three dumps has few blocks of each bucket, fewer the smaller memory is",
        ),
        Claim(
            f"No block is out of order by more than a train, {join.settings.train} blocks",
            f"by {disorder} at most",
            disorder < join.settings.train,
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
