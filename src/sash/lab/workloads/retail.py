"""Sales of a retail company's stores, as in Pipelines §2.3 and §6, and the five queries of its Table 1.

    SalesStream(StoreID, ItemID, Price, Quantity, ts)    SalesStream_A, SalesStream_B, … likewise
    FavoriteItems(ItemID)    FavoriteStores(StoreID)

By default sales arrive as a Poisson process, and items are equally likely; stores always are. An item has a price of
its own, and a quarter of its sales is at a discount. The selectivities of the queries are then what `Retail` says:

    predicate   the share of sales that passes Q1's test of the item, and of those that pass Q2's test of the price
    partners    the share of sales that meets an equal item of another stream within a window of it (Q2)
    favorites   the share of sales that all joins of a query with relations let pass (Q3, Q4, Q5)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from sash.errors import PlanError
from sash.lab.workloads.arrivals import START_US, parse_arrivals
from sash.lab.workloads.arrow_columns import decimals_column, times_column
from sash.lab.workloads.datacenter import write_stream
from sash.lab.workloads.key_choice import parse_skew
from sash.lab.workloads.law import check_seed, require
from sash.lab.workloads.workload import WorkloadStream, check_pace

PRICE = pa.decimal128(9, 2)
SCHEMA = pa.schema(
    [
        ("StoreID", pa.int32()),
        ("ItemID", pa.int32()),
        ("Price", PRICE),
        ("Quantity", pa.int32()),
        ("ts", pa.timestamp("us")),
    ]
)
STREAMS = "ABCDE"
MAX_PRICE = 100
DISCOUNT_CENTS = 50
QUERIES = ("q1", "q2", "q3", "q4", "q5")


@dataclass(frozen=True, slots=True)
class Retail:
    """What is generated: how fast, for how long, of how many items and stores, and what queries select of it."""

    rate: float = 10.0
    """Sales per second of event time, of each stream."""
    duration_us: int = 300_000_000
    window_us: int = 60_000_000
    n_items: int | None = None
    """None: as many as give the share of `partners`."""
    n_stores: int = 100
    predicate: float = 0.25
    partners: float = 0.6
    favorites: float = 0.1
    arrivals: str = "poisson"
    skew: str = "none"
    """How likely each item is."""
    seed: int = 1

    def __post_init__(self):
        for name in ("predicate", "partners", "favorites"):
            if not 0 < getattr(self, name) <= 1:
                raise PlanError(f"`{name}` is {getattr(self, name)}, but must be a share, above 0 and at most 1")
        if self.partners == 1 and self.n_items is None:
            raise PlanError("`partners` is 1, but however few the items, some sale may stay alone; say `n_items`")
        check_pace(self.rate, self.duration_us)
        require(self.window_us >= 1, "window", self.window_us, "at least one microsecond")
        require(self.n_items is None or self.n_items >= 1, "items", self.n_items, "at least 1")
        require(self.n_stores >= 1, "stores", self.n_stores, "at least 1")
        check_seed(self.seed)
        parse_arrivals(self.arrivals)
        parse_skew(self.skew)

    @property
    def items(self) -> int:
        """How many items there are.

        Of another stream, 2 · rate · window / items sales of an item are expected within a window of one of its sales,
        before or after; there is none with probability exp(−that), which should be 1 − `partners`.
        """
        if self.n_items is not None:
            return self.n_items
        near = 2 * self.rate * self.window_us / 1e6
        return max(1, round(near / -math.log(1 - self.partners)))

    @property
    def item_threshold(self) -> int:
        """Above it is the share `predicate` of the items, which are 1, 2, …"""
        return round(self.items * (1 - self.predicate))

    @property
    def price_threshold(self) -> str:
        """Above it is the share `predicate` of the prices, with or without discount."""
        return f"{round(MAX_PRICE * (1 - self.predicate)) + 0.25:.2f}"

    @property
    def start_us(self) -> int:
        return START_US

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        """Two of them, as Q2 and Q5 need; Q1, Q3 and Q4 may be asked of either."""
        return tuple(WorkloadStream(name, SCHEMA) for name in streams_of("q2"))

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return favorites(self, self.favorites)

    @property
    def question(self) -> str:
        return query_text("q2", self)

    def generate(self, stream: str) -> Iterator[pa.Table]:
        yield sales(self, streams_of("q2")[stream])


EXAMPLE = Retail()


def sales(retail: Retail, stream: str = "A") -> pa.Table:
    """The sales of one stream, in order of time. The same `retail` always gives the same ones."""
    rng = np.random.default_rng([retail.seed, STREAMS.index(stream)])
    ts = parse_arrivals(retail.arrivals)(rng, retail.rate, retail.duration_us)
    n_rows = len(ts)
    item = 1 + parse_skew(retail.skew)(rng, retail.items, n_rows).astype(np.int32)
    cents = 100 * _list_prices(retail)[item - 1] - DISCOUNT_CENTS * (rng.random(n_rows) < 0.25)
    return pa.Table.from_arrays(
        [
            pa.array(rng.integers(1, retail.n_stores + 1, n_rows, dtype=np.int32)),
            pa.array(item),
            decimals_column(cents, PRICE),
            pa.array(rng.integers(1, 10, n_rows, dtype=np.int32)),
            times_column(ts),
        ],
        schema=SCHEMA,
    )


def favorites(retail: Retail, share: float) -> dict[str, pa.Table]:
    """FavoriteItems and FavoriteStores, each with a share of all there are."""
    rng = np.random.default_rng([retail.seed, len(STREAMS)])
    sizes = {"FavoriteItems": ("ItemID", retail.items), "FavoriteStores": ("StoreID", retail.n_stores)}
    tables = {}
    for name, (column, n_all) in sizes.items():
        chosen = rng.permutation(n_all)[: max(1, round(n_all * share))] + 1
        tables[name] = pa.table({column: pa.array(np.sort(chosen), pa.int32())})
    return tables


def query_text(query: str, retail: Retail, schedule: str | None = None, n_streams: int = 2) -> str:
    """One of the queries of Table 1 with the thresholds that select what is asked for; Q2 may join up to five."""
    window = f"WINDOW {retail.window_us} MICROSECONDS"
    aliases = [f"S{name}" for name in STREAMS[:n_streams]]
    text = {
        "q1": f"SELECT SUM(S.Price) AS total FROM SalesStream S WHERE S.ItemID > {retail.item_threshold}",
        "q2": "SELECT DISTINCT SA.ItemID FROM "
        + ", ".join(f"SalesStream_{alias[1:]} {alias}" for alias in aliases)
        + " WHERE "
        + "".join(f"{left}.ItemID = {right}.ItemID AND " for left, right in pairwise(aliases))
        + f"SA.Price > {retail.price_threshold}",
        "q3": "SELECT COUNT(DISTINCT S.StoreID) AS stores FROM SalesStream S, FavoriteItems F "
        "WHERE S.ItemID = F.ItemID",
        "q4": "SELECT SS.ItemID, SUM(SS.Price) AS total FROM FavoriteItems FI, SalesStream SS, FavoriteStores FS "
        "WHERE FI.ItemID = SS.ItemID AND SS.StoreID = FS.StoreID GROUP BY SS.ItemID",
        "q5": "SELECT S.ItemID, SUM(S.Price) AS total FROM FavoriteItems F, (SELECT ItemID, Price FROM SalesStream_A "
        "MINUS SELECT ItemID, Price FROM SalesStream_B) AS S WHERE F.ItemID = S.ItemID GROUP BY S.ItemID",
    }[query]
    hint = f"SELECT /*+ {schedule} */" if schedule else "SELECT"
    return f"{text.replace('SELECT', hint, 1)} {window}"


def streams_of(query: str, n_streams: int = 2) -> dict[str, str]:
    """The streams that a query reads, each with the letter of its sales."""
    if query in ("q2", "q5"):
        return {f"SalesStream_{name}": name for name in STREAMS[:n_streams]}
    return {"SalesStream": "A"}


def relations_of(query: str, retail: Retail) -> dict[str, pa.Table]:
    """The relations that a query reads; together they let the share of `favorites` pass."""
    read = {"q3": ["FavoriteItems"], "q4": ["FavoriteItems", "FavoriteStores"], "q5": ["FavoriteItems"]}.get(query, [])
    tables = favorites(retail, retail.favorites ** (1 / max(1, len(read))))
    return {name: tables[name] for name in read}


def batches(retail: Retail, query: str, batch_rows: int, n_streams: int = 2) -> Iterator[tuple[str, pa.Table]]:
    """The sales that a query reads in batches, with their stream; streams take turns."""
    tables = {name: sales(retail, letter) for name, letter in streams_of(query, n_streams).items()}
    longest = max(table.num_rows for table in tables.values())
    for low in range(0, longest, batch_rows):
        for name, table in tables.items():
            if low < table.num_rows:
                yield name, table.slice(low, batch_rows)


def write_retail(directory: Path, retail: Retail = EXAMPLE, n_files: int = 6) -> None:
    """Sales of two streams as Parquet files, and both relations as CSV files."""
    for stream in STREAMS[:2]:
        write_stream(sales(retail, stream), directory / f"sales_{stream.lower()}", n_files)
    for name, table in favorites(retail, retail.favorites).items():
        pc.write_csv(table, directory / f"{name}.csv")


def _list_prices(retail: Retail) -> np.ndarray:
    """By item, from 1 to `MAX_PRICE`, evenly spread; not in the order of the items."""
    rng = np.random.default_rng([retail.seed, len(STREAMS) + 1])
    return 1 + rng.permutation(retail.items) * MAX_PRICE // retail.items


if __name__ == "__main__":
    write_retail(Path(sys.argv[1]))
