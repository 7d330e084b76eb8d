"""Join of a stream with a relation: the relation is there for ever, so the stream's tuples keep their lives.

    Law: (t, r) is in the answer at T iff t is in its window at T and the condition holds for t and r.

With a period, r must be valid at the time of t: `start <= t.time < end`, where a NULL is no bound. Whatever time T has
become, t keeps the row that was valid when it came:

    r1, r2       |-- r1: 3.50 --|------- r2: 3.80 ------
    t                      |----------- t --------|
    (t, r1)                |======================|

State: none beyond the relation, which is in memory, indexed by key, and never changes: all partition groups look it up.
Positive and negative tuples look up alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.index.lookup_index import LookupIndex, Spans
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.operator import Stateless, TimeKeeping
from sash.store.keys import encode_keys
from sash.store.rows import Rows
from sash.store.vector import Memory

_FROM_EVER, _FOR_EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class ValidPeriod:
    """When rows of a relation are valid, by columns of its own, and the stream's column of the time that counts.

    All three are timestamps in microseconds, or all three integers.
    """

    time: str
    start: str
    end: str

    def __str__(self) -> str:
        return f"{self.start} <= {self.time} < {self.end}"


@dataclass(frozen=True, slots=True)
class LookupJoinSpec:
    """`keys` are pairs of a stream's and a relation's column."""

    keys: tuple[tuple[str, str], ...]
    residual: str | None
    period: ValidPeriod | None = None


class LookupJoin(TimeKeeping, Stateless):
    """Runs a `LookupJoinSpec` against a relation."""

    def __init__(self, spec: LookupJoinSpec, stream: pa.Schema, relation: pa.Table):
        self.spec = spec
        self.schema = pa.unify_schemas([stream, relation.schema])
        self._stream_keys, own_keys = (tuple(pair[side] for pair in spec.keys) for side in (0, 1))
        self._check = join_keys.pair_condition(spec.keys, spec.residual, stream)
        relation = join_keys.without_null_keys(relation, own_keys).combine_chunks()
        self._relation = Rows(relation.schema, Memory())
        self._relation.append(relation)
        self._index = LookupIndex(encode_keys(relation, own_keys), _spans(relation, spec.period))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        batch = join_keys.without_null_keys(batch, self._stream_keys)
        keys = encode_keys(batch, self._stream_keys)
        times = None if self.spec.period is None else _microseconds(batch.column(self.spec.period.time), _FROM_EVER)
        found = [self._form(batch, at, rows) for at, rows in self._index.find(keys, times)]
        return pa.concat_tables(found).combine_chunks() if found else self.schema.empty_table()

    def _form(self, batch: pa.Table, at: np.ndarray, rows: np.ndarray) -> pa.Table:
        pairs = batch.take(pa.array(at))
        relation = self._relation.take(rows)
        for name in relation.column_names:
            pairs = pairs.append_column(name, relation.column(name))
        return keep(pairs, self._check).cast(self.schema) if self._check else pairs


def _spans(relation: pa.Table, period: ValidPeriod | None) -> Spans | None:
    if period is None:
        return None
    return Spans(
        _microseconds(relation.column(period.start), _FROM_EVER), _microseconds(relation.column(period.end), _FOR_EVER)
    )


def _microseconds(column: pa.ChunkedArray, missing: int) -> np.ndarray:
    """Times as integers; where there is none, what is given for it."""
    return column.cast(pa.int64()).fill_null(missing).to_numpy()
