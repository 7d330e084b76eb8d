"""Puts tuples in order of time: holds each back until the clock has passed it.

    arrives   3   1   2        clock 0     clock 2     clock 3
    released                   -           1 2         3

State: the tuples beyond the clock, so what the slack and the slowest stream let run ahead; beyond memory they are on
disk, in order of time (`store/held_tuples.py`). Tuples of one instant come out in the stream's total order: the
declared tie-breakers, then row content; never arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.store.batch import TS, concat, conformed, content_order, int64_column, with_columns
from sash.store.block_log import BlockLog
from sash.store.held_tuples import HeldTuples
from sash.store.vector import Arena, Memory


@dataclass(frozen=True, slots=True)
class ReorderSpec:
    """`tie` are the declared tie-breakers; `is_total` asks for the whole total order, else only for order by time.

    `id_column` receives a tuple's identity, where tuples made of it may be taken back.
    """

    is_total: bool
    tie: tuple[str, ...] = ()
    id_column: str | None = None


class Reorder:
    """Runs a `ReorderSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_held", "_next_id")

    def __init__(self, spec: ReorderSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input if spec.id_column is None else input.append(pa.field(spec.id_column, pa.int64()))
        self._input = input
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._held = HeldTuples(self._input, arena)
        self._next_id = 0

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        held = self._held
        due = batch.filter(pa.array(held.is_due(batch, clock)))
        released = held.release(clock)
        held.hold(batch.filter(pa.array(int64_column(batch, TS) > clock)))
        return self._numbered(self._ordered(concat([*released, due])))

    def frontier(self, below: int) -> int:
        """What is held may come out next; so may what comes in, and within the slack it may be older."""
        return min(self._held.oldest_us, below)

    def pace(self, clock: int, n_max: int) -> int:
        """What is held comes out bit by bit if it is too much for memory."""
        return self._held.pace(clock, n_max)

    def make_room(self, n_bytes: int = 0) -> None:
        """Puts on disk what would be in the way of so much more."""
        self._held.make_room(n_bytes)

    def logs(self) -> dict[str, BlockLog]:
        return {"held": self._held.log}

    def registers(self) -> dict[str, int]:
        return {"clock": self._held.clock, "held": self._held.log.next_number, "next_id": self._next_id}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        adapt = partial(conformed, schema=self._input)
        self._held.restore(entries["held"], registers["held"], registers["clock"], adapt)
        self._next_id = registers["next_id"]

    def _ordered(self, batch: pa.Table) -> pa.Table:
        if batch.num_rows < 2:
            return batch
        ts = int64_column(batch, TS)
        if not self.spec.is_total:
            order = np.argsort(ts, kind="stable")
        else:
            order = content_order(batch, [TS, *self.spec.tie])
        return batch.take(pa.array(order))

    def _numbered(self, batch: pa.Table) -> pa.Table:
        if self.spec.id_column is None:
            return batch
        first, self._next_id = self._next_id, self._next_id + batch.num_rows
        return with_columns(batch, **{self.spec.id_column: np.arange(first, self._next_id)})
