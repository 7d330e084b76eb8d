"""Exact, chapter 4, which has no figures: what its analysis of RPWJ says of tasks, clusters and invalidation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import MIB, PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import LATENESS, Labelled, falls, line, measure, rises, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_simulator import make_join
from sash.lab.experiments.exact_figures.exact_trace import ExactTrace, draw_trace
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.papers.exact.exact_kernels.block_frames import SEQ
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.work_clock import WorkClock
from sash.store.model_disk import DISK_9LZX

RATE, LOW_RATE = 1200, 400
SPLITS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Which part of the memory for reading the outer clusters have."""


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure(_cases(scale), scale, note)
    claims = {
        "E4.1": _accesses(rows),
        "E4.2": _low(rows),
        "E4.3": [_blockwise(scale)],
        "E4.5": [_split()],
        "E4.6": _tasks(scale),
    }
    return Outcome(rows, numbered(claims))


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    case = ExactCase(RPWJ, RATE)
    yield from ((replace(case, slide_s=slide), {"slide_s": slide, "n_part": None}) for slide in scale.slides_s)
    yield from ((replace(case, n_part=n_part), {"slide_s": None, "n_part": n_part}) for n_part in scale.parts)
    yield replace(case, rate=LOW_RATE), {"slide_s": None, "n_part": None}


def _accesses(rows: Sequence[Row]) -> list[Claim]:
    by_slide, by_part = (
        {value: each for value, each in line(rows, "accesses_per_tuple", label, rate=RATE).items() if value}
        for label in ("slide_s", "n_part")
    )
    return [
        Claim(
            "Small slides make RPWJ impracticable: disk accesses per tuple fall as the slide grows",
            tell(by_slide, "{:.3f}"),
            falls(by_slide),
        ),
        Claim("They rise with the number of partitions", tell(by_part, "{:.3f}"), rises(by_part)),
    ]


def _low(rows: Sequence[Row]) -> list[Claim]:
    (row,) = [row for row in rows if row["rate"] == LOW_RATE]
    return [
        Claim(
            f"Even at a low rate, {LOW_RATE} tuples per second and stream, there are delayed tuples, {each.title}",
            f"{row[each.column]:.2%}",
            row[each.column] > 0,
            "a pair is after the limit only if a stage finds it after the one in which its older tuple should leave",
        )
        for each in LATENESS
    ]


def _blockwise(scale: ExactScale) -> Claim:
    """Arrivals that have to be kept, if all rows are processed one by one, and if they are in blocks."""
    found = {}
    for name, mark in (("tuple by tuple", 10**9), ("block by block", 0)):
        join, trace = _short(scale)
        join = ProgressiveWindowJoin(replace(join.settings, h_mark=mark, l_mark=0), clock=WorkClock())
        list(join.feed(*trace))
        times = [join.memory.frames.records[join.memory.frame_of[block], : join.memory.size(block), SEQ]
                 for parts in join.parts for part in parts for block in part]  # fmt: skip
        found[name] = len(np.unique(np.concatenate(times))) / sum(map(len, times))
    one, many = found.values()
    return Claim(
        "Block by block, partitions are scanned less often, and fewer arrival times are kept, than tuple by tuple",
        f"scans, and times, for each tuple: {one:.2f} tuple by tuple, {many:.2f} block by block",
        many < one / 2,
    )


def split_seconds(share: float, n_runs: int, disk_bytes: float, read_bytes: float) -> float:
    """Equation 4.3 for two equal parts of a partition, with a share of the memory for reading for the outer one."""
    outer, inner = disk_bytes / (share * read_bytes), disk_bytes / ((1 - share) * read_bytes)
    scans = [DISK_9LZX.seconds(n_runs + n_clusters, disk_bytes) for n_clusters in (outer, inner)]
    return scans[0] + outer * scans[1]


def _split() -> Claim:
    disk_bytes = RATE * 600 * 64 / 60
    found = {share: split_seconds(share, 4, disk_bytes, MIB) for share in SPLITS}
    return Claim(
        "To read both disks of a partition, clusters of half the memory each are best",
        f"seconds by Equation 4.3 by the share of the outer one: {tell(found, '{:.3f}')}",
        min(found, key=found.__getitem__) == 0.5,
        "the inner disk is transferred once for every cluster of the outer one: a larger outer one saves transfers, "
        "a larger inner one only accesses. Half and half is best only where nothing but accesses costs",
    )


def _tasks(scale: ExactScale) -> list[Claim]:
    join, trace = _short(scale)
    pairs = [*join.feed(*trace), *join.settle()]
    left, right = (np.concatenate([each[side] for each in pairs]) for side in (0, 1))
    n_twice = len(left) - len(np.unique(left * len(trace.sides) + right))
    n_tasks = len(list(join.pool.tasks()))
    return [
        Claim(
            "There are never more than three tasks for each partition",
            f"{n_tasks} for {join.settings.n_part} partitions",
            n_tasks <= 3 * join.settings.n_part,
        ),
        Claim("Tasks never find a pair again", f"{n_twice} of {len(left):,} pairs twice", n_twice == 0),
    ]


def _short(scale: ExactScale) -> tuple[ProgressiveWindowJoin, ExactTrace]:
    """A join without a clock, and a trace of three windows."""
    fraction = min(scale.fraction, 1 / 16)
    case = ExactCase(RPWJ, RATE)
    join = make_join(case, fraction, WorkClock())
    assert isinstance(join, ProgressiveWindowJoin)
    window_us = round(1e6 * case.window_s * fraction)
    return join, draw_trace(case.rate, 3 * window_us, window_us, case.bias, case.seed)


EXPERIMENT = Experiment(
    "4-tasks",
    "disk accesses, clusters and tasks of RPWJ",
    PAPER,
    run,
    partial(draw_lines, over="slide_s", axis="slide, s", columns=("accesses_per_tuple", "late_inputs")),
)
