"""Join of a stream with a relation: the relation is there for ever, so the stream's tuples keep their lives.

    Law: (t, r) is in the answer at T iff t is in its window at T and the condition holds for t and r.

    LEFT     beside these, t with NULLs if the condition holds for no r
    SEMI     t, once, if it holds for some r
    ANTI     t, if it holds for none

With a period, the condition is also that r is valid at the time of t: `start <= t.time < end`, where a NULL is no
bound. Whatever time T has become, t keeps the row that was valid when it came:

    r1, r2       |-- r1: 3.50 --|------- r2: 3.80 ------
    t                      |----------- t --------|
    (t, r1)                |======================|

State: none beyond the relation: all partition groups look it up. It never changes, or says itself which batches see a
row, so that a tuple always finds the same. It is in memory, indexed by key, or in a file (`segmented_lookup`), as
`place_relation` decides. Positive and negative tuples look up alike, and are
answered at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sash.cost.lookup_cost import INL, REPLICATED
from sash.index.lookup_index import LookupIndex, Spans
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.operator import Stateless, TimeKeeping
from sash.operators.segmented_lookup import SegmentedRelation, in_order
from sash.store.batch import ID_PREFIX
from sash.store.keys import encode_keys
from sash.store.rows import Rows
from sash.store.vector import Memory

INNER, OUTER, SEMI, ANTI = "INNER", "LEFT", "SEMI", "ANTI"
NO_PARTNER = -1
"""The identity of the row of a relation that is not there."""
PAIRS_AT_ONCE = 1 << 13
"""With rows of a relation in a file, about so many are formed at a time where memory is limited."""
_AT = "_at"
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
    method: str = REPLICATED
    """Where the relation is: in memory, or in a file that is read by one of the methods of `segmented_lookup`."""
    period: ValidPeriod | None = None
    kind: str = INNER
    is_hinted: bool = field(default=False, repr=False)
    """Whether the method was asked for; if not, another one is chosen where there is no room in memory."""
    step_rows: float | None = field(default=None, repr=False)
    """How many tuples come at once; None if nobody knows."""

    def __post_init__(self) -> None:
        assert self.kind in (INNER, OUTER, SEMI, ANTI)


class LookupJoin(TimeKeeping, Stateless):
    """Runs a `LookupJoinSpec` against a relation."""

    def __init__(self, spec: LookupJoinSpec, stream: pa.Schema, relation: pa.Table | SegmentedRelation):
        self.spec = spec
        self._pairs = pa.unify_schemas([stream, relation.schema])
        self.schema = self._pairs if spec.kind in (INNER, OUTER) else stream
        self._stream_keys, self._own_keys = (tuple(pair[side] for pair in spec.keys) for side in (0, 1))
        self._check = join_keys.pair_condition(spec.keys, spec.residual, stream)
        self.replace(relation)

    def replace(self, relation: pa.Table | SegmentedRelation) -> None:
        """Looks up in another relation from now on, with the same columns."""
        self._segmented: SegmentedRelation | None = None
        if not isinstance(relation, pa.Table):
            self._segmented = relation
            self._relation = self._index = None
            return
        relation = join_keys.without_null_keys(relation, self._own_keys).combine_chunks()
        self._relation = Rows(relation.schema, Memory())
        self._relation.append(relation)
        self._index = LookupIndex(encode_keys(relation, self._own_keys), _spans(relation, self.spec.period))

    @property
    def n_file_bytes(self) -> int:
        """What may have to be read of the relation, if it is in a file, for a step with however few tuples."""
        if self._segmented is None or self.spec.method == INL:
            return 0
        return int(self._segmented.open().sizes.sum())

    def parts(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        """What `process` returns; pairs with a relation in a file as its segments are read, in no order."""
        (batch,) = inputs
        if self._segmented is None or self.spec.kind in (SEMI, ANTI):
            yield self.process(inputs, clock)
            return
        has_partner = np.zeros(batch.num_rows, bool)
        for pairs, at in self._pairs_of(batch, PAIRS_AT_ONCE):
            has_partner[at] = True
            yield pairs
        if self.spec.kind == OUTER:
            yield self._padded(batch, [], np.flatnonzero(~has_partner))

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        if self.spec.kind in (SEMI, ANTI):
            has_partner = _note_partners(batch, (at for _, at in self._pairs_of(batch, PAIRS_AT_ONCE)))
            return batch.filter(pa.array(has_partner if self.spec.kind == SEMI else ~has_partner))
        found = list(self._pairs_of(batch))
        if self.spec.kind == INNER:
            return _concat([pairs for pairs, _ in found], self.schema)
        has_partner = _note_partners(batch, (at for _, at in found))
        return self._padded(batch, found, np.flatnonzero(~has_partner))

    def _pairs_of(self, batch: pa.Table, n_at_once: int | None = None) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Pairs that satisfy the condition, and which tuples of the batch they are of. From a file, all in order of the
        tuples, or about so many at once.
        """
        numbers = pa.array(np.arange(batch.num_rows))
        batch = join_keys.without_null_keys(batch.append_column(_AT, numbers), self._stream_keys)
        period = self.spec.period
        times = None if period is None else _microseconds(batch.column(period.time), _FROM_EVER)
        for at, rows in self._find(encode_keys(batch, self._stream_keys), times, n_at_once):
            pairs = self._form(batch, at, rows)
            yield pairs.select(self._pairs.names).cast(self._pairs), pairs.column(_AT).to_numpy()

    def _find(
        self, keys: np.ndarray, times: np.ndarray | None, n_at_once: int | None
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Places among the keys, and the row of the relation for each, valid at the time of that place."""
        if self._segmented is None:
            assert self._index is not None
            assert self._relation is not None
            for at, rows in self._index.find(keys, times):
                yield at, self._relation.take(rows)
            return
        for at, found in in_order(self._segmented.open().find(keys), n_at_once):
            rows = found.rename_columns(self._segmented.schema.names)
            yield (at, rows) if times is None else self._valid(at, rows, times)

    def _valid(self, at: np.ndarray, rows: pa.Table, times: np.ndarray) -> tuple[np.ndarray, pa.Table]:
        spans = _spans(rows, self.spec.period)
        assert spans is not None
        is_valid = (spans.begins <= times[at]) & (times[at] < spans.ends)
        return at[is_valid], rows.filter(pa.array(is_valid))

    def _form(self, batch: pa.Table, at: np.ndarray, relation: pa.Table) -> pa.Table:
        pairs = batch.take(pa.array(at))
        for name in relation.column_names:
            pairs = pairs.append_column(name, relation.column(name))
        return keep(pairs, self._check) if self._check else pairs

    def _padded(self, batch: pa.Table, found: Sequence[tuple[pa.Table, np.ndarray]], alone: np.ndarray) -> pa.Table:
        """The pairs and the tuples without a partner, in the order of the batch."""
        rows = batch.take(pa.array(alone))
        for each in self.schema:
            if each.name not in rows.column_names:
                is_id = each.name.startswith(ID_PREFIX)
                nothing = pa.array(np.full(len(alone), NO_PARTNER)) if is_id else pa.nulls(len(alone), each.type)
                rows = rows.append_column(each.name, nothing)
        answer = _concat(
            [*(pairs for pairs, _ in found), rows.select(self.schema.names).cast(self.schema)], self.schema
        )
        places = np.concatenate([*(at for _, at in found), alone])
        return answer.take(pa.array(np.argsort(places, kind="stable")))


def _note_partners(batch: pa.Table, places: Iterable[np.ndarray]) -> np.ndarray:
    """Which tuples of a batch have one, of those in whose places pairs were found."""
    has_partner = np.zeros(batch.num_rows, bool)
    for at in places:
        has_partner[at] = True
    return has_partner


def _concat(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()


def _spans(relation: pa.Table, period: ValidPeriod | None) -> Spans | None:
    if period is None:
        return None
    return Spans(
        _microseconds(relation.column(period.start), _FROM_EVER), _microseconds(relation.column(period.end), _FOR_EVER)
    )


def _microseconds(column: pa.ChunkedArray, missing: int) -> np.ndarray:
    """Times as integers; where there is none, what is given for it."""
    return column.cast(pa.int64()).fill_null(missing).to_numpy()
