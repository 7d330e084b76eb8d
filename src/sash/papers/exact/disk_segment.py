"""The part of a stream's window that is on disk: blocks in the order in which they were dumped, cut in basic windows.

    oldest  [ b7 b8 b9 b10 ][ b11 b12 b13 b14 ][ b15 b16 ]  newest        each […] is adjacent on the disk
            take(2) reads and removes b7 b8                               scan() reads all, a basic window at a time

Order is that of dumps, which is about that of time: nothing that must be right relies on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sash.store.block_disk import BlockDisk, Extent


@dataclass(slots=True)
class _BasicWindow:
    """Blocks that are adjacent, of which the first ones may be gone."""

    extent: Extent
    blocks: np.ndarray
    first: int = 0

    @property
    def left(self) -> np.ndarray:
        return self.blocks[self.first :]


class DiskSegment:
    """Blocks by number; what the disk takes is told to `wait`, in seconds."""

    def __init__(self, disk: BlockDisk, basic_window: int, wait: Callable[[float], None]):
        self.disk = disk
        self._basic_window = basic_window
        self._wait = wait
        self._windows: deque[_BasicWindow] = deque()
        self._n_blocks = 0

    def __len__(self) -> int:
        return self._n_blocks

    def append(self, blocks: Sequence[int], records: np.ndarray) -> None:
        """Dumps blocks, behind all others."""
        before = self.disk.counts.seconds
        for start in range(0, len(blocks), self._basic_window):
            part = slice(start, start + self._basic_window)
            extent = self.disk.append(records[part])
            self._windows.append(_BasicWindow(extent, np.array(blocks[part], np.int64)))
        self._n_blocks += len(blocks)
        self._wait(self.disk.counts.seconds - before)

    def scan(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The numbers and the rows of all blocks, a basic window at a time. Nothing may be appended or taken since."""
        for window in self._windows:
            yield window.left, self._read(window, window.first, window.extent.n_blocks)

    def oldest(self, n_blocks: int) -> np.ndarray:
        """The numbers of the first blocks; they are in one basic window, so they may be fewer."""
        return self._windows[0].left[:n_blocks] if self._windows else np.empty(0, np.int64)

    def take(self, n_blocks: int) -> tuple[np.ndarray, np.ndarray]:
        """Reads the first blocks, of one basic window, and removes them: their numbers and rows."""
        window = self._windows[0]
        blocks = window.left[:n_blocks]
        records = self._read(window, window.first, window.first + len(blocks))
        window.first += len(blocks)
        self._n_blocks -= len(blocks)
        if window.first == window.extent.n_blocks:
            self.disk.free(window.extent)
            self._windows.popleft()
        return blocks, records

    @property
    def blocks(self) -> np.ndarray:
        """The numbers of all blocks, as they lie on the disk."""
        return np.concatenate([window.left for window in self._windows]) if self._windows else np.empty(0, np.int64)

    def _read(self, window: _BasicWindow, first: int, last: int) -> np.ndarray:
        before = self.disk.counts.seconds
        (records,) = self.disk.read(window.extent, [(first, last)])
        self._wait(self.disk.counts.seconds - before)
        return records
