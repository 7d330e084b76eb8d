"""Rows by number, in their order, and which of each partition are shown: what both operators of top-k share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels import top_k_runs as kernel
from sash.kernels.rank_classes import RankBounds
from sash.operators.accumulators.manner import SortKey
from sash.operators.row_order import RowOrder
from sash.store.group_array import GroupArray
from sash.store.ordered_multiset import OrderedMultiset
from sash.store.vector import Arena, Vector

CHANGES_PER_CALL = 1 << 12


class ShownRows:
    """Rows 0, 1, … of the partitions 0, 1, …; none is there before it has come by `follow`."""

    def __init__(self, cut: RankBounds, order: tuple[tuple[str, SortKey], ...], ties: tuple[str, ...], arena: Arena):
        """Rows are ordered by `order`, and those that it leaves equal by `ties`: no two may be equal in both."""
        self._cut = cut
        self._order = RowOrder(order, ties, arena)
        self._owners, self._counts = Vector(np.int64, arena), Vector(np.int64, arena)
        self._partitions = GroupArray(np.int64, arena, (kernel.PARTITION_WIDTH,))
        self._members = OrderedMultiset(arena)

    @property
    def n_rows(self) -> int:
        """Rows that have a number."""
        return self._order.n_rows

    @property
    def owners(self) -> np.ndarray:
        """The partition of every row."""
        return self._owners.array[: self.n_rows]

    @property
    def order(self) -> RowOrder:
        return self._order

    def append(self, rows: pa.Table, owners: np.ndarray, n_partitions: int) -> None:
        """Gives the next numbers to rows of some partitions, of which there are so many now."""
        first = self.n_rows
        self._order.append(rows)
        self._owners.write(first, owners)
        self._counts.write(first, np.zeros(len(owners), np.int64))
        self._partitions.reserve(n_partitions)
        self._members.reserve(n_partitions, len(owners))

    def follow(self, events: kernel.RankEvents) -> kernel.RankChanges:
        """Lets rows come and go; what is shown otherwise after each run than before it."""
        n_rows, found = self.n_rows, list[np.ndarray]()
        ranked = kernel.RankedRows(
            self.owners, self._counts.array[:n_rows], self._order.key_lengths, self._partitions.array
        )
        treaps, first, room = self._members.treaps(self._order.words), 0, CHANGES_PER_CALL
        while first < len(events.rows):
            run, row = np.empty((2, room), np.int64)
            out = kernel.RankChanges(run, row, np.empty(room, np.int8))
            following, n_out = kernel.follow(first, events, self._cut, ranked, treaps, out)
            if n_out:
                found.append(np.stack([each[:n_out].astype(np.int64) for each in out]))
            room = room if following > first else 2 * room
            first = following
        return _summed(*np.concatenate([np.empty((3, 0), np.int64), *found], axis=1))

    def are_there(self) -> np.ndarray:
        """Which rows have come, and not gone."""
        return self._counts.array[: self.n_rows] > 0

    def are_needed(self) -> np.ndarray:
        """Which rows are there, or say where what is in order ends."""
        is_alive = self.are_there()
        bounds = self._partitions.array[:, kernel.BOUND]
        is_alive[bounds[bounds > 0] - 1] = True
        return is_alive

    def compact(self, is_alive: np.ndarray, mapping: np.ndarray) -> None:
        """Renumbers rows: the new number by the old one. Those that are needed must stay, in their order."""
        n_rows, bounds = self.n_rows, self._partitions.array[:, kernel.BOUND]
        bounds[:] = np.where(bounds > 0, mapping[bounds - 1] + 1, 0)
        for vector in (self._owners, self._counts):
            vector.write(0, vector.array[:n_rows][is_alive])
        self._order.compact(is_alive)
        self._members.renumber(mapping)

    def compact_partitions(self, mapping: np.ndarray) -> None:
        """Renumbers partitions: the new number by the old one, -1 for one that no row has."""
        owners = self.owners
        owners[:] = mapping[owners]
        self._partitions.compact(mapping)
        self._members.compact(mapping)


def _summed(run: np.ndarray, row: np.ndarray, sign: np.ndarray) -> kernel.RankChanges:
    """Changes that take each other back within a run are none."""
    if not len(run):
        return kernel.RankChanges(run, row, sign.astype(np.int8))
    order = np.lexsort((row, run))
    run, row, sign = run[order], row[order], sign[order]
    starts = np.flatnonzero(np.r_[True, (run[1:] != run[:-1]) | (row[1:] != row[:-1])])
    total = np.add.reduceat(sign, starts)
    places = np.repeat(starts, np.abs(total))
    signs = np.repeat(np.sign(total).astype(np.int8), np.abs(total))
    return kernel.RankChanges(run[places], row[places], signs)
