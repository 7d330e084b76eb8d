"""EMIT FINAL behind outer joins: left tuples that have met no right one, when they leave.

    Law:  a left tuple that is in its window from s until before e is put out at e, for ever, if no right tuple with its
          key was in its window at any instant between.

    left    a [1, 6)      b [2, 7)                     right   a [5, 9)
    out                                     +b at 7

A right tuple that comes says until when it will be there, so for each key it is enough to know the latest such time:
who came before it has met somebody. State: the left tuples in their window, and of right ones the keys, as long as a
left tuple that was there with them may still leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.kernels import unmet_runs as kernel
from sash.operators.join_keys import without_null_keys
from sash.operators.keyed import MIN_DEAD
from sash.operators.traced import Traced
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, int64_column, with_columns
from sash.store.key_index import KeyIndex
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory, Vector

LEFT, RIGHT = 0, 1


@dataclass(frozen=True, slots=True)
class UnmetSpec:
    """Puts out the `columns` of left tuples, whose `left_keys` are compared with the `right_keys`, of the same types.

    NULL equals nothing, or, where rows are compared as rows (`nulls_match`), itself. Tuples of both sides leave by
    themselves, none later than its window says.
    """

    columns: tuple[str, ...]
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    windows_us: tuple[int, int]
    nulls_match: bool = False


class Unmet(Traced):
    """Runs an `UnmetSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_traces", "_keys", "_met_until", "_n_seen")

    def __init__(self, spec: UnmetSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        self._key_schema = pa.schema([(str(idx), right.field(name).type) for idx, name in enumerate(spec.right_keys)])
        names = (dict.fromkeys((*spec.columns, *spec.left_keys)), dict.fromkeys(spec.right_keys))
        self._schemas = [
            pa.schema([*(schema.field(name) for name in own), *SIGNED_FIELDS])
            for schema, own in zip((left, right), names, strict=True)
        ]
        self.schema = pa.schema([*(left.field(name) for name in spec.columns), *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        lives = self.spec.windows_us[LEFT], sum(self.spec.windows_us)
        self._traces = [Trace(schema, life, False, arena) for schema, life in zip(self._schemas, lives, strict=True)]
        self._keys = KeyIndex(self._key_schema, arena)
        self._met_until = Vector(np.int64, arena)
        self._n_seen = 0

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        left, right = (batch.select(schema.names) for batch, schema in zip(inputs, self._schemas, strict=True))
        if not self.spec.nulls_match:
            right = without_null_keys(right, self.spec.right_keys)
        assert (int64_column(left, OP) > 0).all(), "a tuple is taken back"
        arriving = int64_column(right, TS), self._ids(RIGHT, right), int64_column(right, EXPIRES)
        self._traces[RIGHT].step(self._kept_longer(right), arriving[1], clock)
        passing = self._traces[LEFT].step(left, self._ids(LEFT, left), clock)
        out = self._unmet(passing, *arriving)
        for trace in self._traces:
            trace.evict()
        self._forget()
        return out

    def traces(self) -> dict[str, Trace]:
        return {"left": self._traces[LEFT], "right": self._traces[RIGHT]}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        left, right = (
            self._traces[side].restore(
                entries[name], registers[name], registers["clock"], lambda tuples, side=side: self._ids(side, tuples)
            )
            for side, name in enumerate(("left", "right"))
        )
        del left  # its tuples are only waited for
        self._remember(right)

    def _ids(self, side: int, tuples: pa.Table) -> np.ndarray:
        names = (self.spec.left_keys, self.spec.right_keys)[side]
        if not names:
            ids = np.zeros(tuples.num_rows, np.int64)
        else:
            columns = [tuples.column(name) for name in names]
            ids = self._keys.encode(pa.table(columns, names=self._key_schema.names))
        n_ids = max(self._keys.n_ids, 1)
        if n_ids > self._n_seen:
            self._met_until.write(self._n_seen, np.full(n_ids - self._n_seen, BEGINNING))
            self._n_seen = n_ids
        return ids

    def _kept_longer(self, right: pa.Table) -> pa.Table:
        """Right tuples as they are kept: until all have left that may have met them."""
        return with_columns(right, **{EXPIRES: int64_column(right, EXPIRES) + self.spec.windows_us[LEFT]})

    def _remember(self, kept: Iterable[Events]) -> None:
        for events in kept:
            until = events.int64(EXPIRES) - self.spec.windows_us[LEFT]
            np.maximum.at(self._met_until.array, events.ids, until)

    def _unmet(self, passing: Events, times: np.ndarray, ids: np.ndarray, until: np.ndarray) -> pa.Table:
        """Of the left tuples that leave, those that have met none of the right ones before."""
        leaving = np.flatnonzero(passing.signs < 0)
        at = passing.times[leaving]
        is_right = np.repeat([False, True], [len(at), len(times)])
        order = np.lexsort((is_right, np.concatenate([at, times])))
        events = kernel.MeetingEvents(
            np.concatenate([passing.ids[leaving], ids])[order],
            is_right[order],
            np.concatenate([passing.int64(TS)[leaving], until])[order],
        )
        is_unmet = np.zeros(len(order), np.bool_)
        kernel.follow(events, self._met_until.array, is_unmet)
        rows = leaving[order[is_unmet]]
        taken = pa.array(rows)
        system = {
            TS: passing.times[rows],
            EXPIRES: np.full(len(rows), NEVER),
            OP: np.ones(len(rows), np.int8),
        }
        columns = [system[name] if name in system else passing.column(name).take(taken) for name in self.schema.names]
        return pa.table(columns, schema=self.schema)

    def _forget(self) -> None:
        """Once most keys have gone, starts again with what the traces hold."""
        n_alive = sum(trace.log.n_rows for trace in self._traces)
        if self._keys.n_ids <= 4 * n_alive + MIN_DEAD:
            return
        self._keys.reset()
        self._n_seen = 0
        self._traces[LEFT].rebuild(lambda tuples: self._ids(LEFT, tuples))
        self._remember(self._traces[RIGHT].rebuild(lambda tuples: self._ids(RIGHT, tuples)))
