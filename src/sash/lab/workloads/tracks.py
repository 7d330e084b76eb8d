"""Objects that travel from place to place and are seen at each of them: what `cameras` and `path` are made of.

    A    ·17      ·42                a trip visits all places, in one of the orders that the workload has
    B        ·17         ·17         from one place to the next it takes at most as long as the window of the two,
    C               ·17              unless the object lingers: then it takes up to twice as long

A place may miss an object that passes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.lab.workloads.arrow_columns import times_column
from sash.lab.workloads.law import require
from sash.lab.workloads.workload import Synthetic, cut_rows

SCHEMA = pa.schema([("ObjID", pa.int64()), ("Speed", pa.float64()), ("ts", pa.timestamp("us"))])
_SHORTEST = 0.2
"""Of the time that a leg may take."""


@dataclass(frozen=True, slots=True)
class Travel:
    """How objects get from place to place. Places are numbered."""

    orders: Sequence[Sequence[int]]
    """In which orders places are visited, all equally likely."""
    longest_us: Mapping[tuple[int, int], int]
    """By pair of places in ascending order, how long it takes at most to get from one to the other."""
    lingering: float
    """The share of legs that take longer, up to twice as long."""
    missed: float
    """The share of visits that are not seen."""

    def __post_init__(self):
        require(0 <= self.lingering <= 1, "lingering", self.lingering, "a share, from 0 to 1")
        require(0 <= self.missed < 1, "missed", self.missed, "a share, from 0 and below 1")
        for longest_us in self.longest_us.values():
            require(longest_us >= 10, "window", f"{longest_us} microseconds", "at least 10 microseconds")

    def draw_visits(self, rng: np.random.Generator, begins: np.ndarray) -> np.ndarray:
        """By trip and place, when the object is there."""
        orders = np.array(self.orders)[rng.integers(0, len(self.orders), len(begins))]
        longest = self._matrix()[orders[:, :-1], orders[:, 1:]]
        shares = _SHORTEST + (1 - _SHORTEST) * rng.random(longest.shape)
        lingers = rng.random(longest.shape) < self.lingering
        legs = ((shares + lingers) * longest).astype(np.int64)
        visits = np.empty(orders.shape, np.int64)
        elapsed = np.concatenate([np.zeros((len(begins), 1), np.int64), np.cumsum(legs, axis=1)], axis=1)
        np.put_along_axis(visits, orders, begins[:, None] + elapsed, axis=1)
        return visits

    def _matrix(self) -> np.ndarray:
        n_places = len(self.orders[0])
        longest = np.zeros((n_places, n_places), np.int64)
        for (one, other), longest_us in self.longest_us.items():
            longest[one, other] = longest[other, one] = longest_us
        return longest


def generate_sightings(workload: Synthetic, travel: Travel, place: int) -> Iterator[pa.Table]:
    """What is seen at a place, in order of time. Keys are objects, which may travel more than once."""
    rng = workload.rng(0)
    begins = workload.draw_times(rng)
    objects = workload.draw_keys(rng, len(begins))
    times = travel.draw_visits(rng, begins)[:, place]
    rng = workload.rng(1, place)
    is_seen = (times < workload.start_us + workload.duration_us) & (rng.random(len(times)) >= travel.missed)
    times, objects = times[is_seen], objects[is_seen]
    speeds = np.round(30 + 10 * rng.standard_normal(len(times)), 1)
    by_time = np.argsort(times, kind="stable")
    for rows in cut_rows(len(times)):
        chosen = by_time[rows]
        columns = [pa.array(objects[chosen]), pa.array(speeds[chosen]), times_column(times[chosen])]
        yield pa.Table.from_arrays(columns, schema=SCHEMA)
