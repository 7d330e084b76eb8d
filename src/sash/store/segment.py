"""Tuples of a window that have left memory: an immutable file of them, in order of a hash of their key.

    file     | keys and lives | identities | labels | origins | payload                      |
             |  page   page   |   page     |  page  |  page   | batch | batch | batch | …    |
    guide    | first hash of each page, filter of keys         | where each batch begins      |

A row that is sealed gets a new number, `first` and its place in the file: so rows of one key lie side by side, and what
a probe finds in one order is read in that order. `origins` says which row of the window's log it was, unless all have
the numbers that they had.

Columns of 64 bits lie in pages, column by column, so that what is looked at of a key is read with one access. The rest
is payload: batches of Arrow's, read when a tuple is put out; without lives and signs where the keys' pages tell them.
The region with the fewest columns comes last: if it has one, its last page has its values side by side, and payload
begins right behind them. Segments of a few pages would be half ends of pages otherwise. The guide is what has to be
known to read anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.kernels.segment_join import STORED, KeyPages, gather_places
from sash.store.batch import EXPIRES, OP, TS
from sash.store.segment_guide import KeptGuide, SegmentGuide
from sash.store.spill_files import SpillFile, SpillFiles

NO_CHECKSUMS = np.empty(0, np.uint64)


class PageRegion(NamedTuple):
    """Pages of a file that hold columns of 64 bits."""

    first_page: int
    n_pages: int
    n_columns: int
    rows_per_page: int

    @classmethod
    def place(cls, first_page: int, n_columns: int, n_rows: int, page_bytes: int) -> PageRegion:
        """For so many rows, from a page on."""
        rows_per_page = page_bytes // (8 * n_columns)
        assert rows_per_page, "a page is too short for a row"
        return cls(first_page, -(-n_rows // rows_per_page), n_columns, rows_per_page)

    @property
    def last_page(self) -> int:
        return self.first_page + self.n_pages

    def spans(self, pages: np.ndarray) -> list[tuple[int, int]]:
        """Some of its pages, as spans of the file."""
        return [(first, first + 1) for first in (self.first_page + pages).tolist()]


class PayloadColumns(NamedTuple):
    """What is in the batches of a file."""

    schema: pa.Schema
    words: frozenset[str]
    """Columns of 64 bits without NULLs."""
    whole: pa.Schema
    """Of the tuples: what is not in the batches is told by their lives, or is the sign of one that has come."""


class SegmentRegions(NamedTuple):
    """Keys with lives, origins, and what else a segment's rows have."""

    keys: PageRegion | None
    """None in a segment that is in order of time or expiry, where no key is looked for."""
    origins: PageRegion | None
    """None if rows have the numbers that they had."""
    ids: PageRegion | None
    labels: PageRegion | None


@dataclass(frozen=True, slots=True, eq=False)
class WindowSegment:
    """Rows `first .. last - 1`, sealed; see `write_segment`. What reads the disk raises if it is not what was written.

    `take`, `origins`, `hashes`, `ids` and `labels` are asked for any rows, in any order, as often as one likes each:
    reads are sorted, and what is near is read at once.
    """

    files: SpillFiles
    name: str
    """Of its file."""
    n_bytes: int
    first: int
    n_rows: int
    min_ts: int
    max_end: int
    """The last `expires`: after it, nothing in the segment is alive, and it can be freed without being read."""
    life_us: int
    regions: SegmentRegions
    payload: PayloadColumns
    guide: KeptGuide
    others: tuple[WindowSegment, ...] = ()
    """The same rows in order of other keys, in files of their own without payload; their `origins` are rows here."""

    @property
    def last(self) -> int:
        return self.first + self.n_rows

    @property
    def n_file_bytes(self) -> int:
        return self.n_bytes + sum(each.n_file_bytes for each in self.others)

    @property
    def n_guide_bytes(self) -> int:
        """What is known of it by heart."""
        return self.guide.n_bytes + sum(each.n_guide_bytes for each in self.others)

    def put_guides_away(self) -> None:
        """What is known of it is in files from now on."""
        self.guide.put_away()
        for each in self.others:
            each.put_guides_away()

    def free(self) -> None:
        """Removes the file and gives memory back. The segment must not be used any more."""
        for each in self.others:
            each.free()
        self.guide.free()
        self.files.free(self._file(NO_CHECKSUMS))

    def key_pages(self, pages: np.ndarray, guide: SegmentGuide) -> Iterator[KeyPages]:
        """Pages of keys, ascending, some at a time; good until the next are asked for. `guide` is its own."""
        region = self.regions.keys
        assert region is not None
        for frame in self.files.read(self._file(guide.checksums), region.spans(pages)):
            before = frame.first_page - region.first_page
            yield KeyPages(
                self._as_words(frame.data),
                pages[frame.first_span : frame.last_span] - before,
                region.rows_per_page,
                self.first + before * region.rows_per_page,
                self.last,
                self.life_us,
            )

    def origins(self, rows: np.ndarray) -> np.ndarray:
        """The numbers that rows had in the window's log."""
        region = self.regions.origins
        return rows.copy() if region is None else self._gather(region, rows)[:, 0]

    def rows_from(self, first: int, last: int) -> np.ndarray:
        """The rows that had the numbers `first .. last - 1` in the window's log, in that order."""
        origins = self.origins(np.arange(self.first, self.last))
        mine = np.flatnonzero((origins >= first) & (origins < last))
        return self.first + mine[np.argsort(origins[mine])]

    def hashes(self, rows: np.ndarray) -> np.ndarray:
        """Of the keys of rows, by which they lie in order."""
        assert self.regions.keys is not None
        return self._gather(self.regions.keys, rows)[:, 0].copy().view(np.uint64)

    def all_times(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Its rows with their `ts`, page by page, some pages at a time."""
        region, guide = self.regions.keys, self.guide.read()
        assert region is not None
        for pages in self.key_pages(np.arange(region.n_pages), guide):
            n_rows = min(len(pages.wanted) * region.rows_per_page, self.last - pages.first_row)
            ts = pages.words[:, region.rows_per_page : 2 * region.rows_per_page].reshape(-1)[:n_rows]
            yield np.arange(pages.first_row, pages.first_row + n_rows), ts

    def lives(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`ts` and `expires` of rows."""
        assert self.regions.keys is not None
        lines = self._gather(self.regions.keys, rows)
        return lines[:, 1], lines[:, 2] if self.life_us == STORED else lines[:, 1] + self.life_us

    def ids(self, rows: np.ndarray) -> np.ndarray:
        """The identities of rows, a line each; without columns if they have none."""
        region = self.regions.ids
        return np.empty((len(rows), 0), np.int64) if region is None else self._gather(region, rows)

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """The labels of rows that were sealed with labels."""
        assert self.regions.labels is not None
        return self._gather(self.regions.labels, rows).view(np.uint64)

    def take(self, rows: np.ndarray, names: list[str] | None = None) -> pa.Table:
        """The tuples of rows, all or some columns. Each batch of payload is decoded once."""
        schema = self.payload.schema
        names = self.payload.whole.names if names is None else names
        stored = [name for name in names if name in schema.names]
        columns = [_TakenColumn(schema.field(name), name in self.payload.words, len(rows)) for name in stored]
        places = rows - self.first
        order = _ascending(places)
        if len(rows) and stored:
            for batch, local, at in self._batches(places[order], order):
                for column in columns:
                    column.add(batch.column(column.field.name), local, at)
        taken = {column.field.name: column.finish(order) for column in columns}
        if len(stored) < len(names):
            taken |= self._derive(rows, [name for name in names if name not in taken])
        return pa.table({name: taken[name] for name in names})

    def _derive(self, rows: np.ndarray, names: list[str]) -> dict[str, pa.Array]:
        """Columns of rows that are not in the payload."""
        known = {OP: np.ones(len(rows), np.int8)}
        if TS in names or EXPIRES in names:
            known[TS], known[EXPIRES] = self.lives(rows)
        return {
            name: pa.array(np.ascontiguousarray(known[name])).cast(self.payload.whole.field(name).type)
            for name in names
        }

    def _batches(
        self, places: np.ndarray, order: np.ndarray
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray, np.ndarray]]:
        """The batches that have some of the places, which ascend; which of its rows, and the line that each goes to."""
        guide = self.guide.read()
        firsts, starts = guide.places, guide.starts
        page_bytes = self.files.settings.page_bytes
        bounds = np.searchsorted(places, firsts)
        wanted = np.flatnonzero(bounds[1:] > bounds[:-1])
        spans = np.column_stack((starts[wanted] // page_bytes, -(-starts[wanted + 1] // page_bytes)))
        for frame in self.files.read(self._file(guide.checksums), spans.tolist()):
            base = frame.first_page * page_bytes
            for idx in range(frame.first_span, frame.last_span):
                number = wanted[idx]
                data = frame.data[starts[number] - base : starts[number + 1] - base]
                batch = pa.ipc.read_record_batch(pa.py_buffer(data), self.payload.schema)
                here = slice(bounds[number], bounds[number + 1])
                yield batch, places[here] - firsts[number], order[here]

    def _gather(self, region: PageRegion, rows: np.ndarray) -> np.ndarray:
        """A line of words for each row."""
        places, per_page = rows - self.first, region.rows_per_page
        order = _ascending(places)
        places = places[order]
        page_bounds = np.searchsorted(places, np.arange(region.n_pages + 1) * per_page)
        pages = np.flatnonzero(page_bounds[1:] > page_bounds[:-1])
        out = np.empty((len(rows), region.n_columns), np.int64)
        file = self._file(self.guide.read().checksums)
        for frame in self.files.read(file, region.spans(pages)):
            low, high = page_bounds[pages[frame.first_span]], page_bounds[pages[frame.last_span - 1] + 1]
            local = places[low:high] - (frame.first_page - region.first_page) * per_page
            gather_places(self._as_words(frame.data), local, per_page, region.n_columns, out, order[low:high])
        return out

    def _file(self, checksums: np.ndarray) -> SpillFile:
        return SpillFile(self.name, self.n_bytes, checksums)

    def _as_words(self, data: np.ndarray) -> np.ndarray:
        """A page each line."""
        return data.view(np.int64).reshape(-1, self.files.settings.page_bytes // 8)


def _ascending(places: np.ndarray) -> np.ndarray:
    """The order in which places ascend; mostly they do as they come."""
    return np.arange(len(places)) if np.all(places[1:] >= places[:-1]) else np.argsort(places, kind="stable")


class _TakenColumn:
    """A column of rows that come in another order than they are asked for."""

    def __init__(self, field: pa.Field, is_words: bool, n_rows: int):
        self.field = field
        self._words = np.empty(n_rows, np.int64) if is_words else None
        self._parts: list[pa.Array] = []

    def add(self, array: pa.Array, local: np.ndarray, at: np.ndarray) -> None:
        """Some rows of an array, and the lines that they go to."""
        if self._words is None:
            self._parts.append(array.take(pa.array(local)))
        else:
            self._words[at] = array.view(pa.int64()).to_numpy()[local]

    def finish(self, order: np.ndarray) -> pa.Array:
        """All rows, as they were asked for; they came in this order."""
        if self._words is not None:
            return pa.Array.from_buffers(self.field.type, len(order), [None, pa.py_buffer(self._words)])
        if not self._parts:
            return pa.array([], self.field.type)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(self._parts).take(pa.array(back))
