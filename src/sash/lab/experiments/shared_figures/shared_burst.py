"""Shared, Figures 2(b) and 3(b): what the analysis says of a burst, beside what the schedules do with it.

    other stream   · · · · · · · ·│         evenly, one each 1 / λ seconds, and half of that before the burst
    burst                         ⁞         m tuples at once; every pair joins, and looking at one takes t_p

The paper does not say which seven windows from 1 s to 10 minutes it takes; here they are the uniform ones of Table 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sash.lab.experiments.experiment import Claim, Row
from sash.lab.experiments.shared_figures.shared_analysis import Burst, isolated_us
from sash.lab.experiments.shared_figures.shared_response import TITLES
from sash.papers.shared.shared_join import SharedJoin, WorkCosts

EXACT = 1e-6
_SECOND = 1_000_000

Formula = Callable[[Sequence[float], Burst], list[float]]


def measured_us(windows_s: Sequence[int], burst: Burst, schedule: str) -> list[float]:
    """The average response time of each window."""
    n_loaded, gap_us = round(burst.rate * max(windows_s)), _SECOND / burst.rate
    arrives = n_loaded * gap_us
    loaded_ts = ((np.arange(n_loaded) + 0.5) * gap_us).astype(np.int64)
    windows_us = [each * _SECOND for each in windows_s]
    join = SharedJoin(windows_us, None, schedule, False, WorkCosts(burst.scan_us, 0))
    join.is_logged = False
    join.load(np.ones(n_loaded, np.int64), loaded_ts, np.zeros(n_loaded, np.int64))
    zeros = np.zeros(burst.n_tuples, np.int64)
    join.push(zeros, np.full(burst.n_tuples, round(arrives)), zeros)
    join.advance()
    return [response.mean_us for response in join.responses()]


def compare(windows_s: Sequence[int], burst: Burst, schedule: str, formula: Formula) -> list[dict[str, Any]]:
    """A row for each window: a schedule and isolated execution, as the analysis says and as measured."""
    shared, alone = formula(windows_s, burst), isolated_us(windows_s, burst)
    measured = measured_us(windows_s, burst, schedule)
    measured_alone = [measured_us([each], burst, "lwo")[0] for each in windows_s]
    names = ("window_s", f"{schedule}_ms", f"{schedule}_measured_ms", "isolated_ms", "isolated_measured_ms")
    lines = zip(windows_s, shared, measured, alone, measured_alone)
    return [dict(zip(names, (line[0], *(each / 1_000 for each in line[1:])))) for line in lines]


def analysis_claim(rows: Sequence[Row], line: str, reason: str = "") -> Claim:
    """Whether what was measured is what the analysis says."""
    ratios = [row[f"{line}_measured_ms"] / row[f"{line}_ms"] for row in rows]
    return Claim(
        f"The analysis of {TITLES.get(line, 'isolated execution')} is exact for a burst",
        f"measured is {', '.join(f'{each:.4f}' for each in ratios)} times as much, by window",
        all(abs(1 - each) < EXACT for each in ratios),
        reason,
    )
