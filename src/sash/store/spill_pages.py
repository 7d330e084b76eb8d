"""Files as pages of one length: written with a checksum for each, and read as few long reads, each page checked.

    wanted     [2 3)   [3 5)                        [40 41)
    reads      [2 . . . . 5)                        [40 41)       what lies near is read as one, up to a frame

A gap between two wanted spans is read with them if that takes no longer than another access would. The last page of a
file ends with what there is to write, and is read as if zeros filled it: many files are not much longer than a page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sash.errors import SourceError
from sash.kernels.page_checksums import find_damage, sum_pages

PageSpan: TypeAlias = tuple[int, int]
"""Pages from the first on, less than the last."""


class PagedRead(NamedTuple):
    """One read of a file: the wanted spans `first_span .. last_span - 1`, and the pages that hold them."""

    first_span: int
    last_span: int
    first_page: int
    last_page: int

    @property
    def n_pages(self) -> int:
        return self.last_page - self.first_page


class PagedFile(NamedTuple):
    """A file that is open for reading, its length when it was written, and the checksum of each of its pages."""

    handle: int
    path: str
    page_bytes: int
    n_bytes: int
    checksums: np.ndarray


def plan_reads(spans: Sequence[PageSpan], most_pages: int, gap_pages: int) -> list[PagedRead]:
    """The reads for spans that ascend: none has more than `most_pages`, unless a single span has."""
    reads: list[PagedRead] = []
    first_span = 0
    for idx in range(1, len(spans) + 1):
        first, last = spans[first_span][0], spans[idx - 1][1]
        is_last = idx == len(spans)
        if is_last or spans[idx][0] - last > gap_pages or spans[idx][1] - first > most_pages:
            reads.append(PagedRead(first_span, idx, first, last))
            first_span = idx
    return reads


def read_pages(file: PagedFile, first_page: int, out: np.ndarray) -> np.ndarray:
    """Fills `out` with the pages from `first_page` on, and returns it.

    Reading and checking let other threads go on meanwhile.
    """
    start, n_filled = first_page * file.page_bytes, 0
    view = out.data[: file.n_bytes - start]
    while n_filled < len(view):
        n_read = os.preadv(file.handle, [view[n_filled:]], start + n_filled)
        if not n_read:
            raise SourceError(
                _tell_damage(file.path, f"it had {file.n_bytes} bytes when it was written, and is shorter now")
            )
        n_filled += n_read
    out[n_filled:] = 0
    damaged = find_damage(out.view(np.uint64), file.page_bytes // 8, file.checksums, first_page)
    if damaged >= 0:
        raise SourceError(_tell_damage(file.path, f"page {damaged} is not what was written there"))
    return out


def _tell_damage(path: str, seen: str) -> str:
    return f"`{path}`: {seen}; the disk is damaged, or another program writes there: choose another directory"


class PageWriter:
    """Writes what it is given end to end."""

    def __init__(self, handle: int, page_bytes: int, buffer: np.ndarray, before_write: Callable[[], None]):
        """`buffer` is room for some whole pages; it is written when it is full."""
        self._handle = handle
        self._page_bytes = page_bytes
        self._buffer = buffer
        self._before_write = before_write
        self._n_held = 0
        self.n_bytes = 0
        """Written so far."""
        self._checksums: list[np.ndarray] = []

    def write(self, parts: Iterable[np.ndarray]) -> None:
        """Each part is bytes."""
        for part in parts:
            start = 0
            while start < len(part):
                n_taken = min(len(part) - start, len(self._buffer) - self._n_held)
                self._buffer[self._n_held : self._n_held + n_taken] = part[start : start + n_taken]
                start, self._n_held = start + n_taken, self._n_held + n_taken
                if self._n_held == len(self._buffer):
                    self._flush()

    def finish(self) -> np.ndarray:
        """The checksums of all pages; that of the last one is as if zeros filled it."""
        self._flush()
        return np.concatenate([np.empty(0, np.uint64), *self._checksums])

    def _flush(self) -> None:
        view, sums = self._buffer.data[: self._n_held], np.empty(-(-self._n_held // self._page_bytes), np.uint64)
        n_summed = len(sums) * self._page_bytes
        self._buffer[self._n_held : n_summed] = 0
        sum_pages(self._buffer[:n_summed].view(np.uint64), self._page_bytes // 8, sums)
        self._checksums.append(sums)
        while len(view):
            self._before_write()
            view = view[os.write(self._handle, view) :]
        self.n_bytes += self._n_held
        self._n_held = 0
