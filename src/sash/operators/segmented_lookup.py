"""Looking up in a relation that is in a file: the methods of Exact, ch. 6, with a step in the place of the wait buffer.

    partitioned_hash, partitioned_range   who waits for a segment that is not in memory shares its read, those with most
                                          tuples first; what is kept follows from the arrivals, by (6.1) and (6.2)
    mesh                                  all segments go past the step, one after the other, from where the last one
                                          ended
    inl                                   every key is searched in the file, which is mapped, in order of keys

Law: what is found is what is in the relation, as if all of it were in memory. Nothing waits from step to step, so what
is above may rely on the clock.

State: none. What is in memory of a relation is a copy of what is in the file, and the arrival frequencies are a guess.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from sash.papers.exact.hash_partitions import HashPartitions
from sash.papers.exact.join_memory import choose_victim
from sash.papers.exact.slot_array import SlotArray, make_slot_array
from sash.store.batch import int64_column
from sash.store.memory_budget import MemoryBudget
from sash.store.relation_file import KEY_COLUMN, ROW_COLUMN, RelationFile

REPLICATED, PARTITIONED_HASH, PARTITIONED_RANGE, MESH, INL = (
    "replicated", "partitioned_hash", "partitioned_range", "mesh", "inl",
)  # fmt: skip
SEGMENT_BYTES = 1 << 20
"""The least size of a range segment, and that of a segment of MESHJOIN, as in the thesis; less if memory is small."""
SHARE_OF_CACHE = 4
"""One part in so many of what is for state is for segments, of which one is read at a time."""
RHO, ALPHA, EPOCH = 0.25, 0.3, 10_000
"""Of Table 6.2; τ is a choice."""

Found = tuple[np.ndarray, pa.Table]
"""Places among the keys that were looked up, and for each the row of the relation, with its number."""


class SegmentedLookup:
    """A relation by key, in a file."""

    def __init__(self, method: str, relation: pa.Table, keys: np.ndarray, budget: MemoryBudget | None):
        """Without a budget everything that is read stays in memory; the file is where the system has temporary ones."""
        self._method = method
        self._limit = None if budget is None else budget.state_bytes // SHARE_OF_CACHE
        self._cached: dict[int, pa.Table] = {}
        self._next_read = self._in_epoch = 0
        self.file = RelationFile(Path(tempfile.gettempdir()) if budget is None else budget.spill)
        self._partitions = self._cut(relation, keys)
        self._frequencies = np.zeros(len(self.file))
        if budget is not None:
            budget.count(self)

    @property
    def n_bytes(self) -> int:
        """What of the relation is in memory between steps."""
        return sum(int(self.file.sizes[each]) for each in self._cached)

    def find(self, keys: np.ndarray) -> Iterator[Found]:
        """All rows with equal keys, a segment at a time."""
        if not len(keys) or not len(self.file):
            return
        if self._method == INL:
            yield _search(self.file.map(0), keys, np.arange(len(keys)))
        elif self._method == MESH:
            for _ in range(len(self.file)):
                yield _search(self.file.read(self._next_read), keys, np.arange(len(keys)))
                self._next_read = (self._next_read + 1) % len(self.file)
        else:
            yield from self._find_in_segments(keys)

    def _find_in_segments(self, keys: np.ndarray) -> Iterator[Found]:
        assert self._partitions is not None
        segments = self._partitions.segments_of(keys)
        n_waiting = np.bincount(segments[segments >= 0], minlength=len(self.file))
        self._count(n_waiting, len(keys))
        wanted = np.flatnonzero(n_waiting)
        is_away = np.array([each not in self._cached for each in wanted.tolist()], bool)
        for segment in wanted[np.lexsort((wanted, -n_waiting[wanted], is_away))].tolist():
            table = self._cached.get(segment)
            if table is None:
                table = self.file.read(segment)
                self._admit(segment, table)
            places = np.flatnonzero(segments == segment)
            yield _search(table, keys[places], places)

    def _count(self, n_arrived: np.ndarray, n_keys: int) -> None:
        """F6.2, with epochs that end with a step: as many decays as there were epochs."""
        self._frequencies += n_arrived
        n_epochs, self._in_epoch = divmod(self._in_epoch + n_keys, EPOCH)
        self._frequencies *= ALPHA**n_epochs

    def _admit(self, segment: int, table: pa.Table) -> None:
        """Keeps a segment that was read, if there is room, or if it is worth more than another one."""
        sizes = self.file.sizes
        if self._limit is not None:
            n_free = self._limit - self.n_bytes
            if n_free < sizes[segment]:
                residents = np.array(sorted(self._cached), np.int64)
                victim = choose_victim(segment, residents, self._frequencies, sizes, (n_free, RHO))
                if victim is None:
                    return
                del self._cached[victim]
        self._cached[segment] = table

    def _cut(self, relation: pa.Table, keys: np.ndarray) -> HashPartitions | SlotArray | None:
        """Writes the segments; what says which of them a key is in, where that is asked."""
        n_bytes = SEGMENT_BYTES if self._limit is None else max(1, min(SEGMENT_BYTES, self._limit // 4))
        n_segments = max(1, -(-relation.nbytes // n_bytes))
        theta = max(1, -(-relation.num_rows // n_segments))
        if self._method == INL:
            self.file.append(relation, keys, np.arange(len(keys)))
            return None
        if self._method == MESH:
            for first in range(0, len(keys), theta):
                self.file.append(relation, keys, np.arange(first, min(first + theta, len(keys))))
            return None
        is_hash = self._method == PARTITIONED_HASH
        partitions = HashPartitions(n_segments) if is_hash else make_slot_array(keys, theta, max_levels=20)
        segments = partitions.segments_of(keys)
        for segment in range(partitions.n_parts):
            self.file.append(relation, keys, np.flatnonzero(segments == segment))
        return partitions


def _search(table: pa.Table, keys: np.ndarray, places: np.ndarray) -> Found:
    """Rows of a segment, in order of keys, that have one of these keys."""
    own = int64_column(table, KEY_COLUMN)
    firsts, lasts = np.searchsorted(own, keys, "left"), np.searchsorted(own, keys, "right")
    n_each = lasts - firsts
    starts = np.cumsum(n_each) - n_each
    found = np.repeat(places, n_each)
    rows = np.arange(len(found)) - np.repeat(starts - firsts, n_each)
    return found, table.take(pa.array(rows)).drop_columns([KEY_COLUMN])


def in_order(found: list[Found]) -> Found | None:
    """All that was found in order of the places, and of the rows of the relation: as if it had been one index."""
    if not found:
        return None
    places = np.concatenate([each[0] for each in found])
    table = pa.concat_tables([each[1] for each in found])
    order = np.lexsort((int64_column(table, ROW_COLUMN), places))
    return places[order], table.take(pa.array(order)).drop_columns([ROW_COLUMN])
