"""Two endless streams of tuples that put a given load on a window join, step by step.

    A.k, A.v     B.k, B.v        keys equally likely of `n_distinct`; `v` numbers the tuples of a side

Tuples of a side are equally far apart, give or take, so that every step brings what the rates say.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.cost.join_cost import JoinLoad
from sash.operators.window_join import WindowJoinSpec
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS

ALIASES = ("A", "B")


class LoadStreams:
    """The tuples of both sides from time 0 on. The same load and seed always give the same."""

    def __init__(self, load: JoinLoad, seed: int = 1):
        self.load = load
        self.clock_us = 0
        """All tuples up to and including this time have been given out."""
        self._rng = np.random.default_rng(seed)
        self._n_given = [0, 0]

    def step(self, n_tuples: int) -> tuple[list[pa.Table], int]:
        """The tuples of as much time as about so many take to come, a batch for each side; and the clock after them."""
        self.clock_us += max(1, round(n_tuples / sum(self.load.rates) * 1e6))
        return [self._batch(side) for side in (0, 1)], self.clock_us

    def _batch(self, side: int) -> pa.Table:
        """What comes of a side up to the clock; the tuple with number n at (n + 1) / rate, a little earlier."""
        rate, first = self.load.rates[side], self._n_given[side]
        last = max(first, int(self.clock_us * rate / 1e6))
        self._n_given[side] = last
        number = np.arange(first, last)
        jitter = self._rng.random(last - first)
        ts = np.floor((number + 1 - 0.9 * jitter) / rate * 1e6).astype(np.int64)
        keys = self._rng.integers(0, max(1, int(self.load.n_distinct)), last - first)
        columns = {
            TS: ts,
            EXPIRES: ts + window_us(self.load, side),
            OP: np.ones(last - first, np.int8),
            f"{ALIASES[side]}.k": keys,
            f"{ALIASES[side]}.v": number,
        }
        return pa.table([columns[name] for name in load_schema(side).names], schema=load_schema(side))


def load_schema(side: int) -> pa.Schema:
    """Of the tuples of a side."""
    alias = ALIASES[side]
    return pa.schema([*SIGNED_FIELDS, (f"{alias}.k", pa.int64()), (f"{alias}.v", pa.int64())])


def load_spec(load: JoinLoad) -> WindowJoinSpec:
    """The join of both streams by key."""
    return WindowJoinSpec(keys=(("A.k", "B.k"),), residual=None, windows_us=(window_us(load, 0), window_us(load, 1)))


def window_us(load: JoinLoad, side: int) -> int:
    return max(1, round(load.windows_s[side] * 1e6))


def even_load(rate: float, ratio: float, n_window: float, n_distinct: float) -> JoinLoad:
    """A load whose left side is `ratio` times as fast as the right one; both windows hold `n_window` in the mean."""
    rates = rate * 2 * ratio / (1 + ratio), rate * 2 / (1 + ratio)
    window_s = 2 * n_window / sum(rates)
    return JoinLoad(rates, (window_s, window_s), n_distinct)


def n_window_tuples(load: JoinLoad) -> int:
    """How many tuples both windows hold once they are full."""
    return int(load.window_tuples(0) + load.window_tuples(1))
