"""Join of a stream with a relation: the relation is there for ever, so the stream's tuples keep their lives.

    Law: (t, r) is in the answer at T iff t is in its window at T and the condition holds for t and r.

State: none beyond the relation, which is in memory, indexed by key. Positive and negative tuples look up alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.index.window_buffer import WindowBuffer
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.operator import Stateless, TimeKeeping
from sash.store.batch import BEGINNING, NEVER, arrive
from sash.store.keys import encode_keys


@dataclass(frozen=True, slots=True)
class LookupJoinSpec:
    """`keys` are pairs of a stream's and a relation's column."""

    keys: tuple[tuple[str, str], ...]
    residual: str | None


class LookupJoin(TimeKeeping, Stateless):
    """Runs a `LookupJoinSpec` against a relation."""

    def __init__(self, spec: LookupJoinSpec, stream: pa.Schema, relation: pa.Table):
        self.spec = spec
        self.schema = pa.unify_schemas([stream, relation.schema])
        self._relation = relation
        self._stream_keys = tuple(pair[0] for pair in spec.keys)
        self._check = join_keys.pair_condition(spec.keys, spec.residual, stream)
        self._buffer = _index_relation(relation, tuple(pair[1] for pair in spec.keys))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        batch = join_keys.without_null_keys(batch, self._stream_keys)
        found = [self._form(batch, at, rows) for at, rows in self._matches(batch)]
        return pa.concat_tables(found).combine_chunks() if found else self.schema.empty_table()

    def _matches(self, batch: pa.Table):
        keys = encode_keys(batch, self._stream_keys)
        always = np.full(batch.num_rows, NEVER)
        return self._buffer.probe(keys, np.full(batch.num_rows, BEGINNING), always)

    def _form(self, batch: pa.Table, at: np.ndarray, rows: np.ndarray) -> pa.Table:
        pairs = batch.take(pa.array(at))
        relation = self._buffer.log.rows.take(rows)
        for name in self._relation.column_names:
            pairs = pairs.append_column(name, relation.column(name))
        return keep(pairs, self._check).cast(self.schema) if self._check else pairs


def _index_relation(relation: pa.Table, keys: tuple[str, ...]) -> WindowBuffer:
    relation = join_keys.without_null_keys(relation, keys)
    n_rows = relation.num_rows
    tuples = arrive(relation, np.full(n_rows, BEGINNING), np.full(n_rows, NEVER))
    buffer = WindowBuffer(tuples.schema, lambda batch: encode_keys(batch, keys), None, n_buckets=None if keys else 1)
    buffer.insert(tuples, BEGINNING)
    return buffer
