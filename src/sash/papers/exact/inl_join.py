"""The indexed nested-loop join that Exact, §6.2 argues against: every tuple of the stream asks an index on disk.

    root        │ 10 │ 40 │ 70 │           pages of `fan_out` least keys, each of a page below
    …           │ 10 │ 22 │ 31 │
    relation    │ 22 23 23 25 │           blocks in order of keys: the index is clustered

A tuple reads a page of each level, and the blocks that have its key. Pages that were used last are kept, as many as
memory holds: those of the index soon are. All others are read, each for one tuple, from anywhere on the disk. Nothing
waits, nothing is shared.

    Law: when `feed` is over, every tuple has been joined with all rows of its key, once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from sash.papers.exact.exact_kernels.block_frames import (
    COMPARED,
    CPU_US,
    INSERTED,
    KEY,
    NOW_US,
    PAIRED,
    PER_COMPARISON,
    PER_PAIR,
    PER_TUPLE,
    REMOVED,
    ROW,
    TS,
)
from sash.papers.exact.exact_kernels.relation_frames import RELATION_WIDTH
from sash.papers.exact.relation_segments import RelationRows
from sash.papers.exact.relation_settings import InlSettings
from sash.papers.exact.stream_relation_join import StreamRelationJoin
from sash.papers.exact.work_clock import FoundPairs
from sash.store.block_disk import Extent

PAIRS_AT_ONCE = 4096
Page = tuple[int, int]
"""A level of the index, 0 for the relation, and a page of it."""


class InlJoin(StreamRelationJoin[InlSettings]):
    """Every tuple asks the index."""

    def _begin(self, relation: RelationRows) -> None:
        self.n_page_reads = 0
        self._cached: OrderedDict[Page, np.ndarray] = OrderedDict()
        self._levels: list[Extent] = []
        order = np.lexsort((relation.rows, relation.keys))
        self.n_rows = len(order)
        self._write(relation.rows[order], relation.keys[order])

    def feed(self, records: np.ndarray) -> Iterator[FoundPairs]:
        """Takes in tuples (`stream_tuples`), in order of arrival; their pairs."""
        found: list[tuple[int, int, float]] = []
        for record in records.tolist():
            self.clock.wait_until(record[TS])
            self._count(INSERTED, PER_TUPLE, 1)
            rows = self._look_up(record[KEY]) if self.n_rows else []
            for row in rows:
                self._count(PAIRED, PER_PAIR, 1)
                found.append((record[ROW], row, self.clock.now_us))
            self.clock.log.counters[REMOVED] += 1
            if len(found) >= PAIRS_AT_ONCE:
                yield _as_pairs(found)
                found = []
        if found:
            yield _as_pairs(found)

    def finish(self) -> Iterator[FoundPairs]:
        """Nobody waits."""
        return iter(())

    @property
    def n_memory_blocks(self) -> int:
        """Pages that are kept."""
        return len(self._cached)

    @property
    def n_levels(self) -> int:
        """Levels of the index above the relation."""
        return len(self._levels) - 1

    def _write(self, rows: np.ndarray, keys: np.ndarray) -> None:
        """Writes the relation and, level by level, the least keys of all pages below, until a page is the root."""
        per_page = self.settings.block_rows
        while True:
            n_pages = -(-len(keys) // per_page)
            records = np.full((n_pages * per_page, RELATION_WIDTH), -1)
            records[: len(keys), ROW], records[: len(keys), KEY] = rows, keys
            self._levels.append(self.disk.append(records.reshape(n_pages, per_page, RELATION_WIDTH)))
            if n_pages <= 1:
                return
            rows, keys, per_page = np.arange(n_pages), keys[::per_page], self.settings.fan_out

    def _look_up(self, key: int) -> list[int]:
        """The rows of a key."""
        page = 0
        for level in range(self.n_levels, 0, -1):
            entries, n_below = self._page(level, page), self._levels[level - 1].n_blocks
            n_entries = min(len(entries), n_below - page * self.settings.fan_out)
            self._compare(n_entries)
            least = entries[:n_entries, KEY]
            page = int(entries[max(0, int(np.searchsorted(least, key)) - 1), ROW])
        return self._scan(page, key)

    def _scan(self, page: int, key: int) -> list[int]:
        """The rows of a key in the relation, from a page on that has the first of them, or is before all of them."""
        found: list[int] = []
        for number in range(page, self._levels[0].n_blocks):
            n_rows = min(self.settings.block_rows, self.n_rows - number * self.settings.block_rows)
            records = self._page(0, number)[:n_rows]
            self._compare(n_rows)
            first, last = (int(np.searchsorted(records[:, KEY], key, side)) for side in ("left", "right"))
            found += records[first:last, ROW].tolist()
            if last < n_rows:
                break
        return found

    def _page(self, level: int, number: int) -> np.ndarray:
        """A page, which is read unless it is kept."""
        page = level, number
        if page in self._cached:
            self._cached.move_to_end(page)
            return self._cached[page]
        before = self.disk.counts.seconds
        (blocks,) = self.disk.read(self._levels[level], [(number, number + 1)])
        self.clock.wait_for_disk(self.disk.counts.seconds - before)
        self.n_page_reads += 1
        if len(self._cached) == self.settings.memory:
            self._cached.popitem(last=False)
        self._cached[page] = blocks[0]
        return blocks[0]

    def _compare(self, n_entries: int) -> None:
        """A binary search among so many."""
        self._count(COMPARED, PER_COMPARISON, max(1, n_entries.bit_length()))

    def _count(self, counter: int, price: int, number: int) -> None:
        log = self.clock.log
        log.counters[counter] += number
        log.clock[[NOW_US, CPU_US]] += log.prices[price] * number


def _as_pairs(found: list[tuple[int, int, float]]) -> FoundPairs:
    left, right, at_us = zip(*found)
    return FoundPairs(np.array(left, np.int64), np.array(right, np.int64), np.array(at_us))
