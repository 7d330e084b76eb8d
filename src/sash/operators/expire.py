"""W-EXPIRE: writes out as a negative tuple what leaves by itself (Pipelines §3.2), for `EMIT CHANGES`.

    in     +a [1, 4)                 out    +a at 1, -a at 4
    in     +b [2, 9)  -b at 5        out    +b at 2, -b at 5

State: the positive tuples that have not left, so at most the answer itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.index.window_buffer import WindowBuffer
from sash.store.batch import BEGINNING, EXPIRES, ID_PREFIX, NEVER, OP, TS, concat, int64_column, signs, with_columns
from sash.store.block_log import BlockLog
from sash.store.expiry_queue import ExpiryQueue
from sash.store.keys import encode_keys
from sash.store.vector import Arena, Memory


@dataclass(frozen=True, slots=True)
class ExpireSpec:
    """`window_us` is the longest life of a tuple, None if nothing bounds it."""

    window_us: int | None


class Expire:
    """Runs an `ExpireSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_buffer", "_queue", "_clock")

    def __init__(self, spec: ExpireSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input
        self._ids = tuple(name for name in input.names if name.startswith(ID_PREFIX))
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        key_of = partial(encode_keys, columns=self._ids)
        self._buffer = WindowBuffer(self.schema, key_of, self.spec.window_us, arena=arena)
        self._queue = ExpiryQueue(arena)
        self._clock = BEGINNING

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        expires = int64_column(batch, EXPIRES)
        positive = signs(batch) > 0
        # A tuple that expires at clock + 1 is dead to a join, but its negative is still owed.
        horizon = max(clock, BEGINNING + 1) - 1
        first_new = self._buffer.log.next_row
        self._buffer.insert(batch.filter(pa.array(positive & (expires < NEVER))), horizon)
        self._await(first_new)
        negatives = batch.filter(pa.array(~positive & (expires < NEVER)))
        retracted = np.empty(0, np.int64)
        if negatives.num_rows:
            retracted = self._buffer.retract(negatives, encode_keys(negatives, self._ids))
        due = self._due(clock)
        n_rebuilds = self._buffer.n_rebuilds
        self._buffer.evict(horizon, retracted)
        self._clock = clock
        if self._buffer.n_rebuilds > n_rebuilds:
            self._queue.clear()
            self._await(self._buffer.log.base)
        return concat([batch, due])

    def pace(self, clock: int, n_max: int) -> int:
        return self._queue.pace(clock, n_max)

    def logs(self) -> dict[str, BlockLog]:
        return {"living": self._buffer.log}

    def registers(self) -> dict[str, int]:
        return {"clock": self._clock, "living": self._buffer.log.next_number}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._clock = registers["clock"]
        self._buffer.restore(entries["living"], registers["living"], self._clock)
        self._queue.clear()
        self._await(self._buffer.log.base)

    def _await(self, first: int) -> None:
        """Puts the rows from a number on, as far as they have not expired, into the queue."""
        rows = np.arange(first, self._buffer.log.next_row)
        _, expires, _ = self._buffer.values(rows)
        waits = expires > self._clock
        self._queue.push(expires[waits], rows[waits])

    def _due(self, clock: int) -> pa.Table:
        """Negatives of the tuples that expire after the last step's clock and not after this one's."""
        _, rows = self._queue.pop(clock)
        rows = rows[rows >= self._buffer.base]  # those before were taken back, and are forgotten
        _, expires, ends = self._buffer.values(rows)
        leaves = ends == expires
        gone = self._buffer.log.rows.take(rows[leaves])
        return with_columns(gone, **{TS: expires[leaves], OP: np.full(gone.num_rows, -1, np.int8)}).cast(self.schema)
