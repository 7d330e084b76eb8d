"""W-UNION ALL: the tuples of both inputs (Pipelines §4.3). No state; UNION is this under a Distinct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from sash.operators.operator import Stateless
from sash.store.batch import EXPIRES, ID_PREFIX, SIGNED_FIELDS, ColumnLike, concat

SIDE = f"{ID_PREFIX}of"
NO_IDENTITY = -1
"""Where the other side has one more."""


@dataclass(frozen=True, slots=True)
class UnionSpec:
    """`columns` are the same on both sides. The identities of either side share columns, beside one that says which
    side it is: of unions of unions, and of joins of them, tuples get wider by a column each.
    """

    columns: tuple[str, ...]
    left_ids: tuple[str, ...] = ()
    right_ids: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The identities of the union's tuples."""
        return (SIDE, *(new for new, *_ in self.id_sources)) if self.left_ids or self.right_ids else ()

    @property
    def id_sources(self) -> list[tuple[str, str | None, str | None]]:
        """Columns of identities beside that of the side, and which one of either side is in each: numbers with numbers,
        and times with times, which are the same in all groups.
        """
        return [source for are_times in (False, True) for source in self._sources_of(are_times)]

    def _sources_of(self, are_times: bool) -> Iterator[tuple[str, str | None, str | None]]:
        left, right = (
            [name for name in ids if name.endswith(EXPIRES) == are_times] for ids in (self.left_ids, self.right_ids)
        )
        for name, one, other in zip_longest(max(left, right, key=len), left, right):
            yield f"{SIDE}.{name.removeprefix(ID_PREFIX)}", one, other


class Union(Stateless):
    """Runs a `UnionSpec`."""

    def __init__(self, spec: UnionSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        assert all(left.field(name).type == right.field(name).type for name in spec.columns)
        ids = [pa.field(name, pa.int64()) for name in spec.ids]
        self.schema = pa.schema([*(left.field(name) for name in spec.columns), *ids, *SIGNED_FIELDS])
        self._sources = [{new: olds[side] for new, *olds in spec.id_sources} for side in (0, 1)]

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        return concat([self._conform(side, batch) for side, batch in enumerate(inputs)])

    def _conform(self, side: int, batch: pa.Table) -> pa.Table:
        arrays = [self._column(field.name, side, batch) for field in self.schema]
        return pa.table(arrays, schema=self.schema)

    def _column(self, name: str, side: int, batch: pa.Table) -> ColumnLike:
        sources = self._sources[side]
        if name == SIDE and self.spec.ids:
            return np.full(batch.num_rows, side)
        source = sources.get(name, name)
        return np.full(batch.num_rows, NO_IDENTITY) if source is None else batch.column(source)
