"""The join of many streams in one operator, with a window for every pair: W-join (§3, §5).

    Law:  tuples t_1 … t_n, one of each input, join  iff  they have equal keys, satisfy all conditions, and for every
          pair of inputs  t_j.ts - t_i.ts <= reach[i][j].  They do so from max(ts) to min(expires).

    A   ----a---------------          the last of them to come finds the others: a and b in their buffers,
    B   --------b-----------          b within reach of c, a within reach of both
    C   -------------c------
    A⋈B⋈C            |---->

A combination is found once, by its last tuple in order of time. No intermediate result is kept. State: of each input
the tuples that a tuple still to come can reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators import keys as join_keys
from sash.operators.evaluator import quote, select
from sash.operators.operator import Unpaced
from sash.store.batch import BEGINNING, EXPIRES, OP, SIGNED_FIELDS, TS, int64_column
from sash.store.block_log import BlockLog
from sash.store.keys import is_exact
from sash.store.multiway_index import Combinations, MultiwayCounts, MultiwayIndex
from sash.store.ordered_window import OrderedWindow
from sash.store.probe_index import ProbeIndex, live_together
from sash.store.vector import Home, Memory
from sash.store.wjoin_algorithms import ALGORITHMS

PROBE = "probe"
SIGNED_NAMES = tuple(each.name for each in SIGNED_FIELDS)
PLACE = "_place"
"""Numbers combinations while conditions are checked."""
N_OBSERVED = 256
"""So many tuples of a stream say how many they meet in another."""
OBSERVE_EVERY = 1 << 17
"""After so many tuples the load is looked at again."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL over the columns of some inputs, by their numbers."""

    sql: str
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MultiwayJoinSpec:
    """Inputs are told apart by their number."""

    names: tuple[str, ...]
    """Of the inputs, for people: an alias, or several with `+` if an input is itself a join."""
    keys: tuple[tuple[tuple[str, ...], ...], ...]
    """For each key, the columns of each input that must be equal to those of all others that have some; () if an input
    has none. The columns of a key have equal types in all inputs.
    """
    reach_us: tuple[tuple[int, ...], ...]
    """`reach_us[i][j]`: how much newer than a tuple of input i one of input j may be, at most."""
    conditions: tuple[Condition, ...] = ()
    """What else must hold."""
    checks_lives: bool = False
    """Whether reach alone does not say that tuples are in their windows together, as where an input is a join."""
    algorithm: str = field(default=PROBE, repr=False)
    """How combinations are found. It is no part of what tells plans apart: state does not depend on it."""
    fanouts: tuple[tuple[float | None, ...], ...] | None = field(default=None, repr=False)
    """`fanouts[i][j]`: how many tuples of input j one of input i is expected to meet, if anything is known of it."""

    @property
    def spans_us(self) -> tuple[int, ...]:
        """For how long a tuple of each input is held: as long as one of any other input can reach it."""
        return tuple(
            1 + max(reach for other, reach in enumerate(row) if other != number)
            for number, row in enumerate(self.reach_us)
        )


class MultiwayJoin(Unpaced):
    """Runs a `MultiwayJoinSpec`. Inputs come in order of time, step by step; within a step in any order."""

    STATE: ClassVar[tuple[str, ...]] = ("_windows", "_index", "_clock", "_frontiers", "_until_observed")

    def __init__(self, spec: MultiwayJoinSpec, *inputs: pa.Schema):
        self.spec = spec
        self._inputs = inputs
        payload = [each for input in inputs for each in input if each.name not in SIGNED_NAMES]
        self.schema = pa.schema([*payload, *SIGNED_FIELDS])
        self._payload = [[name for name in input.names if name not in SIGNED_NAMES] for input in inputs]
        self._key_columns = [tuple(key[number] for key in spec.keys) for number in range(len(inputs))]
        self._has_key = np.array([[bool(columns) for columns in own] for own in self._key_columns], dtype=bool)
        self._reach = np.array(spec.reach_us, np.int64)
        self._heard: Sequence[int] = ()
        self._conditions = (*spec.conditions, *_exact_keys(spec, inputs))
        self.reset(Memory())

    def reset(self, home: Home) -> None:
        self._windows = [
            OrderedWindow(input, columns, span_us, home)
            for input, columns, span_us in zip(self._inputs, self._key_columns, self.spec.spans_us, strict=True)
        ]
        self._clock = BEGINNING
        self._frontiers = [BEGINNING + 1] * len(self._inputs)
        self._until_observed = N_OBSERVED
        self._index = self._make_index()

    def hear(self, frontiers: Sequence[int]) -> None:
        """For each input the least time of a tuple that is still to come after this step."""
        self._heard = frontiers

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        self._clock = clock
        self._frontiers = list(self._heard or [clock + 1] * len(inputs))
        self._heard = ()
        firsts, limits = [window.next_row for window in self._windows], self._limits()
        for number, batch in enumerate(inputs):
            self._windows[number].insert(self._ordered(batch, number), limits[number] - 2)
        self._observe(firsts)
        found = [self._form(each) for each in self._combinations(firsts)]
        self._evict(limits)
        return pa.concat_tables(found).combine_chunks() if found else self.schema.empty_table()

    def logs(self) -> dict[str, BlockLog]:
        return {f"input{number}": window.log for number, window in enumerate(self._windows)}

    def registers(self) -> dict[str, int]:
        frontiers = {f"frontier{number}": frontier for number, frontier in enumerate(self._frontiers)}
        return {"clock": self._clock, **frontiers, **{name: log.next_number for name, log in self.logs().items()}}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._clock = registers["clock"]
        self._frontiers = [registers[f"frontier{number}"] for number in range(len(self._inputs))]
        for (name, _), window, limit in zip(self.logs().items(), self._windows, self._limits(), strict=True):
            window.restore(entries[name], registers[name], limit - 2)
        self._index.refill()
        self._until_observed = 0

    def buffered(self) -> list[np.ndarray]:
        """For each input the times of the tuples that one still to come may join."""
        return [
            window.ts[window.first_since(limit) - window.base : window.next_row - window.base]
            for window, limit in zip(self._windows, self._limits(), strict=True)
        ]

    @property
    def counts(self) -> MultiwayCounts:
        """The work done so far."""
        return self._index.counts

    @property
    def orders(self) -> list[list[int]] | None:
        """The probe order of each arriving input now; None if the algorithm has none."""
        return self._index.orders if isinstance(self._index, ProbeIndex) else None

    def _make_index(self) -> MultiwayIndex:
        if self.spec.algorithm == PROBE:
            index = ProbeIndex(self._windows, self._has_key, self._reach, self._refine if self._conditions else None)
            index.orders = probe_orders(self._has_key, self.spec.fanouts)
            return index
        name, _, inner = self.spec.algorithm.rstrip(")").partition("(")
        return ALGORITHMS[name](self._windows, self._has_key, self._reach, **({"inner": inner} if inner else {}))

    def _limits(self) -> list[int]:
        """For each input the time before which no tuple can be joined any more: those to come are out of reach."""
        return [
            min(
                max(frontier - self.spec.reach_us[number][other], BEGINNING + 2)
                for other, frontier in enumerate(self._frontiers)
                if other != number
            )
            for number in range(len(self._inputs))
        ]

    def _ordered(self, batch: pa.Table, number: int) -> pa.Table:
        """The tuples that can join, in order of time."""
        for columns in self._key_columns[number]:
            batch = join_keys.without_null_keys(batch, columns)
        ts = int64_column(batch, TS)
        return batch.take(pa.array(np.argsort(ts, kind="stable"))) if np.any(ts[1:] < ts[:-1]) else batch

    def _evict(self, limits: Sequence[int]) -> None:
        self._index.advance([window.first_since(limit) for window, limit in zip(self._windows, limits)])
        n_rebuilds = sum(window.n_rebuilds for window in self._windows)
        for window, limit in zip(self._windows, limits):
            window.evict(limit - 2)
        if sum(window.n_rebuilds for window in self._windows) > n_rebuilds:
            self._index.refill()

    def _combinations(self, firsts: Sequence[int]) -> Iterator[Combinations]:
        """What the rows from `firsts` on complete, and satisfies all conditions."""
        if isinstance(self._index, ProbeIndex):
            yield from self._index.complete(firsts)
            return
        for rows in self._index.arrive(firsts):
            chosen = self._satisfying(self._conditions, rows)
            yield live_together(self._windows, rows if chosen is None else rows[:, chosen])

    def _form(self, found: Combinations) -> pa.Table:
        """The joined tuples."""
        columns = {}
        for window, own, names in zip(self._windows, found.rows, self._payload, strict=True):
            payload = window.log.rows.take(own, names)
            columns.update(zip(payload.column_names, payload.columns, strict=True))
        columns.update({TS: found.ts, EXPIRES: found.expires, OP: np.ones(len(found.ts), np.int8)})
        joined = pa.table(columns).cast(self.schema)
        return joined.filter(pa.array(found.ts < found.expires)) if self.spec.checks_lives else joined

    def _refine(self, bound: tuple[int, ...], rows: np.ndarray) -> np.ndarray | None:
        """Of combinations that have got a tuple of one more input, those that satisfy what can be checked by now."""
        due = [each for each in self._conditions if bound[-1] in each.inputs and set(each.inputs) <= set(bound)]
        return self._satisfying(due, rows)

    def _satisfying(self, conditions: Sequence[Condition], rows: np.ndarray) -> np.ndarray | None:
        """The places of the combinations that satisfy all conditions; None if there is nothing to check."""
        if not conditions:
            return None
        columns: dict[str, pa.ChunkedArray] = {}
        for number in sorted({number for each in conditions for number in each.inputs}):
            payload = self._windows[number].log.rows.take(rows[number], self._payload[number])
            columns.update(zip(payload.column_names, payload.columns, strict=True))
        columns[PLACE] = pa.chunked_array([pa.array(np.arange(rows.shape[1]))])
        predicate = " AND ".join(f"({each.sql})" for each in conditions)
        return int64_column(select(pa.table(columns), [(PLACE, quote(PLACE))], predicate), PLACE)

    def _observe(self, firsts: Sequence[int]) -> None:
        """Looks at the load when there is enough of it, and orders the probes by what they will meet."""
        self._until_observed -= sum(window.next_row - first for window, first in zip(self._windows, firsts))
        if self._until_observed > 0 or not isinstance(self._index, ProbeIndex) or len(self._windows) < 3:
            return
        self._until_observed = OBSERVE_EVERY
        self._index.orders = probe_orders(self._has_key, self._observed_fanouts(self._index, firsts))

    def _observed_fanouts(self, index: ProbeIndex, firsts: Sequence[int]) -> list[list[float | None]]:
        """How many tuples of each input the newest of every other meet."""
        return [
            [
                self._observed_fanout(index, number, firsts[number], other) if other != number else None
                for other in range(len(self._windows))
            ]
            for number in range(len(self._windows))
        ]

    def _observed_fanout(self, index: ProbeIndex, number: int, first: int, other: int) -> float | None:
        window = self._windows[number]
        rows = np.arange(max(window.floor, first - N_OBSERVED), first)
        return index.count_matches(number, rows, other) / len(rows) if len(rows) else None


def probe_orders(has_key: np.ndarray, fanouts: Sequence[Sequence[float | None]] | None) -> list[list[int]]:
    """For each input the order in which the others are probed: always the one next that adds the fewest tuples.

    An input that shares a key with those before it comes before one that does not.
    """
    every = range(len(has_key))

    def cost(target: int, bound: list[int]) -> tuple[bool, float, int]:
        known = [fanouts[source][target] if fanouts else None for source in bound]
        is_keyed = [bool((has_key[source] & has_key[target]).any()) for source in bound]
        least = min((fanout for fanout in known if fanout is not None), default=0.0)
        return not any(is_keyed), least, target

    orders = []
    for arriving in every:
        bound, left = [arriving], [number for number in every if number != arriving]
        while left:
            following = min(left, key=lambda target: cost(target, bound))
            left.remove(following)
            bound.append(following)
        orders.append(bound[1:])
    return orders


def _exact_keys(spec: MultiwayJoinSpec, inputs: Sequence[pa.Schema]) -> list[Condition]:
    """What is left to check of rows with equal integers, where the integers of different keys may collide."""
    conditions = []
    for key in spec.keys:
        members = [number for number, columns in enumerate(key) if columns]
        if is_exact([inputs[members[0]].field(name).type for name in key[members[0]]]):
            continue
        for one, other in pairwise(members):
            pairs = zip(key[one], key[other], strict=True)
            sql = " AND ".join(f"{quote(a)} = {quote(b)}" for a, b in pairs)
            conditions.append(Condition(sql, (one, other)))
    return conditions
