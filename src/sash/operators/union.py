"""W-UNION ALL: the tuples of both inputs (Pipelines §4.3). No state; UNION is this under a Distinct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.operators.operator import Stateless
from sash.store.batch import ID_PREFIX, SIGNED_FIELDS, ColumnLike, concat

NOT_OF_THIS_SIDE = -1


@dataclass(frozen=True, slots=True)
class UnionSpec:
    """`columns` are the same on both sides; the identities of each side get columns of their own."""

    columns: tuple[str, ...]
    left_ids: tuple[str, ...] = ()
    right_ids: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The identities of the union's tuples."""
        return tuple(
            f"{ID_PREFIX}{side}.{name.removeprefix(ID_PREFIX)}"
            for side, names in enumerate((self.left_ids, self.right_ids))
            for name in names
        )


class Union(Stateless):
    """Runs a `UnionSpec`."""

    def __init__(self, spec: UnionSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        assert all(left.field(name).type == right.field(name).type for name in spec.columns)
        ids = [pa.field(name, pa.int64()) for name in spec.ids]
        self.schema = pa.schema([*(left.field(name) for name in spec.columns), *ids, *SIGNED_FIELDS])

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        return concat([self._conform(side, batch) for side, batch in enumerate(inputs)])

    def _conform(self, side: int, batch: pa.Table) -> pa.Table:
        own = [*self.spec.left_ids, *self.spec.right_ids]
        n_left = len(self.spec.left_ids)
        arrays: list[ColumnLike] = []
        for field in self.schema:
            if field.name not in self.spec.ids:
                arrays.append(batch.column(field.name))
                continue
            place = self.spec.ids.index(field.name)
            is_own = (place >= n_left) == bool(side)
            arrays.append(batch.column(own[place]) if is_own else np.full(batch.num_rows, NOT_OF_THIS_SIDE))
        return pa.table(arrays, schema=self.schema)
