"""How tuples of a window become a segment.

They are sorted by the hash of their key, and those of one key in order of the log. Whoever calls gives tuples that end
about the same time, and not more than may be sorted at once: a segment goes when its last tuple has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels.hash_order import order_by_hash
from sash.kernels.segment_join import (
    BITS_PER_KEY,
    BLOCK_WORDS,
    STORED,
    count_distinct,
    fill_filter,
)
from sash.store.allowance import taking
from sash.store.segment import PageRegion, PayloadColumns, SegmentRegions, WindowSegment
from sash.store.segment_guide import KeptGuide, SegmentGuide
from sash.store.spill_files import SpillFile, SpillFiles

BATCH_BYTES = 1 << 18
"""About so long are batches of payload: what is read of it for a single row."""
FIRST_BATCH_ROWS = 256
"""Then the bytes of the rows so far say how many make a batch."""
SCRATCH_BYTES = 24
"""For each row, while a segment is written: its hash, its place, and how long it lives."""

TakeRows: TypeAlias = Callable[[np.ndarray], pa.Table]
"""The payload of rows of a window's log, in the order in which they are asked for."""


class SealedRows(NamedTuple):
    """Tuples of a window, an item or line each, in order of the log; NULL keys have been dropped."""

    rows: np.ndarray
    """Their numbers in the log, ascending."""
    keys: np.ndarray
    ts: np.ndarray
    expires: np.ndarray
    ids: np.ndarray | None = None
    labels: np.ndarray | None = None


def write_segment(
    files: SpillFiles, sealed: SealedRows, take: TakeRows, first: int | None = None, batch_bytes: int = BATCH_BYTES
) -> WindowSegment:
    """Seals tuples, at least one. They are numbered from `first` on: by default the number of the first in the log.

    If it cannot be written, nothing has changed. The tuples may be forgotten afterwards.
    """
    n_rows = len(sealed.rows)
    with taking(files.allowance, SCRATCH_BYTES * n_rows):
        draft = _Draft(files.settings.page_bytes, sealed, take, batch_bytes)
        file = files.write(draft.parts())
        try:
            return draft.finish(files, file, int(sealed.rows[0]) if first is None else first)
        except BaseException:
            files.free(file)
            raise


class _Draft:
    """A segment that is being written: `parts` are its bytes, `finish` is what is known of it."""

    def __init__(self, page_bytes: int, sealed: SealedRows, take: TakeRows, batch_bytes: int):
        self._page_bytes, self._sealed, self._take, self._batch_bytes = page_bytes, sealed, take, batch_bytes
        self._order, self._hashes = order_by_hash(sealed.keys)
        self._life_us = common_life(sealed.ts, sealed.expires)
        self._regions = self._place_regions()
        self._places, self._starts = [0], [self._n_region_pages * page_bytes]
        self._schema = take(sealed.rows[:0]).schema
        self._with_nulls: set[str] = set()

    def parts(self) -> Iterator[np.ndarray]:
        """The bytes of the file, in order."""
        sealed, regions = self._sealed, self._regions
        lives = [sealed.ts] if self._life_us != STORED else [sealed.ts, sealed.expires]
        yield from self._pages(regions.keys, lives, [self._hashes.view(np.int64)])
        yield from self._pages(regions.origins, [sealed.rows])
        for region, lines in ((regions.ids, sealed.ids), (regions.labels, sealed.labels)):
            if region is not None and lines is not None:
                yield from self._pages(region, list(lines.view(np.int64).T))
        if len(self._schema):
            yield from self._batches()

    def finish(self, files: SpillFiles, file: SpillFile, first: int) -> WindowSegment:
        n_blocks = -(-count_distinct(self._hashes) * BITS_PER_KEY // (64 * BLOCK_WORDS))
        filter = np.zeros(n_blocks * BLOCK_WORDS, np.uint64)
        fill_filter(self._hashes, filter)
        words = {field.name for field in self._schema if _is_word(field.type)} - self._with_nulls
        fences = self._hashes[:: self._regions.keys.rows_per_page].copy()
        guide = SegmentGuide(file.checksums, fences, filter, np.array(self._places), np.array(self._starts))
        return WindowSegment(
            files,
            file.name,
            len(file.checksums),
            first,
            len(self._order),
            int(self._sealed.ts.min()),
            int(self._sealed.expires.max()),
            self._life_us,
            self._regions,
            PayloadColumns(self._schema, frozenset(words)),
            KeptGuide(files, guide),
        )

    @property
    def _n_region_pages(self) -> int:
        return max(each.last_page for each in self._regions if each is not None)

    def _place_regions(self) -> SegmentRegions:
        n_rows, page = len(self._order), 0
        regions: list[PageRegion | None] = []
        widths = [2 if self._life_us != STORED else 3, 1]
        widths += [0 if each is None else each.shape[1] for each in (self._sealed.ids, self._sealed.labels)]
        for n_columns in widths:
            region = PageRegion.place(page, n_columns, n_rows, self._page_bytes) if n_columns else None
            regions.append(region)
            page = page if region is None else region.last_page
        keys, origins, ids, labels = regions
        assert keys is not None
        assert origins is not None
        return SegmentRegions(keys, origins, ids, labels)

    def _pages(
        self, region: PageRegion, logged: list[np.ndarray], ordered: Sequence[np.ndarray] = ()
    ) -> Iterator[np.ndarray]:
        """Columns that are in order already, then those that are in the order of the log."""
        page = np.empty(self._page_bytes // 8, np.int64)
        for start in range(0, len(self._order), region.rows_per_page):
            span = slice(start, start + region.rows_per_page)
            chosen = self._order[span]
            columns = [*(each[span] for each in ordered), *(each[chosen] for each in logged)]
            page[:] = 0
            for idx, column in enumerate(columns):
                place = idx * region.rows_per_page
                page[place : place + len(column)] = column
            yield page.view(np.uint8)

    def _batches(self) -> Iterator[np.ndarray]:
        """The payload, in batches that are as long as wished, or have one row."""
        start, n_wished = 0, FIRST_BATCH_ROWS
        while start < len(self._order):
            rows = self._sealed.rows[self._order[start : start + n_wished]]
            (batch,) = self._take(rows).combine_chunks().to_batches()
            data = np.frombuffer(batch.serialize(), np.uint8)
            if len(data) > 2 * self._batch_bytes and len(rows) > 1:
                n_wished = len(rows) // 2
                continue
            self._with_nulls.update(name for name in self._schema.names if batch.column(name).null_count)
            start += len(rows)
            self._places.append(start)
            self._starts.append(self._starts[-1] + len(data))
            n_wished = max(1, min(4 * len(rows), self._batch_bytes * len(rows) // len(data)))
            yield data


def common_life(ts: np.ndarray, expires: np.ndarray) -> int:
    """How long each of the tuples lives, if all live equally long; then it is not written."""
    with np.errstate(over="ignore"):
        lives = expires - ts
    return int(lives[0]) if lives[0] >= 0 and np.all(lives == lives[0]) else STORED


def _is_word(type: pa.DataType) -> bool:
    return pa.types.is_int64(type) or pa.types.is_float64(type) or pa.types.is_timestamp(type)
