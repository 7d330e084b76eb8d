"""How tuples of a window become a segment.

Where they are found by key, they are sorted by its hash, and those of one key in order of the log; where they only wait
for the clock, in order of expiry. Whoever calls gives tuples that end about the same time, and not more than may be
sorted at once: a segment goes when its last tuple has ended.
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
from sash.store.batch import SIGNED_NAMES
from sash.store.segment import PageRegion, PayloadColumns, SegmentRegions, WindowSegment
from sash.store.segment_guide import KeptGuide, SegmentGuide
from sash.store.spill_files import SpillFile, SpillFiles

BATCH_BYTES = 1 << 18
"""About so long are batches of payload: what is read of it for a single row."""
LEAST_BATCH_BYTES = 1 << 12
"""Shorter batches would be mostly what Arrow says of them."""
FIRST_BATCH_ROWS = 256
"""Then the bytes of the rows so far say how many make a batch."""
SCRATCH_BYTES = 24
"""For each row, while a segment is written: its hash, its place, and how long it lives."""

TakeRows: TypeAlias = Callable[[np.ndarray, list[str] | None], pa.Table]
"""Columns of rows of a window's log, or all of them, in the order in which the rows are asked for."""


class SealedRows(NamedTuple):
    """Tuples of a window, an item or line each, in order of the log; NULL keys have been dropped."""

    rows: np.ndarray
    """Their numbers in the log, ascending."""
    keys: np.ndarray
    ts: np.ndarray
    expires: np.ndarray
    ids: np.ndarray | None = None
    labels: np.ndarray | None = None
    are_told: bool = False
    """Whether `ts` and `expires` are all that there is to say of their lives and signs, so that payload has neither."""


class RegionColumns(NamedTuple):
    """What a region of a segment holds: columns in order of the log, behind those that are in the segment's order."""

    logged: Sequence[np.ndarray]
    ordered: Sequence[np.ndarray] = ()

    @property
    def width(self) -> int:
        return len(self.logged) + len(self.ordered)


NO_COLUMNS = RegionColumns([])


def write_segment(
    files: SpillFiles, sealed: SealedRows, take: TakeRows, first: int | None = None, batch_bytes: int = BATCH_BYTES
) -> WindowSegment:
    """Seals tuples, at least one. They are numbered from `first` on: by default the number of the first in the log.

    If it cannot be written, nothing has changed. The tuples may be forgotten afterwards.
    """
    with taking(files.allowance, SCRATCH_BYTES * len(sealed.rows)):
        order, hashes = order_by_hash(sealed.keys)
        life_us = common_life(sealed.ts, sealed.expires)
        lives = [sealed.ts] if life_us != STORED else [sealed.ts, sealed.expires]
        first = int(sealed.rows[0]) if first is None else first
        columns = [RegionColumns(lives, [hashes.view(np.int64)]), _origins(sealed.rows, order, first)]
        columns += [_lines(each) for each in (sealed.ids, sealed.labels)]
        draft = _Draft(files, sealed, order, columns, take, batch_bytes)

        def guide(file: SpillFile) -> SegmentGuide:
            assert draft.regions.keys is not None
            return draft.guide(file, hashes[:: draft.regions.keys.rows_per_page].copy(), _filter_of(hashes))

        bounds = int(sealed.ts.min()), int(sealed.expires.max())
        return draft.write(guide, first, bounds, life_us)


def write_expiries(
    files: SpillFiles, sealed: SealedRows, take: TakeRows, batch_bytes: int = BATCH_BYTES
) -> WindowSegment:
    """Seals tuples, at least one, in order of expiry, numbered from that of the first in the log on. `keys` are read
    back as `ids`; there is nothing by which a key could be found.

    The guide's fences are the first expiry of each batch of payload. If it cannot be written, nothing has changed.
    """
    with taking(files.allowance, SCRATCH_BYTES * len(sealed.rows)):
        order, first = np.argsort(sealed.expires, kind="stable"), int(sealed.rows[0])
        columns = [NO_COLUMNS, _origins(sealed.rows, order, first), RegionColumns([sealed.keys]), NO_COLUMNS]
        draft = _Draft(files, sealed, order, columns, take, batch_bytes)

        def guide(file: SpillFile) -> SegmentGuide:
            return draft.guide(file, sealed.expires[order[draft.places[:-1]]], np.empty(0, np.uint64))

        bounds = int(sealed.ts.min()), int(sealed.expires.max())
        return draft.write(guide, first, bounds, STORED)


def write_times(
    files: SpillFiles, sealed: SealedRows, take: TakeRows, first: int, batch_bytes: int = BATCH_BYTES
) -> WindowSegment:
    """Seals tuples, at least one, that are given in order of time, numbered from `first` on. `ts` is read back as
    `ids`; there is nothing by which a key could be found.

    The guide's fences are the first time of each batch of payload. If it cannot be written, nothing has changed.
    """
    with taking(files.allowance, SCRATCH_BYTES * len(sealed.rows)):
        order = np.arange(len(sealed.rows))
        columns = [NO_COLUMNS, _origins(sealed.rows, order, first), RegionColumns([sealed.ts]), NO_COLUMNS]
        draft = _Draft(files, sealed, order, columns, take, batch_bytes)

        def guide(file: SpillFile) -> SegmentGuide:
            return draft.guide(file, sealed.ts[draft.places[:-1]], np.empty(0, np.uint64))

        bounds = int(sealed.ts[0]), int(sealed.expires.max())
        return draft.write(guide, first, bounds, STORED)


class _Draft:
    """A segment that is being written."""

    def __init__(
        self,
        files: SpillFiles,
        sealed: SealedRows,
        order: np.ndarray,
        columns: Sequence[RegionColumns],
        take: TakeRows,
        batch_bytes: int,
    ):
        """`columns` are those of each of the `SegmentRegions`."""
        self._files, self._page_bytes = files, files.settings.page_bytes
        self._rows, self._order, self._columns = sealed.rows, order, columns
        self._take, self._batch_bytes = take, batch_bytes
        self._placed = _place_regions(columns, len(order), self._page_bytes)
        self.regions = SegmentRegions(*(self._placed.get(idx) for idx in range(len(columns))))
        self.places, self._starts = [0], [self._n_region_bytes]
        self._whole = take(sealed.rows[:0], None).schema
        told = SIGNED_NAMES if sealed.are_told else ()
        self._schema = pa.schema([field for field in self._whole if field.name not in told])
        self._with_nulls: set[str] = set()

    def write(
        self, guide: Callable[[SpillFile], SegmentGuide], first: int, bounds: tuple[int, int], life_us: int
    ) -> WindowSegment:
        """The segment, once it is on disk. `bounds` are the least `_ts` and the last `_expires`."""
        file = self._files.write(self._parts())
        try:
            words = {field.name for field in self._schema if _is_word(field.type)} - self._with_nulls
            return WindowSegment(
                self._files,
                file.name,
                file.n_bytes,
                first,
                len(self._order),
                *bounds,
                life_us,
                self.regions,
                PayloadColumns(self._schema, frozenset(words), self._whole),
                KeptGuide(self._files, guide(file)),
            )
        except BaseException:
            self._files.free(file)
            raise

    def guide(self, file: SpillFile, fences: np.ndarray, filter: np.ndarray) -> SegmentGuide:
        """What is known of it, once it is written."""
        return SegmentGuide(file.checksums, fences, filter, np.array(self.places), np.array(self._starts))

    def _parts(self) -> Iterator[np.ndarray]:
        """The bytes of the file, in order."""
        for idx, region in self._placed.items():
            yield from self._pages(region, self._columns[idx])
        if len(self._schema):
            yield from self._batches()

    @property
    def _n_region_bytes(self) -> int:
        """Of all regions: what is behind them may begin there."""
        last = list(self._placed.values())[-1]
        if last.n_columns > 1:
            return last.last_page * self._page_bytes
        return last.first_page * self._page_bytes + 8 * len(self._order)

    def _pages(self, region: PageRegion, columns: RegionColumns) -> Iterator[np.ndarray]:
        page, n_region_bytes = np.empty(self._page_bytes // 8, np.int64), self._n_region_bytes
        for number, start in enumerate(range(0, len(self._order), region.rows_per_page), region.first_page):
            span = slice(start, start + region.rows_per_page)
            chosen = self._order[span]
            page[:] = 0
            every = [*(each[span] for each in columns.ordered), *(each[chosen] for each in columns.logged)]
            for idx, column in enumerate(every):
                place = idx * region.rows_per_page
                page[place : place + len(column)] = column
            yield page.view(np.uint8)[: n_region_bytes - number * self._page_bytes]

    def _batches(self) -> Iterator[np.ndarray]:
        """The payload, in batches that are as long as wished, or have one row."""
        start, n_wished = 0, FIRST_BATCH_ROWS
        while start < len(self._order):
            rows = self._rows[self._order[start : start + n_wished]]
            (batch,) = self._take(rows, self._schema.names).combine_chunks().to_batches()
            data = np.frombuffer(batch.serialize(), np.uint8)
            if len(data) > 2 * self._batch_bytes and len(rows) > 1:
                n_wished = len(rows) // 2
                continue
            self._with_nulls.update(name for name in self._schema.names if batch.column(name).null_count)
            start += len(rows)
            self.places.append(start)
            self._starts.append(self._starts[-1] + len(data))
            n_wished = max(1, min(4 * len(rows), self._batch_bytes * len(rows) // len(data)))
            yield data


def _place_regions(columns: Sequence[RegionColumns], n_rows: int, page_bytes: int) -> dict[int, PageRegion]:
    """Those that have columns, in the order in which they lie in the file: the one with the fewest is the last."""
    page, placed = 0, dict[int, PageRegion]()
    for idx in sorted(range(len(columns)), key=lambda idx: -columns[idx].width):
        if columns[idx].width:
            placed[idx] = PageRegion.place(page, columns[idx].width, n_rows, page_bytes)
            page = placed[idx].last_page
    return placed


def _origins(rows: np.ndarray, order: np.ndarray, first: int) -> RegionColumns:
    """Nothing, if rows that lie in this order, and are numbered from `first` on, have the numbers that they had."""
    return NO_COLUMNS if np.array_equal(rows[order], first + np.arange(len(order))) else RegionColumns([rows])


def _lines(lines: np.ndarray | None) -> RegionColumns:
    return NO_COLUMNS if lines is None else RegionColumns(list(lines.view(np.int64).T))


def _filter_of(hashes: np.ndarray) -> np.ndarray:
    n_blocks = -(-count_distinct(hashes) * BITS_PER_KEY // (64 * BLOCK_WORDS))
    filter = np.zeros(n_blocks * BLOCK_WORDS, np.uint64)
    fill_filter(hashes, filter)
    return filter


def common_life(ts: np.ndarray, expires: np.ndarray) -> int:
    """How long each of the tuples lives, if all live equally long; then it is not written."""
    with np.errstate(over="ignore"):
        lives = expires - ts
    return int(lives[0]) if lives[0] >= 0 and np.all(lives == lives[0]) else STORED


def _is_word(type: pa.DataType) -> bool:
    return pa.types.is_int64(type) or pa.types.is_float64(type) or pa.types.is_timestamp(type)
