"""The two streams of Exact's experiments: the b-model says how many tuples come when, and PQRS which."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.pqrs import Pqrs, pqrs_trace, split_duration
from sash.papers.exact.exact_kernels.block_frames import END, KEY, ROW, TS, WIDTH


class ExactTrace(NamedTuple):
    """Rows of both streams in order of time, as joins are fed, and the stream of each. Time begins at 0."""

    records: np.ndarray
    sides: np.ndarray


@lru_cache(maxsize=1)
def draw_trace(rate: float, duration_us: int, window_us: int, bias: float, seed: int) -> ExactTrace:
    """Two streams. A window is closed: who is exactly as old as it still joins."""
    pqrs = Pqrs(rate=rate, duration_us=duration_us, bias=bias)
    drawn = [[np.concatenate(each) for each in zip(*pqrs_trace([seed, side], pqrs))] for side in (0, 1)]
    times, keys = (np.concatenate([stream[column] for stream in drawn]) for column in (0, 1))
    order = np.argsort(times, kind="stable")
    records = np.zeros((len(times), WIDTH), np.int64)
    records[:, ROW], records[:, KEY] = np.arange(len(times)), keys[order]
    records[:, TS] = times[order] - START_US
    records[:, END] = records[:, TS] + window_us + 1
    sides = np.repeat(np.array([0, 1], np.int8), [len(stream[0]) for stream in drawn])
    return ExactTrace(records, sides[order])


def fullest_window(trace: ExactTrace, sides: tuple[int, ...]) -> int:
    """The most tuples that the windows of some streams have together."""
    records = trace.records[np.isin(trace.sides, sides)]
    times, ends = records[:, TS], records[:, END]
    return int((np.arange(1, len(times) + 1) - np.searchsorted(ends, times, side="right")).max(initial=0))


def fullest_part(pqrs: Pqrs, n_parts: int, seed: int = 1) -> int:
    """The most tuples of a stream in one of 2^n equal parts of the duration, by the b-model alone."""
    cells, counts, n_levels = split_duration([seed, 0], pqrs)
    parts = cells * n_parts >> n_levels
    return int(np.bincount(parts, weights=counts).max())
