"""The binary window join: WHJ and WNL of Kostowski §2, W-JOIN of Pipelines §4.4, over batches of signed tuples.

    Law:  a and b join  iff  key(a) = key(b), residual(a, b), and their lives overlap: max(ts) < min(end).
          The pair lives from max(ts) to min(expires); it is taken back at min(end) if that comes before.

    A   |----a----|              window of a
    B        |-------b------|    window of b
    A⋈B      |----|              the pair (a, b)

The condition is the same whichever of the two came first, so a pair is found once: by the tuple of the later step, or
by the left one within a step. State: each input's tuples until no tuple that can still come overlaps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators import keys as join_keys
from sash.operators.choose_join import JoinChoice
from sash.operators.evaluator import keep
from sash.operators.join_cost import HASH, JoinMethod
from sash.operators.operator import Unpaced
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, SIGNED_FIELDS, TS, signs
from sash.store.block_log import BlockLog
from sash.store.keys import encode_keys
from sash.store.vector import Home, Memory
from sash.store.window_buffer import WindowBuffer

LEFT, RIGHT = 0, 1
SIGNED_NAMES = tuple(field.name for field in SIGNED_FIELDS)


@dataclass(frozen=True, slots=True)
class WindowJoinSpec:
    """`keys` are pairs of columns of equal type; `windows_us` the longest life on each side, None if rows bound it."""

    algorithm: str
    keys: tuple[tuple[str, str], ...]
    residual: str | None
    windows_us: tuple[int | None, int | None]
    is_told: bool = False
    """Whether what expires comes as a negative tuple; else a pair that expires with a member needs none."""
    method: JoinMethod = field(default=JoinMethod(HASH), repr=False, compare=False)
    choice: JoinChoice | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.algorithm in ("whj", "wnl")
        assert self.algorithm == "wnl" or self.keys


class WindowJoin(Unpaced):
    """Runs a `WindowJoinSpec`. The two sides are one code path, indexed by side."""

    STATE: ClassVar[tuple[str, ...]] = ("_buffers", "_clock")

    def __init__(self, spec: WindowJoinSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        self.schema = pa.schema([field for side in (left, right) for field in side if field.name not in SIGNED_NAMES])
        for field in SIGNED_FIELDS:
            self.schema = self.schema.append(field)
        self._key_columns = tuple(tuple(pair[side] for pair in spec.keys) for side in (LEFT, RIGHT))
        self._check = join_keys.pair_condition(spec.keys, spec.residual, left)
        self._inputs = (left, right)
        self._payload = [[name for name in side.names if name not in SIGNED_NAMES] for side in self._inputs]
        self.reset(Memory())

    def reset(self, home: Home) -> None:
        n_buckets = 1 if self.spec.algorithm == "wnl" else None
        self._buffers = [
            WindowBuffer(schema, self._key_of(side), self.spec.windows_us[side], n_buckets, home)
            for side, schema in enumerate(self._inputs)
        ]
        self._clock = BEGINNING

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        inputs = [join_keys.without_null_keys(batch, self._key_columns[side]) for side, batch in enumerate(inputs)]
        positives = [batch.filter(pa.array(signs(batch) > 0)) for batch in inputs]
        old_right = self._buffers[RIGHT].log.next_row
        old_left = self._buffers[LEFT].log.next_row
        horizon = self._horizon(clock)
        for side, batch in enumerate(positives):
            self._buffers[side].insert(batch, horizon)
        retired = [self._retire(side, batch) for side, batch in enumerate(inputs)]
        found = [
            *self._new_pairs(LEFT, old_left, NEVER),
            *self._new_pairs(RIGHT, old_right, old_left),
            *self._lost_pairs(LEFT, retired[LEFT]),
            *self._lost_pairs(RIGHT, retired[RIGHT]),
        ]
        for side, buffer in enumerate(self._buffers):
            buffer.evict(horizon, self._taken_back(side, retired[side]))
        self._clock = clock
        return pa.concat_tables(found).combine_chunks() if found else self.schema.empty_table()

    def logs(self) -> dict[str, BlockLog]:
        return {"left": self._buffers[LEFT].log, "right": self._buffers[RIGHT].log}

    def registers(self) -> dict[str, int]:
        return {"clock": self._clock, **{name: log.next_number for name, log in self.logs().items()}}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._clock = registers["clock"]
        for buffer, name in zip(self._buffers, ("left", "right"), strict=True):
            buffer.restore(entries[name], registers[name], self._horizon(self._clock))

    @property
    def n_scanned(self) -> int:
        """Bucket entries looked at so far: the work that the cost model counts."""
        return sum(buffer.n_scanned for buffer in self._buffers)

    def _horizon(self, clock: int) -> int:
        """A tuple that expires at clock + 1 meets no other any more; but if it is told to expire, it must be there."""
        return max(clock, BEGINNING + 1) - 1 if self.spec.is_told else clock

    def _key_of(self, side: int):
        return partial(encode_keys, columns=self._key_columns[side])

    def _retire(self, side: int, batch: pa.Table) -> np.ndarray:
        negatives = batch.filter(pa.array(signs(batch) < 0))
        if not negatives.num_rows:
            return np.empty(0, np.int64)
        return self._buffers[side].retire(negatives, self._key_of(side)(negatives))

    def _taken_back(self, side: int, retired: np.ndarray) -> np.ndarray:
        """Of the retired tuples those that did not just expire, which needs no note."""
        if not self.spec.is_told or not len(retired):
            return retired
        _, expires, ends = self._buffers[side].values(retired)
        return retired[ends < expires]

    def _new_pairs(self, side: int, first_new: int, other_limit: int) -> list[pa.Table]:
        """Pairs of this step's tuples of one side with the other side's rows below `other_limit`."""
        rows = np.arange(first_new, self._buffers[side].log.next_row)
        return [
            self._form(side, own, other, +1, np.maximum(own_ts, other_ts), np.minimum(own_expires, other_expires))
            for own, (own_ts, own_expires, _), other, (other_ts, other_expires, _) in self._overlaps(
                side, rows, other_limit
            )
        ]

    def _lost_pairs(self, side: int, retired: np.ndarray) -> list[pa.Table]:
        """Pairs that end because a tuple of this side was taken back; of two that end together the left one counts."""
        lost = []
        for own, (_, own_expires, own_ends), other, (_, other_expires, other_ends) in self._overlaps(
            side, retired, NEVER
        ):
            expires = np.minimum(own_expires, other_expires)
            is_first = own_ends <= other_ends if side == LEFT else own_ends < other_ends
            chosen = is_first & (own_ends <= expires if self.spec.is_told else own_ends < expires)
            if chosen.any():
                lost.append(self._form(side, own[chosen], other[chosen], -1, own_ends[chosen], expires[chosen]))
        return lost

    def _overlaps(self, side: int, rows: np.ndarray, other_limit: int):
        """Row pairs with equal keys and overlapping lives, with the values of both, in chunks."""
        if not len(rows):
            return
        own, other = self._buffers[side], self._buffers[1 - side]
        ts, _, ends = own.values(rows)
        for at, other_rows in other.probe(own.keys(rows), ts, ends, other_limit):
            own_rows = rows[at]
            yield own_rows, own.values(own_rows), other_rows, other.values(other_rows)

    def _form(
        self, side: int, own: np.ndarray, other: np.ndarray, sign: int, ts: np.ndarray, expires: np.ndarray
    ) -> pa.Table:
        """The joined tuples of row pairs, less those that the residual condition refuses."""
        rows = (own, other) if side == LEFT else (other, own)
        columns = {}
        for buffer, taken, names in zip(self._buffers, rows, self._payload, strict=True):
            payload = buffer.log.rows.take(taken, names)
            columns.update(zip(payload.column_names, payload.columns, strict=True))
        columns.update({TS: ts, EXPIRES: expires, OP: np.full(len(ts), sign, np.int8)})
        pairs = pa.table(columns)
        return keep(pairs, self._check).cast(self.schema) if self._check else pairs
