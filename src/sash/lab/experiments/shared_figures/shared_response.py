"""What the figures of Shared have in common: one join for seven windows, by three schedules, over the same streams.

Response times are by a queueing clock, so that they repeat exactly: a tuple looked at takes a fixed time, and so does a
pair put out. Today's machines scan a window of 10 minutes at 100 tuples per second so fast that nobody ever waits, and
schedules would not differ. So the two costs are scaled: with them the join is busy for `UTILISATION` of the time, and
putting out pairs is 40 % of a hash join's work, as §3.4 says. Nested loops take the same ratio of costs. All schedules
do the same work.

As in §5, the windows are full before anything is measured, and two tuples join with probability α = 0.002.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Paper
from sash.lab.workloads.arrivals import pareto_bursts
from sash.papers.shared.shared_join import N_BUCKETS, SCHEDULES, SharedJoin, WorkCosts

DISTRIBUTIONS = {
    "uniform": (1, 100, 200, 300, 400, 500, 600),
    "mostly small": (1, 5, 15, 30, 60, 300, 600),
    "mostly large": (1, 60, 300, 420, 510, 570, 600),
    "small-large": (1, 5, 15, 300, 510, 570, 600),
}
"""Table 1, in seconds."""
TITLES = {"lwo": "LWO", "swf": "SWF", "mqt": "MQT"}
N_KEYS = 500
"""1 / α."""
UTILISATION = 0.75
PAIR_SHARE = 0.4
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class SharedScale:
    """How much is measured of shared joins."""

    name: str
    rate: float
    """Tuples per second of each stream, with hashing."""
    nested_rate: float
    """And with nested loops."""
    n_tuples: int
    """Of both streams, after the windows are full."""
    n_streams: int
    """How many pairs of streams responses are averaged over, where arrivals are bursty."""


QUICK = SharedScale("quick", 100, 15, 4_000, 1)
DEFAULT = SharedScale("default", 100, 15, 20_000, 5)
FULL = SharedScale("full", 100, 15, 100_000, 10)
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
PAPER = Paper("Shared", "Scheduling for shared window joins over data streams", SCALES)


class Streams(NamedTuple):
    """Both streams in order of arrival; those before `n_loaded` fill the largest window."""

    sides: np.ndarray
    ts: np.ndarray
    keys: np.ndarray
    n_loaded: int


@dataclass(frozen=True, slots=True)
class ResponseCase:
    """What tells a run from others, and what is joined."""

    labels: Mapping[str, Any]
    windows_s: Sequence[int]
    n_queries: Sequence[int] = (1,) * 7
    burst: float = 1.0
    is_hashed: bool = True


class Run(NamedTuple):
    """What one schedule did with one pair of streams; by window."""

    n_pairs: np.ndarray
    mean_ms: np.ndarray
    max_ms: np.ndarray
    join: SharedJoin
    busy: float
    cpu_us: float
    """CPU time per tuple, by which nothing is scheduled."""


def measure(cases: Sequence[ResponseCase], scale: SharedScale, note: Note) -> list[dict[str, Any]]:
    """A row for each schedule of each case."""
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        n_streams = 1 if case.burst == 1 else scale.n_streams
        streams = [draw_streams(case, scale, seed) for seed in range(n_streams)]
        for schedule in SCHEDULES:
            rows.append(_row(case, schedule, [run(case, schedule, each, scale) for each in streams]))
        note(number + 1)
    return rows


def work_costs(rate: float, window_s: float, is_hashed: bool) -> WorkCosts:
    """What makes a join with a largest window busy for `UTILISATION` of the time."""
    in_window = rate * window_s
    pairs = in_window / N_KEYS
    in_bucket = pairs * (1 + (N_KEYS - 1) / N_BUCKETS)
    pair_us = PAIR_SHARE / pairs
    scan_us = (1 - PAIR_SHARE) / in_bucket
    per_tuple = 1.0 if is_hashed else pairs * pair_us + in_window * scan_us
    factor = UTILISATION * _SECOND / (2 * rate) / per_tuple
    return WorkCosts(scan_us * factor, pair_us * factor)


def draw_streams(case: ResponseCase, scale: SharedScale, seed: int) -> Streams:
    """Two streams of the same rate, with as many tuples after the windows are full as the scale says."""
    rate, full_us = _rate(case, scale), case.windows_s[-1] * _SECOND
    duration_us = full_us + round(scale.n_tuples / (2 * rate) * _SECOND)
    ts = [pareto_bursts([seed, side], rate, duration_us, case.burst, start_us=0) for side in (0, 1)]
    sides, both = np.repeat([0, 1], [len(each) for each in ts]), np.concatenate(ts)
    order = np.argsort(both, kind="stable")
    keys = np.random.default_rng([seed, 2]).integers(0, N_KEYS, len(both))
    return Streams(sides[order], both[order], keys, int(np.searchsorted(both[order], full_us)))


def run(case: ResponseCase, schedule: str, streams: Streams, scale: SharedScale) -> Run:
    """Fills the windows, lets the other tuples arrive, and does all work."""
    costs = work_costs(_rate(case, scale), case.windows_s[-1], case.is_hashed)
    windows_us = [each * _SECOND for each in case.windows_s]
    join = SharedJoin(windows_us, case.n_queries, schedule, case.is_hashed, costs)
    join.is_logged = False
    arriving = slice(streams.n_loaded, None)
    join.load(*(column[: streams.n_loaded] for column in streams[:3]))
    join.push(*(column[arriving] for column in streams[:3]))
    began = time.process_time()
    join.advance()
    cpu_us = (time.process_time() - began) * _SECOND / len(streams.ts[arriving])
    responses = join.responses()
    worked_us = join.n_scans * costs.scan_us + responses[-1].n_pairs * costs.pair_us
    n_pairs, mean_us, max_us = (np.array(column) for column in list(zip(*responses))[1:])
    elapsed_us = streams.ts[-1] - streams.ts[streams.n_loaded]
    return Run(n_pairs, mean_us / 1_000, max_us / 1_000, join, worked_us / elapsed_us, cpu_us)


def _rate(case: ResponseCase, scale: SharedScale) -> float:
    return scale.rate if case.is_hashed else scale.nested_rate


def _row(case: ResponseCase, schedule: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Means are over all pairs of all runs. The average of a join is that of its queries, or that of all its pairs."""
    n_pairs = np.sum([run.n_pairs for run in runs], axis=0)
    mean_ms = np.sum([run.n_pairs * run.mean_ms for run in runs], axis=0) / np.maximum(n_pairs, 1)
    n_queries = np.array(case.n_queries)
    peaks = np.array([run.join.peaks for run in runs])
    return {
        **case.labels,
        "schedule": schedule,
        "query_ms": float(np.average(mean_ms, weights=n_queries)),
        "pair_ms": float(np.average(mean_ms, weights=n_queries * n_pairs)),
        "windows_s": list(case.windows_s),
        "mean_ms": mean_ms.tolist(),
        "max_ms": np.max([run.max_ms for run in runs], axis=0).tolist(),
        "busy": float(np.mean([run.busy for run in runs])),
        "input_share": float((peaks[:, 1] / peaks[:, 0]).max()),
        "output_share": float((peaks[:, 2] / peaks[:, 0]).max()),
        "cpu_us": float(np.mean([run.cpu_us for run in runs])),
    }
