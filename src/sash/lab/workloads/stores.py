"""Sales of department stores through their days, as in the first example and the real data of W-join (§1, §4.2).

    store1(ItemNum, ItemName, Price, Quantity, ts)    store2, … likewise

    sales  █▄▂▁▁▁▁▁▁▁▂▄█            █▄▂▁▁▁▁▁▁▁▂▄█      a store is open from 7:30 to 20:00, with a rush at either end
           7:30    20:00

A store is a stream; `retail` has streams of many stores each. Items are sold by all stores, at their own price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.lab.workloads.arrivals import START_US, parse_arrivals
from sash.lab.workloads.arrow_columns import decimals_column, times_column
from sash.lab.workloads.declare import format_length
from sash.lab.workloads.law import require
from sash.lab.workloads.retail import PRICE
from sash.lab.workloads.workload import Synthetic, WorkloadStream, cut_rows

SCHEMA = pa.schema(
    [
        ("ItemNum", pa.int32()),
        ("ItemName", pa.string()),
        ("Price", PRICE),
        ("Quantity", pa.int32()),
        ("ts", pa.timestamp("us")),
    ]
)
ALIASES = "ABCD"
DAY_US = 86_400_000_000
OPENS_US = 27_000_000_000
"""7:30 of a day."""
OPEN_US = 45_000_000_000
"""How long a store is open on a day."""
_FADES = 0.05
"""After this share of the day a rush has faded to 1 / e."""


@dataclass(frozen=True, slots=True)
class Stores(Synthetic):
    """Keys are items. The rate is that of a store's open hours, on average; `arrivals` says how sales vary about it."""

    rate: float = 0.1
    duration_us: int = OPEN_US
    n_stores: int = 3
    rush: float = 5.0
    """When it opens and when it closes, a store sells so many times as much as at midday."""
    window_us: int = 3_600_000_000

    def __post_init__(self):
        Synthetic.__post_init__(self)
        require(2 <= self.n_stores <= len(ALIASES), "n_stores", self.n_stores, f"2 to {len(ALIASES)}")
        require(self.rush >= 1, "rush", self.rush, "1, which is none, or more")
        require(self.window_us >= 1, "window", self.window_us, "at least one microsecond")

    @property
    def start_us(self) -> int:
        """When the stores open for the first time."""
        return START_US + OPENS_US

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(f"store{number}", SCHEMA) for number in range(1, self.n_stores + 1))

    @property
    def question(self) -> str:
        """Form 1 of W-join: which items did all stores sell within one hour."""
        aliases = ALIASES[: self.n_stores]
        sold = " + ".join(f"{alias}.Quantity" for alias in aliases)
        return f"""SELECT A.ItemNum, A.ItemName, {sold} AS sold
  FROM {", ".join(f"{stream.name} {alias}" for stream, alias in zip(self.streams, aliases))}
  WHERE {" AND ".join(f"{left}.ItemNum = {right}.ItemNum" for left, right in pairwise(aliases))}
  WINDOW {format_length(self.window_us)}"""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        store = int(stream.removeprefix("store"))
        rng = self.rng(store)
        times = self._draw_open_times(rng)
        cents = self.rng(0).integers(99, 10_000, self.n_keys)
        for rows in cut_rows(len(times)):
            item = self.draw_keys(rng, len(times[rows]))
            quantity = rng.integers(1, 10, len(item), dtype=np.int32)
            number = pa.array(item.astype(np.int32))
            name = pc.binary_join_element_wise("item", number.cast(pa.string()), " ")
            columns = [number, name, decimals_column(cents[item], PRICE), pa.array(quantity), times_column(times[rows])]
            yield pa.Table.from_arrays(columns, schema=SCHEMA)

    def _draw_open_times(self, rng: np.random.Generator) -> np.ndarray:
        """Times are drawn as if stores never closed and had no rush, then moved to where such a share of a day's sales
        has been made.
        """
        n_days = -(-self.duration_us // DAY_US)
        steady = parse_arrivals(self.arrivals)(rng, self.rate, n_days * OPEN_US) - START_US
        day, within = np.divmod(steady, OPEN_US)
        hours = np.linspace(0, 1, 1001)
        sold = self._share_sold(hours)
        elapsed = day * DAY_US + (np.interp(within / OPEN_US, sold, hours) * OPEN_US).astype(np.int64)
        return self.start_us + elapsed[elapsed < self.duration_us]

    def _share_sold(self, passed: np.ndarray) -> np.ndarray:
        """Which share of a day's sales has been made when these shares of its hours have passed."""
        opening = _FADES * (1 - np.exp(-passed / _FADES))
        closing = _FADES * (np.exp((passed - 1) / _FADES) - np.exp(-1 / _FADES))
        sold = passed + (self.rush - 1) * (opening + closing)
        return sold / sold[-1]
