"""Join of a stream with a relation: the relation is there for ever, so the stream's tuples keep their lives.

    Law: (t, r) is in the answer at T iff t is in its window at T and the condition holds for t and r.

State: none beyond the relation, which is in memory, indexed by key, and never changes: all partition groups look it up.
Positive and negative tuples look up alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.index.lookup_index import LookupIndex
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.operator import Stateless, TimeKeeping
from sash.store.keys import encode_keys
from sash.store.rows import Rows
from sash.store.vector import Memory


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
        self._stream_keys, own_keys = (tuple(pair[side] for pair in spec.keys) for side in (0, 1))
        self._check = join_keys.pair_condition(spec.keys, spec.residual, stream)
        relation = join_keys.without_null_keys(relation, own_keys).combine_chunks()
        self._relation = Rows(relation.schema, Memory())
        self._relation.append(relation)
        self._index = LookupIndex(encode_keys(relation, own_keys))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        batch = join_keys.without_null_keys(batch, self._stream_keys)
        keys = encode_keys(batch, self._stream_keys)
        found = [self._form(batch, at, rows) for at, rows in self._index.find(keys)]
        return pa.concat_tables(found).combine_chunks() if found else self.schema.empty_table()

    def _form(self, batch: pa.Table, at: np.ndarray, rows: np.ndarray) -> pa.Table:
        pairs = batch.take(pa.array(at))
        relation = self._relation.take(rows)
        for name in relation.column_names:
            pairs = pairs.append_column(name, relation.column(name))
        return keep(pairs, self._check).cast(self.schema) if self._check else pairs
