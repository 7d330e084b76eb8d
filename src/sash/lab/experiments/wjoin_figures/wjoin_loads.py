"""The streams of W-join §4.2 and their windows: stores through their day, and synthetic streams of a few integers.

The transactions of real stores are not to be had. Generated ones stand in for them (`stores.py`): open from
7:30 to 20:00 with a rush at either end, and 5,000 transactions an hour over all streams, as the paper says of the real
ones. That there are 1,000 items, all equally likely, is our choice.

The paper does not say how many values its synthetic streams have. Here there are 500 for a window of a second, and in
proportion for others: of two streams with 500 tuples per second, a tuple meets one of the other on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sash.lab.experiments.wjoin_figures.wjoin_service import Load, TimedStream
from sash.lab.workloads.arrivals import poisson_arrivals
from sash.lab.workloads.stores import Stores
from sash.sql.window_graph import PairWindow, WindowGraph

STORE_WINDOW_S = 3_600
PER_HOUR = 5_000
"""Transactions of all stores together, while they are open."""
N_ITEMS = 1_000
VALUES_PER_SECOND = 500
"""Of synthetic streams: so many values for each second of the window."""
SYNTHETIC_WINDOW_S = 1
"""The longest of §5.3."""
SWITCH_TUPLES = 100
ALIASES = "ABCDEF"
_SECOND = 1_000_000


def n_values(window_s: float) -> int:
    """How many values synthetic streams have that are joined over a window."""
    return max(1, round(VALUES_PER_SECOND * window_s))


def store_load(n_streams: int, duration_us: int) -> Load:
    """Stores that sell at about the same rate, joined over one hour."""
    stores = Stores(rate=PER_HOUR / 3600 / n_streams, duration_us=duration_us, n_keys=N_ITEMS)
    return Load(
        [_store_stream(stores, number) for number in range(1, n_streams + 1)], one_window(n_streams, STORE_WINDOW_S)
    )


def synthetic_streams(rates: Sequence[float], n_tuples: int, n_distinct: int) -> list[TimedStream]:
    """Streams with exponential times between tuples, at rates per second, of about so many tuples together."""
    duration_us = round(n_tuples / sum(rates) * _SECOND)
    streams = []
    for number, rate in enumerate(rates):
        rng = np.random.default_rng([1, number])
        ts = poisson_arrivals(rng, rate, duration_us, start_us=0)
        streams.append(TimedStream(ts, rng.integers(0, n_distinct, len(ts))))
    return streams


def switching_stream(rates: Sequence[float], duration_us: int, n_distinct: int) -> TimedStream:
    """A stream that takes one rate after the other, over and over, each for `SWITCH_TUPLES` of its tuples."""
    rng = np.random.default_rng([1, len(ALIASES)])
    ends, turns = 0.0, []
    while ends < duration_us:
        gaps = rng.exponential(_SECOND / rates[len(turns) % len(rates)], SWITCH_TUPLES)
        turns.append(ends + np.cumsum(gaps))
        ends = turns[-1][-1]
    ts = np.concatenate(turns).astype(np.int64)
    ts = ts[ts < duration_us]
    return TimedStream(ts, rng.integers(0, n_distinct, len(ts)))


def one_window(n_streams: int, window_s: float) -> np.ndarray:
    """The reach of Form 1: the same window for all pairs."""
    return _reach(ALIASES[:n_streams], [(one, other, window_s) for one, other in _pairs(n_streams)])


def one_longer_window(n_streams: int, others_s: float, first_s: float, is_tight: bool = False) -> np.ndarray:
    """The reach where the first two streams have a window of their own; tight, or just as the windows say."""
    windows = [(one, other, first_s if one + other == "AB" else others_s) for one, other in _pairs(n_streams)]
    if is_tight:
        return _reach(ALIASES[:n_streams], windows)
    reach = one_window(n_streams, others_s)
    reach[0, 1] = reach[1, 0] = round(first_s * _SECOND) - 1
    return reach


def path_windows(n_streams: int, window_s: float) -> np.ndarray:
    """The reach along a path from the first stream to the last (§5.2)."""
    aliases = ALIASES[:n_streams]
    return _reach(aliases, [(one, other, window_s) for one, other in pairwise(aliases)], is_directed=True)


def _reach(aliases: str, windows: Sequence[tuple[str, str, float]], is_directed: bool = False) -> np.ndarray:
    pairs = tuple(PairWindow(one, other, round(length_s * _SECOND), is_directed) for one, other, length_s in windows)
    return np.array(WindowGraph(tuple(aliases), pairs).reach_us, np.int64)


def _pairs(n_streams: int) -> list[tuple[str, str]]:
    return [(ALIASES[i], ALIASES[j]) for i in range(n_streams) for j in range(i + 1, n_streams)]


def _store_stream(stores: Stores, number: int) -> TimedStream:
    """The sales of one store; more stores than `stores` declares can be drawn."""
    table = pa.concat_tables(stores.generate(f"store{number}")).select(["ts", "ItemNum"]).combine_chunks()
    ts, items = (table.column(name).cast(pa.int64()).to_numpy() for name in ("ts", "ItemNum"))
    return TimedStream(ts, items)
