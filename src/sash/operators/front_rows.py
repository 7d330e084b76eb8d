"""The rows of groups that are in front of the fence of a top-k, as numbered entries; see `operators/group_top_k.py`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.kernels.top_k_runs import RankChanges, RankEvents
from sash.operators.keyed import MIN_DEAD
from sash.operators.row_order import LeadingColumn
from sash.operators.shown_rows import ShownRows
from sash.operators.top_k import TopKSpec
from sash.store.rows import Rows
from sash.store.vector import Arena, Vector


class FrontRows:
    """Entries 0, 1, …: a row that a group has, or had; none is there before it has come by `follow`."""

    def __init__(self, spec: TopKSpec, content: pa.Schema, arena: Arena):
        # A fence must not cut through a class where classes count.
        self.leading = LeadingColumn(spec.order, spec.columns if spec.function == "row_number" else (), content)
        self.shown = ShownRows(spec.bounds, spec.order, spec.columns, arena)
        self.n_alive = 0
        self._rows = Rows(content, arena)
        self._groups, self._words = Vector(np.int64, arena), Vector(np.int64, arena)

    @property
    def n_entries(self) -> int:
        return self._rows.n_rows

    @property
    def groups(self) -> np.ndarray:
        """The group of each entry."""
        return self._groups.array[: self.n_entries]

    def append(self, rows: pa.Table, groups: np.ndarray) -> None:
        """Gives the next numbers to rows of groups."""
        if not len(groups):
            return
        self._groups.write(self.n_entries, groups)
        self._words.write(self.n_entries, self.leading.words(rows))
        self.shown.append(rows, np.zeros(len(groups), np.int64), 1)
        self._rows.append(rows)

    def follow(self, runs: np.ndarray, entries: np.ndarray, signs: np.ndarray) -> RankChanges:
        """Lets entries come and go; what is shown otherwise after each run than before it."""
        self.n_alive += int(signs.sum(dtype=np.int64))
        return self.shown.follow(RankEvents(runs, entries, signs))

    def take(self, entries: np.ndarray) -> pa.Table:
        """The content of entries."""
        return self._rows.take(entries + self._rows.base)

    def beyond(self, n_wanted: int) -> tuple[int, np.ndarray]:
        """A fence with at least so many entries in front of it, and those that are behind it."""
        alive = np.flatnonzero(self.shown.are_there())
        words = self._words.array[alive]
        fence = int(np.partition(words, n_wanted - 1)[n_wanted - 1])
        return fence, alive[words > fence]

    def compact(self) -> bool:
        """Numbers entries anew if most have gone; says whether."""
        if self.n_entries <= 2 * self.n_alive + MIN_DEAD:
            return False
        is_needed = self.shown.are_needed()
        mapping, kept = np.where(is_needed, np.cumsum(is_needed) - 1, -1), np.flatnonzero(is_needed)
        self.shown.compact(is_needed, mapping)
        for vector in (self._groups, self._words):
            vector.write(0, vector.array[kept])
        n_before, left = self._rows.next_row, self.take(kept)
        self._rows.append(left.combine_chunks())
        self._rows.drop_before(n_before)
        return True
