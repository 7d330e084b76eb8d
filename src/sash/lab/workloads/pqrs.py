"""The traces of Exact §3.5.1: two streams whose arrivals and keys are bursty together.

    a(k BIGINT, v BIGINT, ts TIMESTAMPTZ)    b likewise

On two levels, as described there. The b-model says how many tuples each of 2^n mini-intervals of the duration has. In a
mini-interval, tuples are drawn by PQRS: the rectangle of its time and all keys is cut into quarters again and again,
and a tuple falls into each with a probability of its own.

       keys                      n is the least number for which no mini-interval has more than the share `MAX_SHARE`
    upper │  q  │  s             of all tuples: 70,000 of 4 hours at 200 tuples per second, as there, which gives n = 8.
    lower │  p  │  r
          └───────────── time
           first  second half
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.errors import PlanError
from sash.lab.workloads.arrivals import START_US, split_by_bias
from sash.lab.workloads.arrow_columns import times_column
from sash.lab.workloads.law import Seed, check_bias, check_seed, require
from sash.lab.workloads.workload import CHUNK_ROWS, MAX_KEYS, WorkloadStream, check_pace

STREAMS = ("a", "b")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
MAX_SHARE = 70_000 / (4 * 3600 * 200)
MAX_LEVELS = 20


@dataclass(frozen=True, slots=True)
class Pqrs:
    """Rate, bias and keys are by default those of Table 3.2. With p, q, r and s, either half is as heavy as that bias.

    Both streams are drawn by the same laws, so that the same keys are likely at the same times.
    """

    rate: float = 200.0
    """Tuples per second of event time, of each stream, over the whole duration."""
    duration_us: int = 60_000_000
    bias: float = 0.6
    n_keys: int = 10_000_000
    p: float = 0.45
    q: float = 0.15
    r: float = 0.15
    s: float = 0.25
    seed: int = 1

    def __post_init__(self):
        check_pace(self.rate, self.duration_us)
        check_bias(self.bias)
        check_seed(self.seed)
        require(1 <= self.n_keys <= MAX_KEYS, "keys", self.n_keys, f"1 to {MAX_KEYS:,}")
        quarters = (self.p, self.q, self.r, self.s)
        if min(quarters) < 0 or not math.isclose(sum(quarters), 1, abs_tol=1e-9):
            raise PlanError(f"`p`, `q`, `r` and `s` are {quarters}, but must be shares that add up to 1")

    @property
    def start_us(self) -> int:
        return START_US

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(name, SCHEMA) for name in STREAMS)

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {}

    @property
    def question(self) -> str:
        return "SELECT a.k, a.v AS a_v, b.v AS b_v FROM a, b WHERE a.k = b.k WINDOW 30 SECONDS"

    def generate(self, stream: str) -> Iterator[pa.Table]:
        n_before = 0
        for times, keys in pqrs_trace([self.seed, STREAMS.index(stream)], self):
            number = np.arange(n_before, n_before + len(times))
            columns = [pa.array(keys), pa.array(number), times_column(times, "UTC")]
            yield pa.Table.from_arrays(columns, schema=SCHEMA)
            n_before += len(times)


def pqrs_trace(seed: Seed, pqrs: Pqrs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Times, ascending, and keys, some mini-intervals at a time; `rate` times the duration tuples in all, rounded."""
    rng = np.random.default_rng(seed)
    cells, counts, n_levels = split_duration(rng, pqrs)
    width_us = pqrs.duration_us / 2**n_levels
    chunk = np.cumsum(counts) // CHUNK_ROWS
    for part in np.split(np.arange(len(cells)), np.flatnonzero(np.diff(chunk)) + 1):
        cell = np.repeat(cells[part], counts[part])
        moments, keys = draw_pqrs(rng, pqrs, len(cell))
        elapsed = np.minimum((cell + moments) * width_us, pqrs.duration_us - 1).astype(np.int64)
        order = np.argsort(elapsed, kind="stable")
        yield START_US + elapsed[order], keys[order]


def split_duration(seed: Seed, pqrs: Pqrs) -> tuple[np.ndarray, np.ndarray, int]:
    """Which mini-intervals hold tuples, how many each, and n, as `split_by_bias` gives them."""
    n_tuples = round(pqrs.rate * pqrs.duration_us / 1e6)
    most = max(1, math.floor(n_tuples * MAX_SHARE))
    return split_by_bias(seed, n_tuples, pqrs.bias, (most, MAX_LEVELS))


def draw_pqrs(seed: Seed, pqrs: Pqrs, n_tuples: int) -> tuple[np.ndarray, np.ndarray]:
    """Moments in a mini-interval, from 0 to 1, and keys; not in order."""
    rng = np.random.default_rng(seed)
    n_levels = (pqrs.n_keys - 1).bit_length()
    moments, parts = np.zeros(n_tuples), np.zeros(n_tuples, np.int64)
    bounds = np.cumsum([pqrs.p, pqrs.q, pqrs.r])
    for level in range(1, n_levels + 1):
        quarter = np.searchsorted(bounds, rng.random(n_tuples), side="right")
        moments += (quarter >= 2) / 2**level
        parts = 2 * parts + quarter % 2
    moments += rng.random(n_tuples) / 2**n_levels
    return moments, parts * pqrs.n_keys >> n_levels
