"""W-DISTINCT: every row once, however many equal tuples are in the window (Pipelines §4.1, Alg. 4.1).

    Law:  a row is in the answer at T, once, iff a tuple equal to it is in its window at T.

    in     a [2, 8)       a [6, 12)      a [8, 14)          out    +a [2, 8)   +a [8, 14)

One tuple stands for all its equals. When it has gone, the one of those left that expires last takes its place, so that
rows stay as long as they can: as many changes come out as keys per window, at most. State: the tuples in the window,
and which of them are shown. Which is, is decided when all of an instant has come, also if it comes in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.kernels.distinct_runs import NOTHING, ShownChanges, enter, follow
from sash.kernels.event_runs import EventRuns
from sash.operators.keyed import IDENTITY, Keys, with_identity
from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS, ColumnLike, concat, int64_column
from sash.store.ordered_multiset import OrderedMultiset
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory, Vector

NO_KEYS = np.empty(0, np.int64)
CHANGES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class DistinctSpec:
    """`columns` are what makes tuples equal; nothing else of them is passed on.

    `id_columns`, if given, receive what identifies a row: its key, and when it expires.
    """

    columns: tuple[str, ...]
    window_us: int | None
    expires_by_negatives: bool
    id_columns: tuple[str, ...] = ()


class Distinct(Traced):
    """Runs a `DistinctSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace", "_answer", "_keys", "_members", "_shown", "_n_keys")

    def __init__(self, spec: DistinctSpec, input: pa.Schema):
        self.spec = spec
        self._key_schema = pa.schema([input.field(name) for name in spec.columns])
        self._input = pa.schema([*self._key_schema, *SIGNED_FIELDS])
        ids = [pa.field(name, pa.int64()) for name in spec.id_columns]
        self.schema = pa.schema([*self._key_schema, *ids, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        window_us = self.spec.window_us
        self._trace = Trace(with_identity(self._input, True), window_us, self.spec.expires_by_negatives, arena)
        # Nobody asks when what is shown expires: it is there for a restart.
        self._answer = Trace(with_identity(pa.schema(SIGNED_FIELDS), True), window_us, True, arena)
        self._keys = Keys(self._key_schema, True, arena)
        self._members = OrderedMultiset(arena)
        self._shown = Vector(np.int64, arena)
        self._n_keys = 0
        self._undecided = NO_KEYS
        """In the middle of an instant, keys of which nothing is shown, and something will be."""

    def take(self, inputs: Sequence[pa.Table], instant: int) -> None:
        (batch,) = inputs
        events = self._entered(batch, instant - 1)
        self._make_room(len(events))
        enter(events.ids, events.int64(EXPIRES), self._members.treaps())
        self._undecided = np.union1d(self._undecided, events.ids[self._shown.array[events.ids] == NOTHING])

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (*changes,) = self.parts(inputs, clock)
        return concat(changes) if changes else self.schema.empty_table()

    def parts(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        """The changes of a step: many rows may come at the end of an instant that was taken in parts."""
        (batch,) = inputs
        keys, shown = self._follow(self._entered(batch, clock))
        for first in range(0, len(keys), self._n_at_once):
            yield self._rows(keys[first : first + self._n_at_once], shown.slice(first, self._n_at_once))
        self._answer.step(self._keys.identify(shown, keys), np.zeros(len(keys), np.int64), clock)
        self._trace.evict()
        self._answer.evict()
        self._forget_keys()

    @property
    def _n_at_once(self) -> int:
        """So many changes are made at a time."""
        budget = self._trace.log.arena.budget
        return CHANGES_AT_ONCE if budget is None else min(CHANGES_AT_ONCE, budget.n_pairs_at_once())

    def traces(self) -> dict[str, Trace]:
        return {"window": self._trace, "answer": self._answer}

    def pace(self, clock: int, n_max: int) -> int:
        return self._trace.pace(clock, n_max)

    def registers(self) -> dict[str, int]:
        return {**super().registers(), "next_identity": self._keys.next_identity}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        clock = registers["clock"]
        for events in self._trace.restore(entries["window"], registers["window"], clock, self._keys.recall):
            self._follow(events)
        self._keys.next_identity = registers["next_identity"]
        self._recall_shown(self._answer.restore(entries["answer"], registers["answer"], clock, _no_ids))

    def _entered(self, batch: pa.Table, clock: int) -> Events:
        """What happens up to a clock when these tuples have come."""
        tuples = batch.select(self._input.names)
        ids = self._keys.encode(tuples)
        return self._trace.step(self._keys.identify(tuples, ids), ids, clock)

    def _follow(self, events: Events) -> tuple[np.ndarray, pa.Table]:
        """The changes of what is shown, by key, as tuples without their columns."""
        self._make_room(int((events.signs > 0).sum()))
        starts, run_ids, run_times = self._runs(events)
        run, expires = np.empty((2, 2 * len(run_ids)), np.int64)
        sign = np.empty(len(run), np.int8)
        runs, out = EventRuns(starts, run_ids, events.signs), ShownChanges(run, expires, sign)
        n_out = follow(runs, events.int64(EXPIRES), self._shown.array, self._members.treaps(), out)
        ts, expires, sign = run_times[run[:n_out]], expires[:n_out], sign[:n_out]
        if not self.spec.expires_by_negatives:
            early = (sign > 0) | (ts < expires)
            run, ts, expires, sign = run[:n_out][early], ts[early], expires[early], sign[early]
        return run_ids[run[: len(ts)]], pa.table({TS: ts, EXPIRES: expires, OP: sign})

    def _runs(self, events: Events) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where runs begin, and the key and time of each; one without events for what the clock's instant decides."""
        more, self._undecided = np.setdiff1d(self._undecided, events.run_ids), NO_KEYS
        starts = np.concatenate([events.starts, np.full(len(more), len(events))])
        times = np.concatenate([events.run_times, np.full(len(more), self._trace.clock)])
        return starts, np.concatenate([events.run_ids, more]), times

    def _make_room(self, n_entering: int) -> None:
        n_keys = self._keys.n_ids
        self._members.reserve(n_keys, n_entering)
        self._shown.reserve(n_keys)
        self._shown.array[self._n_keys : n_keys] = NOTHING
        self._n_keys = n_keys

    def _rows(self, keys: np.ndarray, shown: pa.Table) -> pa.Table:
        columns: dict[str, ColumnLike] = dict(self._keys.take(keys))
        columns |= {name: shown.column(name) for name in (TS, EXPIRES, OP)}
        identity = [self._keys.identities(keys), int64_column(shown, EXPIRES)]
        columns |= dict(zip(self.spec.id_columns, identity))
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _recall_shown(self, answer: Iterable[Events]) -> None:
        """Of what was shown and not taken back since, at most one tuple is left per key: so the expiries of all
        that was shown, less of all that was taken back, add up to when it expires.
        """
        identities = self._keys.identities(np.arange(self._n_keys))
        by_identity = np.argsort(identities)
        n_shown, expires = np.zeros((2, self._n_keys), np.int64)
        for events in answer:
            keys = by_identity[np.searchsorted(identities, events.int64(IDENTITY), sorter=by_identity)]
            np.add.at(n_shown, keys, events.signs)
            np.add.at(expires, keys, events.signs * events.int64(EXPIRES))
        self._shown.array[: self._n_keys] = np.where(n_shown > 0, expires, NOTHING)

    def _forget_keys(self) -> None:
        """Numbers keys anew once most have gone."""
        alive = self._shown.array[: self._n_keys] != NOTHING
        mapping = self._keys.compact(alive)
        if mapping is None:
            return
        self._shown.write(0, self._shown.array[: self._n_keys][alive])
        self._n_keys = self._keys.n_ids
        self._trace.renumber(mapping)
        self._members.compact(mapping)


def _no_ids(tuples: pa.Table) -> np.ndarray:
    """What is shown needs no dense ids: its identities tell keys apart."""
    return np.zeros(tuples.num_rows, np.int64)
