"""What the figures of Kostowski have in common: batches of two streams, joined tuple by tuple, and what that costs.

    seconds    0 ─────────── 30 ─────────── 60
               windows fill   counted and timed         windows of 30 s on both sides (§4.1)

A batch is repeated with other arrivals and other key values, which fall into other buckets: the model is an average
over both. Counts are means over the repetitions; the time is CPU time, that of the fastest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sash.cost.join_cost import JoinCosts, JoinLoad, JoinMethod, JoinWork, cost_ns, stale_tuples, total_work
from sash.index.circular_buckets import CircularBuckets
from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Paper, Row
from sash.lab.workloads.arrivals import poisson_arrivals

WINDOW_S, BATCH_S = 30, 60
SAMPLE_S = 2
N_DISTINCT = 100
N_BUCKETS = 100
MODEL_BAND = 1.3
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class KostowskiScale:
    """How much is measured of window joins. Rates are in tuples per second."""

    name: str
    rate: float
    """Of the slower stream, where relative rates are compared; of both, where they are equal."""
    ratios: Sequence[int]
    buckets: Sequence[int]
    selectivities: Sequence[float]
    memory_rate: float
    """Of the slower stream, where stale tuples are counted."""
    n_repeats: int


QUICK = KostowskiScale("quick", 50, (1, 10, 100), (1, 10, 100, 1000), (0.1, 0.01), memory_rate=10, n_repeats=3)
DEFAULT = KostowskiScale(
    "default",
    100,
    (1, 2, 5, 10, 20, 50, 100),
    (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    (0.1, 0.01, 0.001),
    memory_rate=10,
    n_repeats=5,
)
FULL = KostowskiScale(
    "full",
    200,
    (1, 2, 5, 10, 20, 50, 100),
    (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000),
    (0.1, 0.03, 0.01, 0.003, 0.001),
    memory_rate=10,
    n_repeats=7,
)
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
PAPER = Paper("Kostowski", "Analytical and Experimental Evaluation of Stream-Based Join", SCALES)

COSTS = JoinCosts(scan=0.5, insert=68.0, invalidate=2.0, check=1.7, output=2.5)
"""Of the index alone: they fit the times of these experiments on one machine, four in five to within a tenth.
`insert` is all that comes once with a tuple."""

WNL = JoinMethod("wnl")
WHJ = JoinMethod("whj", N_BUCKETS)
JoinCase: TypeAlias = tuple[Mapping[str, Any], JoinMethod, JoinLoad]
"""What tells a run from others, the join, and what it has to do."""


@dataclass
class ArrivingStream:
    """A stream that has arrived up to `next_row`."""

    keys: np.ndarray
    ts: np.ndarray
    ends: np.ndarray
    next_row: int = 0
    base: int = 0
    floor: int = 0
    ids: None = None

    def arrive_until(self, when_us: int) -> int:
        """Returns the first row that is new."""
        first, self.next_row = self.next_row, int(np.searchsorted(self.ts, when_us))
        return first


@dataclass
class JoinedBatch:
    """One batch that was joined: the work and the CPU time of its second half, and how full the buckets were."""

    work: JoinWork
    cpu_s: float
    held: np.ndarray = field(repr=False)


def relative_load(rate: float, ratio: float, n_distinct: float = N_DISTINCT) -> JoinLoad:
    """Two streams, the second one `ratio` times as fast as the first."""
    return JoinLoad((rate, rate * ratio), (WINDOW_S, WINDOW_S), n_distinct)


def measure(cases: Iterable[JoinCase], n_repeats: int, note: Note) -> list[dict[str, Any]]:
    """A row for each case. Repetitions of all cases alternate, so that a busy moment of the machine hits them alike."""
    cases = list(cases)
    join_batch(WHJ, relative_load(1, 1), 0)  # compiles the kernels
    batches: list[list[JoinedBatch]] = [[] for _ in cases]
    for seed in range(n_repeats):
        for place, (_, method, load) in enumerate(cases):
            batches[place].append(join_batch(method, load, seed))
            note(seed * len(cases) + place + 1)
    return [_row(case, found) for case, found in zip(cases, batches, strict=True)]


def join_batch(method: JoinMethod, load: JoinLoad, seed: int) -> JoinedBatch:
    """Joins one batch. The same seed gives the same streams to every method."""
    rng = np.random.default_rng(seed)
    values = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, round(load.n_distinct))
    left, right = (_stream(rng, rate, values) for rate in load.rates)
    index = CircularBuckets((left, right), method.n_buckets, method.invalidation)
    index.sample(np.arange(SAMPLE_S, BATCH_S + 1, SAMPLE_S) * _SECOND)
    _join_until(index, left, right, WINDOW_S)
    before, start = _work_of(index), time.process_time()
    _join_until(index, left, right, BATCH_S)
    cpu_s = time.process_time() - start
    return JoinedBatch(_work_of(index) + before.times(-1), cpu_s, index.samples)


def predict(method: JoinMethod, load: JoinLoad) -> JoinWork:
    """What the model says of the second half of a batch: what went stale in it and is still there was not removed."""
    n_left = sum(stale_tuples(method, load, side, BATCH_S - WINDOW_S) for side in (0, 1))
    return total_work(method, load).times(BATCH_S - WINDOW_S) + JoinWork(0, 0, -n_left, -n_left, 0)


def model_claim(rows: Sequence[Row], labels: Sequence[str]) -> Claim:
    """Whether the model's counts are near enough to the measured ones, and where they are farthest."""
    worst = max(
        (abs(math.log(row["work"][count] / row["model"][count])), count, number)
        for number, row in enumerate(rows)
        for count in row["work"]
    )
    _, count, number = worst
    row = rows[number]
    ratio = row["work"][count] / row["model"][count]
    return Claim(
        f"The cost model gives all counts of work to within {MODEL_BAND - 1:.0%}",
        f"farthest: {ratio:.2f} times the {count} of the model, at {', '.join(f'{row[each]}' for each in labels)}",
        max(ratio, 1 / ratio) <= MODEL_BAND,
    )


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """With which power of x y grows from the first to the last point."""
    return math.log(y[-1] / y[0]) / math.log(x[-1] / x[0])


def scans(row: Row) -> float:
    return row["work"]["scans"]


def cpu(row: Row) -> float:
    return row["cpu_s"]


def _stream(rng: np.random.Generator, rate: float, values: np.ndarray) -> ArrivingStream:
    ts = poisson_arrivals(rng, rate, BATCH_S * _SECOND, start_us=0)
    return ArrivingStream(rng.choice(values, len(ts)), ts, ts + WINDOW_S * _SECOND)


def _join_until(index: CircularBuckets, left: ArrivingStream, right: ArrivingStream, second: int) -> None:
    until_us = second * _SECOND
    for _ in index.match((left.arrive_until(until_us), right.arrive_until(until_us)), until_us - 1):
        pass


def _work_of(index: CircularBuckets) -> JoinWork:
    return JoinWork(*index.counts)


def _row(case: JoinCase, batches: Sequence[JoinedBatch]) -> dict[str, Any]:
    labels, method, load = case
    work = sum((batch.work for batch in batches), JoinWork(0, 0, 0, 0, 0)).times(1 / len(batches))
    model = predict(method, load)
    return {
        **labels,
        "method": asdict(method),
        "load": asdict(load),
        "cpu_s": min(batch.cpu_s for batch in batches),
        "model_cpu_s": cost_ns(model, COSTS) / 1e9,
        "work": asdict(work),
        "model": asdict(model),
        "held": np.mean([batch.held for batch in batches], axis=0).tolist(),
    }
