"""Rows in partitions, in order: by number, with what tells where each of them belongs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.kernels.treaps import Treaps
from sash.operators.accumulators.manner import SortKey
from sash.operators.keyed import Keys
from sash.operators.row_order import RowOrder
from sash.store.key_index import KeyIndex
from sash.store.ordered_multiset import OrderedMultiset
from sash.store.vector import Arena, Vector


class OrderedPartitions:
    """The members of partitions as trees. Rows get their numbers from `keys`; without columns there is one partition.

    Rows are ordered by `order`, and those of one class by `ties`.
    """

    def __init__(
        self,
        columns: pa.Schema,
        order: tuple[tuple[str, SortKey], ...],
        ties: Sequence[str],
        arena: Arena,
    ):
        """`columns` are those that rows are partitioned by."""
        self._names = columns.names
        self._order = RowOrder(order, tuple(ties), arena)
        self._index = KeyIndex(columns, arena)
        self._owners, self._counts = Vector(np.int64, arena), Vector(np.int64, arena)
        self._members = OrderedMultiset(arena)

    @property
    def n_partitions(self) -> int:
        """Partitions are numbers below this."""
        return self._index.n_ids if self._names else 1

    @property
    def owners(self) -> np.ndarray:
        """The partition of each row."""
        return self._owners.array[: self._order.n_rows]

    @property
    def counts(self) -> np.ndarray:
        """How often each row is there."""
        return self._counts.array[: self._order.n_rows]

    @property
    def key_lengths(self) -> np.ndarray:
        """How many bytes of each row's string tell its class."""
        return self._order.key_lengths

    @property
    def treaps(self) -> Treaps:
        """For the kernels. Not to be kept over `meet`."""
        return self._members.treaps(self._order.words)

    def meet(self, keys: Keys) -> None:
        """Finds out of rows that have a number since the last call where they belong."""
        n_known, n_rows = self._order.n_rows, keys.n_ids
        if n_known == n_rows:
            return
        rows = pa.table(keys.take(np.arange(n_known, n_rows)))
        self._order.append(rows)
        owners = np.zeros(n_rows - n_known, np.int64)
        if self._names:
            owners = self._index.encode(rows.select(self._names))
        self._owners.write(n_known, owners)
        self._counts.write(n_known, np.zeros(n_rows - n_known, np.int64))
        self._members.reserve(self.n_partitions, n_rows - n_known)

    def forget(self, mapping: np.ndarray) -> np.ndarray | None:
        """Takes on new numbers of rows, by the old ones, -1 for those that are gone. Then numbers partitions anew, and
        returns likewise which they have; None if there is but one.
        """
        is_alive = mapping >= 0
        n_rows = len(is_alive)
        for vector in (self._owners, self._counts):
            vector.write(0, vector.array[:n_rows][is_alive])
        self._order.compact(is_alive)
        self._members.renumber(mapping)
        if not self._names:
            return None
        owners = self.owners
        is_owner = np.zeros(self._index.n_ids, np.bool_)
        is_owner[owners] = True
        numbers = self._index.compact(is_owner)
        owners[:] = numbers[owners]
        self._members.compact(numbers)
        return numbers
