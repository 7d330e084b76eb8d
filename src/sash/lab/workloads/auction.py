"""The online auction of Exact §2.2.1: sellers open auctions of items, and bids arrive for them.

    OpenAuction(item_id, seller_id, start_price, ts)    Bid(item_id, bid_price, bidder_id, ts)

Every item has one auction, and every bid is for an auction that is open. Prices rise while an auction is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.lab.workloads.arrow_columns import decimals_column, times_column
from sash.lab.workloads.law import require
from sash.lab.workloads.workload import Synthetic, WorkloadStream, cut_rows

PRICE = pa.decimal128(9, 2)
OPEN_AUCTION = pa.schema(
    [("item_id", pa.int64()), ("seller_id", pa.int32()), ("start_price", PRICE), ("ts", pa.timestamp("us"))]
)
BID = pa.schema([("item_id", pa.int64()), ("bid_price", PRICE), ("bidder_id", pa.int32()), ("ts", pa.timestamp("us"))])
MAX_START_CENTS = 10_000
_MAX_RAISE = 5
"""At the end of an auction, bids are up to so many times the first price higher."""


@dataclass(frozen=True, slots=True)
class Auction(Synthetic):
    """`rate` is that of bids; keys are people, who sell and bid: with skew, some do so more often than others."""

    bids_per_auction: float = 10.0
    lifetime_us: int = 10_000_000
    """How long an auction is open."""

    def __post_init__(self):
        Synthetic.__post_init__(self)
        require(self.bids_per_auction > 0, "bids_per_auction", self.bids_per_auction, "above 0")
        require(self.lifetime_us >= 1, "lifetime", self.lifetime_us, "at least one microsecond")

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return WorkloadStream("OpenAuction", OPEN_AUCTION), WorkloadStream("Bid", BID)

    @property
    def question(self) -> str:
        """For each seller, the bids on all his auctions."""
        return f"""SELECT A.seller_id, COUNT(*) AS bids, SUM(B.bid_price) AS total
  FROM OpenAuction A [RANGE {self.lifetime_us} MICROSECONDS], Bid B [RANGE {self.lifetime_us} MICROSECONDS]
  WHERE A.item_id = B.item_id
  GROUP BY A.seller_id"""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        opened, start_cents = self._draw_auctions()
        return self._open(opened, start_cents) if stream == "OpenAuction" else self._bid(opened, start_cents)

    def _draw_auctions(self) -> tuple[np.ndarray, np.ndarray]:
        """By item, when its auction was opened and at which price; both streams need to know."""
        rng = self.rng(0)
        opened = self.draw_times(rng, 1 / self.bids_per_auction)
        return opened, rng.integers(100, MAX_START_CENTS + 1, len(opened))

    def _open(self, opened: np.ndarray, start_cents: np.ndarray) -> Iterator[pa.Table]:
        rng = self.rng(1)
        for rows in cut_rows(len(opened)):
            ts = opened[rows]
            columns = [
                pa.array(np.arange(rows.start, rows.stop)),
                pa.array(self.draw_keys(rng, len(ts)).astype(np.int32)),
                decimals_column(start_cents[rows], PRICE),
                times_column(ts),
            ]
            yield pa.Table.from_arrays(columns, schema=OPEN_AUCTION)

    def _bid(self, opened: np.ndarray, start_cents: np.ndarray) -> Iterator[pa.Table]:
        rng = self.rng(2)
        times = self.draw_times(rng)
        for rows in cut_rows(len(times)):
            ts = times[rows]
            item, is_placed = _choose_open(rng, ts, opened, self.lifetime_us)
            bidder = self.draw_keys(rng, len(ts)).astype(np.int32)
            ts, item, bidder = ts[is_placed], item[is_placed], bidder[is_placed]
            risen = 1 + _MAX_RAISE * (ts - opened[item]) / self.lifetime_us * rng.random(len(ts))
            cents = (start_cents[item] * risen).astype(np.int64)
            columns = [pa.array(item), decimals_column(cents, PRICE), pa.array(bidder), times_column(ts)]
            yield pa.Table.from_arrays(columns, schema=BID)


def _choose_open(
    rng: np.random.Generator, ts: np.ndarray, opened: np.ndarray, lifetime_us: int
) -> tuple[np.ndarray, np.ndarray]:
    """An auction that is open at each time, all equally likely; and whether there is one: else nobody bids."""
    first = np.searchsorted(opened, ts - lifetime_us, side="right")
    n_open = np.searchsorted(opened, ts, side="right") - first
    item = first + (rng.random(len(ts)) * n_open).astype(np.int64)
    return item, n_open > 0
