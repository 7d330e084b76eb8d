"""The stream and the relation of Exact, §6.4.1: both by the b-model and PQRS, the same law with other seeds.

Which quarters PQRS has is not said; those of `sash workload pqrs` are taken. A relation has no time: its keys are all
that is drawn.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from sash.lab.experiments.relation_figures.relation_cases import N_KEYS
from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.pqrs import Pqrs, draw_pqrs, pqrs_trace
from sash.papers.exact.exact_kernels.relation_frames import STREAM_WIDTH
from sash.papers.exact.relation_segments import RelationRows

BY_PQRS = Pqrs(n_keys=N_KEYS)
EVENLY = Pqrs(n_keys=N_KEYS, p=0.25, q=0.25, r=0.25, s=0.25)


@lru_cache(maxsize=2)
def draw_stream(rate: float, duration_us: int, bias: float, is_even: bool, seed: int) -> np.ndarray:
    """Tuples in order of arrival, as joins are fed. Time begins at 0."""
    pqrs = replace(EVENLY if is_even else BY_PQRS, rate=rate, duration_us=duration_us, bias=bias)
    times, keys = (np.concatenate(each) for each in zip(*pqrs_trace([seed, 0], pqrs)))
    records = np.empty((len(times), STREAM_WIDTH), np.int64)
    records[:, 0], records[:, 1], records[:, 2] = np.arange(len(times)), keys, times - START_US
    return records


@lru_cache(maxsize=2)
def draw_relation(n_rows: int, is_even: bool, seed: int) -> RelationRows:
    """Rows in the order in which they are drawn."""
    _, keys = draw_pqrs([seed, 1], EVENLY if is_even else BY_PQRS, n_rows)
    return RelationRows(np.arange(n_rows), keys)
