"""The rows of a relation that a query needs, part by part: together they may not fit into memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.operators import join_keys
from sash.store.keys import encode_keys, hash_whole_rows


@dataclass(frozen=True, slots=True)
class RelationParts:
    """They are made each time that they are asked for, in the same order."""

    schema: pa.Schema
    make: Callable[[], Iterator[pa.Table]]
    rows: pa.Table | None = None
    """All of them, if they are one part."""
    n_bytes: int = 0
    """About so much they are together."""

    @classmethod
    def of(cls, rows: pa.Table) -> RelationParts:
        """One part."""
        return cls(rows.schema, lambda: iter([rows]), rows, rows.nbytes)

    def whole(self) -> pa.Table:
        """All rows, in memory."""
        return pa.concat_tables(self.make()) if self.rows is None else self.rows

    def with_keys(self, columns: tuple[str, ...]) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """The rows that can be found, each with its key."""
        for part in self.make():
            found = join_keys.without_null_keys(part, columns).combine_chunks()
            yield found, encode_keys(found, columns)


@dataclass(frozen=True, slots=True)
class Survey:
    """What has to be known of a relation to cut it."""

    keys: np.ndarray
    """Of the rows that can be found."""
    n_rows: int
    n_bytes: int
    """Of all rows."""
    digest: str
    """Equal for relations that can be looked up in as one: of the values, the keys, and the order of rows."""


def survey(parts: RelationParts, columns: tuple[str, ...]) -> Survey:
    """Looks at every row once."""
    places = [parts.schema.get_field_index(name) for name in columns]
    digest = hashlib.sha256(str([places, *map(str, parts.schema.types)]).encode())
    keys: list[np.ndarray] = [np.empty(0, np.int64)]
    n_rows = n_bytes = 0
    for rows, own in parts.with_keys(columns):
        keys.append(own)
        n_rows, n_bytes = n_rows + rows.num_rows, n_bytes + rows.nbytes
        if rows.num_columns:
            digest.update(hash_whole_rows(rows).tobytes())
    return Survey(np.concatenate(keys), n_rows, n_bytes, digest.hexdigest())
