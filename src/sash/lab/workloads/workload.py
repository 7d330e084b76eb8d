"""What a workload is: streams whose rows follow from its parameters alone.

A workload says what its streams look like and generates each of them in order of time. How rows are cut into batches
(`batches`), written and played (`recorder`) is no concern of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from sash.errors import PlanError
from sash.lab.workloads.arrivals import START_US, parse_arrivals
from sash.lab.workloads.key_choice import parse_skew
from sash.lab.workloads.law import check_seed, require

CHUNK_ROWS = 1 << 17
MAX_ROWS = 500_000_000
"""Of a stream: the times of all rows are drawn before the first row is given, 8 bytes each."""


MAX_KEYS = 100_000_000


@dataclass(frozen=True, slots=True)
class WorkloadStream:
    """What has to be declared of a stream before it can be read."""

    name: str
    schema: pa.Schema
    time: str = "ts"
    slack_us: int = 0


class Workload(Protocol):
    """Streams, the tables beside them, and a question about them."""

    @property
    def start_us(self) -> int:
        """No row is older."""
        ...

    @property
    def duration_us(self) -> int:
        """How much time the streams cover from `start_us` on."""
        ...

    @property
    def streams(self) -> Sequence[WorkloadStream]:
        """All streams."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Relations that belong to the streams."""
        ...

    @property
    def question(self) -> str:
        """A SELECT over the streams that shows what they are good for."""
        ...

    def generate(self, stream: str) -> Iterator[pa.Table]:
        """The rows of a stream in order of arrival, some at a time; the same ones whenever it is called."""
        ...


@dataclass(frozen=True, slots=True)
class Synthetic:
    """What workloads have in common whose times and keys are drawn by laws that the user names."""

    rate: float = 100.0
    """Rows per second of event time, of each stream."""
    duration_us: int = 60_000_000
    arrivals: str = "poisson"
    """When rows arrive: `even`, `poisson`, `pareto:BURST` or `bmodel:BIAS`."""
    n_keys: int = 1_000
    skew: str = "none"
    """How likely each key is: `none` (all alike), `zipf:EXPONENT` or `bmodel:BIAS`."""
    seed: int = 1

    def __post_init__(self):
        check_pace(self.rate, self.duration_us)
        require(1 <= self.n_keys <= MAX_KEYS, "keys", self.n_keys, f"1 to {MAX_KEYS:,}")
        check_seed(self.seed)
        parse_arrivals(self.arrivals)
        parse_skew(self.skew)

    @property
    def start_us(self) -> int:
        return START_US

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return {}

    def rng(self, *path: int) -> np.random.Generator:
        """A generator for each part of the workload, so that no part depends on how much another draws."""
        return np.random.default_rng([self.seed, *path])

    def draw_times(self, rng: np.random.Generator, share: float = 1.0) -> np.ndarray:
        """Ascending times at a share of the rate."""
        return parse_arrivals(self.arrivals)(rng, self.rate * share, self.duration_us)

    def draw_keys(self, rng: np.random.Generator, n_rows: int) -> np.ndarray:
        """Numbers from 0 to `n_keys` − 1."""
        return parse_skew(self.skew)(rng, self.n_keys, n_rows)


def check_pace(rate: float, duration_us: int) -> None:
    """PlanError for a stream of no or of too many rows."""
    require(rate > 0, "rate", rate, "above 0 rows per second")
    require(duration_us >= 1, "duration", f"{duration_us} microseconds", "at least one microsecond")
    n_rows = rate * duration_us / 1e6
    if n_rows > MAX_ROWS:
        raise PlanError(
            f"`rate` and `duration` ask for {n_rows:,.0f} rows per stream, but at most {MAX_ROWS:,} can be drawn at "
            "once; make several shorter ones with seeds of their own"
        )


def cut_rows(n_rows: int) -> Iterator[slice]:
    """The rows of a stream in chunks of a size that never varies, so that what is drawn for them does not either."""
    for low in range(0, n_rows, CHUNK_ROWS):
        yield slice(low, min(low + CHUNK_ROWS, n_rows))
