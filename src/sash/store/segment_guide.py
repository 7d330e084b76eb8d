"""What has to be known of a segment to read it: which keys may be there, where they are, and what its pages sum up to.

    segments   oldest ──────────────────────── newest
    guides     file    file    file    memory  memory       as many as there is room for

A guide is about a hundredth of its segment. So all of them together grow with the window, and those of the oldest
segments go to files of their own when they are too much to be kept: such a guide is read whenever it is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.store.spill_files import SpillFile, SpillFiles


class SegmentGuide(NamedTuple):
    """Arrays of 64 bits."""

    checksums: np.ndarray
    """Of the pages of the segment's file."""
    fences: np.ndarray
    """The first hash of each page of keys."""
    filter: np.ndarray
    """Which keys may be there; see `kernels/segment_join.py`."""
    places: np.ndarray
    """The place of the first row of each batch of payload, and one more for the end."""
    starts: np.ndarray
    """The byte with which each batch begins, and one more for the end."""

    @property
    def n_bytes(self) -> int:
        return sum(each.nbytes for each in self)


class KeptGuide:
    """The guide of one segment, in memory or in a file."""

    __slots__ = ("_file", "_files", "_guide", "_layout")

    def __init__(self, files: SpillFiles, guide: SegmentGuide):
        """If there is no room for it, nothing has changed."""
        files.allowance.take(guide.n_bytes)
        self._files = files
        self._guide: SegmentGuide | None = guide
        self._file: SpillFile | None = None
        self._layout = [(each.dtype.str, len(each)) for each in guide]

    @property
    def n_bytes(self) -> int:
        """In memory."""
        return self._guide.n_bytes if self._guide is not None else 0

    def read(self) -> SegmentGuide:
        """Wherever it is. What came from a file is not kept."""
        if self._guide is not None:
            return self._guide
        assert self._file is not None
        parts = [frame.data.copy() for frame in self._files.read(self._file, _frames(self._files, self._file))]
        words, arrays, start = np.concatenate(parts).view(np.uint64), [], 0
        for dtype, length in self._layout:
            arrays.append(words[start : start + length].view(dtype))
            start += length
        return SegmentGuide(*arrays)

    def put_away(self) -> None:
        """From now on it is in a file. If that cannot be written, it stays where it is."""
        if self._guide is not None:
            guide, self._file = self._guide, self._files.write(each.view(np.uint8) for each in self._guide)
            self._guide = None
            self._files.allowance.give(guide.n_bytes)

    def free(self) -> None:
        """Gives memory back, and removes the file. It must not be used any more."""
        self._files.allowance.give(self.n_bytes)
        if self._file is not None:
            self._files.free(self._file)


def _frames(files: SpillFiles, file: SpillFile) -> list[tuple[int, int]]:
    """All pages of a file, in spans of what is read at once."""
    n_pages, step = len(file.checksums), files.settings.most_pages
    return [(first, min(first + step, n_pages)) for first in range(0, n_pages, step)]
