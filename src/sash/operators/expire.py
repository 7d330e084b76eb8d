"""W-EXPIRE: writes out as a negative tuple what leaves by itself (Pipelines §3.2), for `EMIT CHANGES`.

    in     +a [1, 4)                 out    +a at 1, -a at 4
    in     +b [2, 9)  -b at 5        out    +b at 2, -b at 5

A tuple that is taken back is kept with what takes it back, in a trace, until both expire: then they cancel out. State:
the tuples that have not expired, at most about twice the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, ID_PREFIX, NEVER, OP, TS, concat, int64_column, signs, with_columns
from sash.store.key_index import KeyIndex
from sash.store.trace import Trace
from sash.store.vector import Arena, Memory


@dataclass(frozen=True, slots=True)
class ExpireSpec:
    """`window_us` is the longest life of a tuple, None if nothing bounds it."""

    window_us: int | None


class Expire(Traced):
    """Runs an `ExpireSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_trace",)

    def __init__(self, spec: ExpireSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input
        ids = [name for name in input.names if name.startswith(ID_PREFIX)]
        names = [*(ids or (name for name in input.names if name not in (TS, OP, EXPIRES))), EXPIRES]
        self._identity = pa.schema([input.field(name) for name in names])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._trace = Trace(self.schema, self.spec.window_us, False, arena, self._identity)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        expires = int64_column(batch, EXPIRES) < NEVER
        due = self._trace.expire(batch if expires.all() else batch.filter(pa.array(expires)), clock)
        self._trace.evict()
        gone = due.take(pa.array(self._left_over(due)))
        times, negative = int64_column(gone, EXPIRES), np.full(gone.num_rows, -1, np.int8)
        return concat([batch, with_columns(gone, **{TS: times, OP: negative}).cast(self.schema)])

    def traces(self) -> dict[str, Trace]:
        return {"living": self._trace}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._trace.restore(entries["living"], registers["living"], registers["clock"], _no_ids)

    def _left_over(self, due: pa.Table) -> np.ndarray:
        """Of tuples that expire, those that have not been taken back.

        All that live with one identity are equal, so those that are left are as the last that came.
        """
        ops = signs(due)
        if np.all(ops > 0):
            return np.arange(due.num_rows)
        alike = KeyIndex(self._identity).encode(due.select(self._identity.names))
        n_left = np.bincount(alike, ops).astype(np.int64)
        assert n_left.min() >= 0, "a tuple is taken back that is not there"
        positive = np.flatnonzero(ops > 0)
        newest_first = positive[np.lexsort((-int64_column(due, TS)[positive], alike[positive]))]
        kinds = alike[newest_first]
        place_in_kind = np.arange(len(kinds)) - np.searchsorted(kinds, kinds)
        return np.sort(newest_first[place_in_kind < n_left[kinds]])


def _no_ids(tuples: pa.Table) -> np.ndarray:
    """Nothing is asked by key."""
    return np.zeros(tuples.num_rows, np.int64)
