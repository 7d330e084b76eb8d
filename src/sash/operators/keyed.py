"""What operators share that keep a trace by key: the keys' dense ids, and identities that survive a restart.

Dense ids number the keys that are there, and change when many have gone. Where tuples that an operator puts out may be
taken back from a join above, they carry the *identity* of their key, a number that it keeps as long as it is there: it
stands in the log with every tuple.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.store.batch import int64_column, with_columns
from sash.store.key_index import KeyIndex
from sash.store.vector import Arena, Vector

IDENTITY = "_key"
MIN_DEAD = 1024


class Keys:
    """The keys of a trace's tuples."""

    def __init__(self, schema: pa.Schema, has_identity: bool, arena: Arena):
        self.index = KeyIndex(schema, arena)
        self.names = schema.names
        self._has_identity = has_identity
        self._identities = Vector(np.int64, arena)
        self.next_identity = 0

    @property
    def n_ids(self) -> int:
        """Ids are below this. Without key columns there is one key, 0, which is always there."""
        return self.index.n_ids if self.names else 1

    def encode(self, tuples: pa.Table) -> np.ndarray:
        """The dense ids of tuples; new keys get an identity."""
        if not self.names:
            return np.zeros(tuples.num_rows, np.int64)
        n_known = self.index.n_ids
        ids = self.index.encode(tuples.select(self.names))
        n_new = self.index.n_ids - n_known
        if n_new and self._has_identity:
            self._identities.write(n_known, np.arange(self.next_identity, self.next_identity + n_new))
            self.next_identity += n_new
        return ids

    def recall(self, tuples: pa.Table) -> np.ndarray:
        """The dense ids of tuples that come from the log, with the identities that they had."""
        if not self.names:
            return np.zeros(tuples.num_rows, np.int64)
        ids = self.index.encode(tuples.select(self.names))
        if self._has_identity:
            self._identities.reserve(self.index.n_ids)
            self._identities.array[ids] = int64_column(tuples, IDENTITY)
        return ids

    def identify(self, tuples: pa.Table, ids: np.ndarray) -> pa.Table:
        """The tuples as they go into the log."""
        return with_columns(tuples, **{IDENTITY: self.identities(ids)}) if self._has_identity else tuples

    def identities(self, ids: np.ndarray) -> np.ndarray:
        return self._identities.array[ids] if self.names else np.zeros(len(ids), np.int64)

    def take(self, ids: np.ndarray) -> dict[str, pa.ChunkedArray]:
        """The key columns of ids."""
        if not self.names:
            return {}
        keys = self.index.take(ids)
        return dict(zip(keys.column_names, keys.columns, strict=True))

    def forget(self) -> None:
        """Forgets all keys; identities go on from where they were."""
        self.index.reset()

    def compact(self, is_alive: np.ndarray) -> np.ndarray | None:
        """Once most keys have gone, numbers those that are left anew; returns the new ids by the old ones."""
        if not self.names:
            return None
        n_dead = len(is_alive) - np.count_nonzero(is_alive)
        if n_dead <= MIN_DEAD or 2 * n_dead <= len(is_alive):
            return None
        mapping = self.index.compact(is_alive)
        if self._has_identity:
            kept = self._identities.array[: len(is_alive)][is_alive]
            self._identities.write(0, kept)
        return mapping


def with_identity(schema: pa.Schema, has_identity: bool) -> pa.Schema:
    """The schema of a log whose tuples know the identity of their key."""
    return schema.append(pa.field(IDENTITY, pa.int64())) if has_identity else schema
