"""Join of a stream with a relation: the relation is there for ever, so the stream's tuples keep their lives.

    Law: (t, r) is in the answer at T iff t is in its window at T and the condition holds for t and r.

    LEFT     beside these, t with NULLs if the condition holds for no r
    SEMI     t, once, if it holds for some r
    ANTI     t, if it holds for none

State: none beyond the relation, which is in memory, indexed by key, and never changes: all partition groups look it up.
Positive and negative tuples look up alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.index.lookup_index import LookupIndex
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.operator import Stateless, TimeKeeping
from sash.store.batch import ID_PREFIX
from sash.store.keys import encode_keys
from sash.store.rows import Rows
from sash.store.vector import Memory

INNER, OUTER, SEMI, ANTI = "INNER", "LEFT", "SEMI", "ANTI"
NO_PARTNER = -1
"""The identity of the row of a relation that is not there."""
_AT = "_at"


@dataclass(frozen=True, slots=True)
class LookupJoinSpec:
    """`keys` are pairs of a stream's and a relation's column."""

    keys: tuple[tuple[str, str], ...]
    residual: str | None
    kind: str = INNER

    def __post_init__(self) -> None:
        assert self.kind in (INNER, OUTER, SEMI, ANTI)


class LookupJoin(TimeKeeping, Stateless):
    """Runs a `LookupJoinSpec` against a relation."""

    def __init__(self, spec: LookupJoinSpec, stream: pa.Schema, relation: pa.Table):
        self.spec = spec
        self._pairs = pa.unify_schemas([stream, relation.schema])
        self.schema = self._pairs if spec.kind in (INNER, OUTER) else stream
        self._stream_keys, own_keys = (tuple(pair[side] for pair in spec.keys) for side in (0, 1))
        self._check = join_keys.pair_condition(spec.keys, spec.residual, stream)
        relation = join_keys.without_null_keys(relation, own_keys).combine_chunks()
        self._relation = Rows(relation.schema, Memory())
        self._relation.append(relation)
        self._index = LookupIndex(encode_keys(relation, own_keys))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        found = list(self._find(batch))
        if self.spec.kind == INNER:
            return _concat([pairs for pairs, _ in found], self.schema)
        has_partner = np.zeros(batch.num_rows, bool)
        for _, at in found:
            has_partner[at] = True
        if self.spec.kind != OUTER:
            return batch.filter(pa.array(has_partner if self.spec.kind == SEMI else ~has_partner))
        return self._padded(batch, found, np.flatnonzero(~has_partner))

    def _find(self, batch: pa.Table) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Pairs that satisfy the condition, and which tuples of the batch they are of."""
        numbers = pa.array(np.arange(batch.num_rows))
        batch = join_keys.without_null_keys(batch.append_column(_AT, numbers), self._stream_keys)
        for at, rows in self._index.find(encode_keys(batch, self._stream_keys)):
            pairs = self._form(batch, at, rows)
            yield pairs.select(self._pairs.names).cast(self._pairs), pairs.column(_AT).to_numpy()

    def _form(self, batch: pa.Table, at: np.ndarray, rows: np.ndarray) -> pa.Table:
        pairs = batch.take(pa.array(at))
        relation = self._relation.take(rows)
        for name in relation.column_names:
            pairs = pairs.append_column(name, relation.column(name))
        return keep(pairs, self._check) if self._check else pairs

    def _padded(self, batch: pa.Table, found: Sequence[tuple[pa.Table, np.ndarray]], alone: np.ndarray) -> pa.Table:
        """The pairs and the tuples without a partner, in the order of the batch."""
        rows = batch.take(pa.array(alone))
        for field in self.schema:
            if field.name not in rows.column_names:
                is_id = field.name.startswith(ID_PREFIX)
                nothing = pa.array(np.full(len(alone), NO_PARTNER)) if is_id else pa.nulls(len(alone), field.type)
                rows = rows.append_column(field.name, nothing)
        answer = _concat(
            [*(pairs for pairs, _ in found), rows.select(self.schema.names).cast(self.schema)], self.schema
        )
        places = np.concatenate([*(at for _, at in found), alone])
        return answer.take(pa.array(np.argsort(places, kind="stable")))


def _concat(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()
