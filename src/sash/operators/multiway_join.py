"""The join of many streams in one operator, with a window for every pair: W-join (§3, §5).

    Law:  tuples t_1 … t_n, one of each input, join  iff  they have equal keys, satisfy all conditions, and for every
          pair of inputs  t_j.ts - t_i.ts <= reach[i][j].  They do so from max(ts) to min(expires).

    A   ----a---------------          the last of them to come finds the others: a and b in their buffers,
    B   --------b-----------          b within reach of c, a within reach of both
    C   -------------c------
    A⋈B⋈C            |---->

A combination is found once, by its last tuple in order of time. No intermediate result is kept. State: of each input
the tuples that a tuple still to come can reach; where memory is limited, the oldest of them on disk. How combinations
are found is the algorithm's choice; what it keeps is made from the tuples, and another one can go on at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.cost import replan_multiway
from sash.cost.choose_multiway import MultiwayChoice
from sash.cost.multiway_cost import PROBE
from sash.cost.replan_multiway import ManyStep, MultiwayWatch
from sash.index.head_room import make_room
from sash.index.key_matches import key_matches
from sash.index.multiway_index import Combinations, MultiwayCounts, MultiwayIndex
from sash.index.probe_index import ProbeIndex, live_together
from sash.index.probe_order import probed_keys
from sash.operators import join_keys as join_keys
from sash.operators.combination_checks import CombinationChecks, Condition, exact_keys
from sash.operators.evaluator import keep
from sash.operators.multiway_shape import shape_of
from sash.operators.operator import Unpaced
from sash.papers.wjoin.wjoin_algorithms import ALGORITHMS, GCA
from sash.store.batch import (
    BEGINNING,
    EXPIRES,
    ID_PREFIX,
    OP,
    SIGNED_FIELDS,
    SIGNED_NAMES,
    TS,
    ColumnLike,
    int64_column,
)
from sash.store.block_log import BlockLog
from sash.store.ordered_window import OrderedWindow
from sash.store.vector import Arena, Memory

MAX_COMBINED = 1 << 16
"""More rows than so many are put out in the chunks in which they were found."""


@dataclass(frozen=True, slots=True)
class MultiwayJoinSpec:
    """Inputs are told apart by their number."""

    names: tuple[str, ...]
    """Of the inputs, for people: the alias of a stream, or those of several with `+` if an input is itself a join."""
    keys: tuple[tuple[tuple[str, ...], ...], ...]
    """For each key, the columns of each input that must be equal to those of all others that have some; () if an input
    has none. The columns of a key have equal types in all inputs.
    """
    reach_us: tuple[tuple[int, ...], ...]
    """`reach_us[i][j]`: how much newer than a tuple of input i one of input j may be, at most."""
    conditions: tuple[Condition, ...] = ()
    """What else must hold."""
    columns: tuple[str, ...] | None = None
    """Those of the inputs that are put out, in the order of the inputs; all if None. Identities always are."""
    checks_lives: bool = False
    """Whether reach alone does not say that tuples are in their windows together, as where an input is a join."""
    streams: tuple[tuple[str, ...], ...] | None = None
    """The aliases of each input's streams, where an input is itself a join; None if none is."""
    stream_reach_us: tuple[tuple[int, ...], ...] | None = None
    """`reach_us` with one item for each stream of each input, where an input is itself a join; None if none is."""
    algorithm: str = field(default=PROBE, repr=False)
    """How combinations are found, if a hint says so. It is no part of what tells plans apart: state does not depend on
    it."""
    inner: str | None = field(default=None, repr=False)
    """What finds the candidates of the algorithm `gca`, if the hint says that too."""
    choice: MultiwayChoice | None = field(default=None, repr=False)
    """How they are found without a hint, and by which prices to choose anew while the join runs; None: by probes."""
    fanouts: tuple[tuple[float | None, ...], ...] | None = field(default=None, repr=False)
    """`fanouts[i][j]`: how many tuples of input j one of input i is expected to meet, if anything is known of it."""

    def __post_init__(self) -> None:
        assert self.inner is None or self.algorithm == GCA

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The streams of each input."""
        return self.streams or tuple((name,) for name in self.names)

    @property
    def spans_us(self) -> tuple[int, ...]:
        """For how long a tuple of each input is held: as long as one of any other input can reach it."""
        return tuple(
            1 + max(reach for other, reach in enumerate(row) if other != number)
            for number, row in enumerate(self.reach_us)
        )


class MultiwayJoin(Unpaced):
    """Runs a `MultiwayJoinSpec`. Inputs come in order of time, step by step; within a step in any order."""

    STATE: ClassVar[tuple[str, ...]] = ("_windows", "_index", "_clock", "_frontiers", "_algorithm", "_watch", "_done")

    def __init__(self, spec: MultiwayJoinSpec, *inputs: pa.Schema):
        self.spec = spec
        self._inputs = inputs
        self._payload = [[name for name in input.names if self._is_put_out(name)] for input in inputs]
        payload = [input.field(name) for input, names in zip(inputs, self._payload) for name in names]
        self.schema = pa.schema([*payload, *SIGNED_FIELDS])
        self._key_columns = [tuple(key[number] for key in spec.keys) for number in range(len(inputs))]
        self._has_key = np.array([[bool(columns) for columns in own] for own in self._key_columns], dtype=bool)
        self._reach = np.array(spec.reach_us, np.int64)
        self._heard: Sequence[tuple[int, ...]] = ()
        self._owners = [number for number, streams in enumerate(spec.members) for _ in streams]
        self._checks = CombinationChecks((*spec.conditions, *exact_keys(spec.keys, inputs)), inputs)
        self._shape = shape_of(spec.keys, spec.reach_us, [each.inputs for each in self._checks.conditions])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        may_seal, probed = self.spec.algorithm == PROBE, probed_keys(self._has_key)
        if arena.budget is not None:
            arena.budget.expect_reads(self.n_reads)
        self._windows = [
            OrderedWindow(input, columns, span_us, arena, may_seal, own)
            for input, columns, span_us, own in zip(
                self._inputs, self._key_columns, self.spec.spans_us, probed, strict=True
            )
        ]
        self._clock = BEGINNING
        self._frontiers = [BEGINNING + 1] * len(self._owners)
        self._watch = MultiwayWatch(n_arrived=[0] * len(self._inputs))
        self._done = MultiwayCounts(0, 0, 0, 0, 0)
        self._algorithm = self.spec.algorithm
        if self.spec.choice is not None and self._may_replan:
            self._algorithm = self.spec.choice.algorithm
        self._index = self._make_index()

    def hear(self, frontiers: Sequence[tuple[int, ...]]) -> None:
        """For each stream of each input the least time of a tuple that is still to come after this step."""
        self._heard = frontiers

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        joined = pa.concat_tables([*self.parts(inputs, clock), self.schema.empty_table()])
        return joined if joined.num_rows > MAX_COMBINED else joined.combine_chunks()

    def parts(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        """The joined tuples of a step as they are found."""
        self._clock = clock
        self._frontiers = self._by_stream(self._heard or [(clock + 1,)] * len(inputs))
        self._heard = ()
        self.make_room(sum(batch.nbytes for batch in inputs), sum(batch.num_rows for batch in inputs))
        firsts, limits = [window.next_row for window in self._windows], self._limits()
        for number, batch in enumerate(inputs):
            self._windows[number].insert(self._ordered(batch, number), limits[number] - 2)
        n_out = 0
        for found in self._combinations(firsts):
            n_out += len(found.ts)
            yield self._form(found)
        step = self._seen(firsts, n_out) if self._may_replan else None
        self._evict(limits)
        if step is not None:
            self._replan(step)

    @property
    def n_reads(self) -> int:
        """How many inputs are read from disk one within the other: a combination grows by one after the other."""
        return len(self._inputs) - 1

    def make_room(self, n_bytes: int = 0, n_rows: int = 0) -> None:
        """Lets tuples go to disk if memory would be short when so much comes in."""
        make_room(self._windows, self._windows[0].arena.budget, self._index.refill, n_rows, n_bytes)

    def logs(self) -> dict[str, BlockLog]:
        return {f"input{number}": window.log for number, window in enumerate(self._windows)}

    def registers(self) -> dict[str, int]:
        frontiers = {f"frontier{number}": frontier for number, frontier in enumerate(self._frontiers)}
        return {"clock": self._clock, **frontiers, **{name: log.next_number for name, log in self.logs().items()}}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._clock = registers["clock"]
        self._frontiers = [registers[f"frontier{number}"] for number in range(len(self._owners))]
        for (name, _), window, limit in zip(self.logs().items(), self._windows, self._limits(), strict=True):
            window.restore(entries[name], registers[name], limit - 2)
        self._index.refill()

    def buffered(self) -> list[np.ndarray]:
        """For each input the times of the tuples that one still to come may join."""
        return [window.times_since(limit) for window, limit in zip(self._windows, self._limits(), strict=True)]

    def adopt(self, algorithm: str) -> None:
        """Finds combinations by another algorithm from the next step on, with the same tuples."""
        self._done = self.counts
        self._index.free()
        self._algorithm = algorithm
        self._index = self._make_index()
        self._index.refill()

    @property
    def algorithm(self) -> str:
        """How combinations are found now."""
        return self._algorithm

    @property
    def n_replans(self) -> int:
        """How often the algorithm was changed because the load was another than expected."""
        return self._watch.n_changes

    @property
    def counts(self) -> MultiwayCounts:
        """The work done so far, by all algorithms."""
        return MultiwayCounts(*map(sum, zip(self._done, self._index.counts)))

    @property
    def orders(self) -> list[list[int]] | None:
        """The probe order of each arriving input now; None if the algorithm has none."""
        return self._index.orders if isinstance(self._index, ProbeIndex) else None

    def _is_put_out(self, name: str) -> bool:
        columns = self.spec.columns
        return name not in SIGNED_NAMES and (columns is None or name in columns or name.startswith(ID_PREFIX))

    @property
    def _may_replan(self) -> bool:
        """Where memory is limited there are probes alone: the others have no way to tuples on disk."""
        choice = self.spec.choice
        return choice is not None and not choice.is_hinted and self._windows[0].arena.budget is None

    def _seen(self, firsts: Sequence[int], n_out: int) -> ManyStep:
        """What a step was that brought the rows from `firsts` on; all are in memory."""
        n_new = [window.next_row - first for window, first in zip(self._windows, firsts)]
        begins = [int(own.ts[first - own.base]) for own, first, n in zip(self._windows, firsts, n_new) if n]
        n_held = sum(window.log.n_rows for window in self._windows)
        return ManyStep(n_new, n_out, n_held, self._clock, min(begins, default=self._clock))

    def _replan(self, step: ManyStep) -> None:
        """Watches the load of a join that may change its algorithm, and changes it when the time has come."""
        choice = self.spec.choice
        assert choice is not None
        found = replan_multiway.next_algorithm(
            self._watch, step, self._algorithm, choice, self._shape, lambda: key_matches(self._windows, self._has_key)
        )
        if found is not None and found != self._algorithm:
            self._watch.n_changes += 1
            self.adopt(found)

    def _make_index(self) -> MultiwayIndex:
        if self._algorithm == PROBE:
            return ProbeIndex(
                self._windows, self._has_key, self._reach, bool(self._checks.conditions), self.spec.fanouts
            )
        inner = {"inner": self.spec.inner} if self.spec.inner else {}
        return ALGORITHMS[self._algorithm](self._windows, self._has_key, self._reach, **inner)

    def _limits(self) -> list[int]:
        """For each input the time before which no tuple can be joined any more: those to come are out of reach."""
        reach_us = self.spec.stream_reach_us or self.spec.reach_us
        return [
            min(
                max(frontier - reach_us[number][stream], BEGINNING + 2)
                for stream, frontier in enumerate(self._frontiers)
                if self._owners[stream] != number
            )
            for number in range(len(self._inputs))
        ]

    def _by_stream(self, frontiers: Sequence[tuple[int, ...]]) -> list[int]:
        """One frontier for each stream; those of an input that tells one alone are all the same."""
        n_streams = [self._owners.count(number) for number in range(len(frontiers))]
        return [
            each
            for own, n_own in zip(frontiers, n_streams, strict=True)
            for each in (own if len(own) == n_own else (min(own),) * n_own)
        ]

    def _ordered(self, batch: pa.Table, number: int) -> pa.Table:
        """The tuples that can join, in order of time."""
        for columns in self._key_columns[number]:
            batch = join_keys.without_null_keys(batch, columns)
        if self._checks.filters[number]:
            batch = keep(batch, self._checks.filters[number]).cast(self._inputs[number])
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
            yield from self._index.complete(firsts, self._refine)
            return
        for rows in self._index.arrive(firsts):
            chosen = self._checks.satisfying(self._checks.conditions, rows, self._windows)
            yield live_together(self._windows, rows if chosen is None else rows[:, chosen])

    def _form(self, found: Combinations) -> pa.Table:
        """The joined tuples."""
        columns: dict[str, ColumnLike] = {}
        for window, own, names in zip(self._windows, found.rows, self._payload, strict=True):
            payload = window.log.take(own, names)
            columns.update(zip(payload.column_names, payload.columns, strict=True))
        columns.update({TS: found.ts, EXPIRES: found.expires, OP: np.ones(len(found.ts), np.int8)})
        joined = pa.table(columns).cast(self.schema)
        return joined.filter(pa.array(found.ts < found.expires)) if self.spec.checks_lives else joined

    def _refine(self, bound: tuple[int, ...], rows: np.ndarray) -> np.ndarray | None:
        """Of combinations that have got a tuple of one more input, those that satisfy what can be checked by now."""
        return self._checks.satisfying(self._checks.due(bound), rows, self._windows)
