"""Puts tuples in order of time: holds each back until the clock has passed it.

    arrives   3   1   2        clock 0     clock 2     clock 3
    released                   -           1 2         3

State: the tuples beyond the clock, so at most what the slack and the slowest stream let run ahead. Tuples of one
instant come out in the stream's total order: the declared tie-breakers, then row content; never arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators.operator import Unpaced
from sash.store.batch import BEGINNING, NEVER, TS, concat, conformed, content_order, int64_column, with_columns
from sash.store.block_log import BlockLog
from sash.store.vector import Arena, Memory


@dataclass(frozen=True, slots=True)
class ReorderSpec:
    """`tie` are the declared tie-breakers; `is_total` asks for the whole total order, else only for order by time.

    `id_column` receives a tuple's identity, where tuples made of it may be taken back.
    """

    is_total: bool
    tie: tuple[str, ...] = ()
    id_column: str | None = None


class Reorder(Unpaced):
    """Runs a `ReorderSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_log", "_clock", "_next_id", "_oldest_us")

    def __init__(self, spec: ReorderSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input if spec.id_column is None else input.append(pa.field(spec.id_column, pa.int64()))
        self._input = input
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._log = BlockLog(self._input, arena)
        self._clock = BEGINNING
        self._next_id = 0
        self._oldest_us = NEVER
        """No tuple that is held is older."""

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        held = [self._log.read(block) for block in self._log.blocks] if self._oldest_us <= clock else []
        due = [table.filter(pa.array(self._is_due(table, clock))) for table in [*held, batch]]
        self._release(clock)
        self._hold(batch.filter(pa.array(int64_column(batch, TS) > clock)))
        self._clock = clock
        return self._numbered(self._ordered(concat(due)))

    def frontier(self, below: int) -> int:
        """What is held may come out next; so may what comes in, and within the slack it may be older."""
        return min(self._oldest_us, below)

    def logs(self) -> dict[str, BlockLog]:
        return {"held": self._log}

    def registers(self) -> dict[str, int]:
        return {"clock": self._clock, "held": self._log.next_number, "next_id": self._next_id}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._log.restore(entries["held"], registers["held"], partial(conformed, schema=self._input))
        self._clock, self._next_id = registers["clock"], registers["next_id"]
        self._oldest_us = self._oldest_after(self._clock)

    def _is_due(self, table: pa.Table, clock: int) -> np.ndarray:
        """A block stays until its last tuple is due, so the clock it was last asked at tells what has left already."""
        ts = int64_column(table, TS)
        return (ts > self._clock) & (ts <= clock)

    def _release(self, clock: int) -> None:
        """Drops what is due. As long as nothing is, no block is looked at."""
        if self._oldest_us > clock:
            return
        log = self._log
        log.drop([block for block in log.blocks if int64_column(log.read(block), TS).max() <= clock])
        log.trim()
        self._oldest_us = self._oldest_after(clock)

    def _hold(self, later: pa.Table) -> None:
        if later.num_rows:
            self._log.append(later)
            self._oldest_us = min(self._oldest_us, int(int64_column(later, TS).min()))

    def _oldest_after(self, clock: int) -> int:
        """The least time of a tuple in the log that has not left it yet."""
        times = [int64_column(self._log.read(block), TS) for block in self._log.blocks]
        return min((int(ts[ts > clock].min()) for ts in times), default=NEVER)

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
