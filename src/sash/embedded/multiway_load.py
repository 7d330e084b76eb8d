"""Endless streams of tuples that put a given load on a join of many streams, step by step.

    A.k, A.v    B.k, B.v    C.k, C.v     keys equally likely; `v` numbers the tuples of a stream

Tuples of a stream are equally far apart, give or take, so that every step brings what the rates say.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.cost.multiway_cost import ManyCondition, MultiwayLoad, fanouts_of
from sash.operators.combination_checks import Condition
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS

NAMES = "ABCDEFGH"
FAR_US = 1 << 40
"""Tuples live longer than any window reaches, as with windows of pairs."""
N_JITTERS = 4099


def even_many_load(
    n_inputs: int,
    rate: float,
    window_s: float,
    n_distinct: int | None,
    slow: float = 1,
    share: float | None = None,
    is_local: bool = False,
) -> MultiwayLoad:
    """A join of streams of a rate, the last of which is `slow` times slower, by one key or none.

    `share` of what two neighbours meet passes a condition, if it is given. Locally, only neighbours in a row are within
    their part of the window, and others within the sum of those between them.
    """
    every, reach_s = range(n_inputs), window_s - 1e-6
    return MultiwayLoad(
        rates=(*[float(rate)] * (n_inputs - 1), rate / slow),
        reach_s=tuple(
            tuple(abs(one - two) * reach_s / (n_inputs - 1) if is_local else reach_s * (one != two) for two in every)
            for one in every
        ),
        has_key=((True,) if n_distinct else (),) * n_inputs,
        matches=(1 / n_distinct,) if n_distinct else (),
        conditions=tuple(ManyCondition((one, one + 1), share) for one in (0, 1)) if share else (),
    )


class ManyLoadStreams:
    """The tuples of all streams from time 0 on. The same load and seed always give the same."""

    def __init__(self, load: MultiwayLoad, seed: int = 1):
        self.load = load
        self.clock_us = 0
        """All tuples up to and including this time have been given out."""
        self._n_distinct = round(1 / load.matches[0]) if load.matches else 1
        self._rng = np.random.default_rng(seed)
        self._jitter = self._rng.random(N_JITTERS)
        self._n_given = [0] * len(load.rates)

    def step(self, n_tuples: int) -> tuple[list[pa.Table], int]:
        """The tuples of as much time as about so many take to come, a batch for each stream; and the clock after."""
        self.clock_us += max(1, round(n_tuples / sum(self.load.rates) * 1e6))
        return [self._batch(stream) for stream in range(len(self.load.rates))], self.clock_us

    def _batch(self, stream: int) -> pa.Table:
        """What comes of a stream up to the clock; the tuple with number n at (n + 1) / rate, or a little earlier."""
        rate, first = self.load.rates[stream], self._n_given[stream]
        number = np.arange(first, max(first, int(self.clock_us * rate / 1e6)) + 1)
        ts = np.floor((number + 1 - 0.9 * self._jitter[number % N_JITTERS]) / rate * 1e6).astype(np.int64)
        n_now = int(np.searchsorted(ts, self.clock_us, side="right"))
        number, ts = number[:n_now], ts[:n_now]
        self._n_given[stream] = first + n_now
        keys = self._rng.integers(0, self._n_distinct, n_now)
        schema = many_schema(stream)
        return pa.table([ts, ts + FAR_US, np.ones(n_now, np.int8), keys, number], schema=schema)


def many_schema(stream: int) -> pa.Schema:
    """Of the tuples of a stream."""
    assert [each.name for each in SIGNED_FIELDS] == [TS, EXPIRES, OP], "batches are made in this order"
    name = NAMES[stream]
    return pa.schema([*SIGNED_FIELDS, (f"{name}.k", pa.int64()), (f"{name}.v", pa.int64())])


def many_spec(load: MultiwayLoad) -> MultiwayJoinSpec:
    """The join of all streams; by key, unless there are none."""
    names = tuple(NAMES[: len(load.rates)])
    return MultiwayJoinSpec(
        names=names,
        keys=(tuple((f"{name}.k",) for name in names),) if load.matches else (),
        reach_us=tuple(tuple(round(each * 1e6) for each in line) for line in load.reach_s),
        conditions=tuple(_condition(each) for each in load.conditions),
        fanouts=tuple(map(tuple, fanouts_of(load))),
    )


def _condition(condition: ManyCondition) -> Condition:
    """One that lets about that share of what two streams meet pass."""
    one, other = condition.inputs
    of = round(1 / condition.share)
    return Condition(f'"{NAMES[one]}.v" % {of} = "{NAMES[other]}.v" % {of}', condition.inputs)
