"""Vectors in the memory of this process as long as a budget has room, and in files from then on.

A vector moves when it grows, or shrinks, whole: to a file if memory for it would exceed the budget's share for state,
and back once it fits. Files are mapped, so whoever works on a vector does not know where it is; `release_pages` lets
the kernel have the pages again. The files are removed when they are opened: nothing of them outlives the process.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile

import numpy as np

from sash.errors import ResourceError
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_files import SpillCounts, SpillFiles, SpillSettings
from sash.store.vector import NO_LIMIT, Memory, MemoryMap, Room, as_bytes
from sash.store.weighed_rooms import WeighedRooms

LEAST_FILE_BYTES = 1 << 12
"""What is smaller stays in memory: a file would take a page anyway."""


class SpillArena(Memory):
    """Memory under a budget."""

    def __init__(self, budget: MemoryBudget):
        self._budget = budget
        self._names = itertools.count()
        self._rooms = WeighedRooms[np.ndarray | MemoryMap]()
        """The vectors in memory."""
        self._maps = WeighedRooms[_FileMap]()
        """Those in files."""
        self._files: SpillFiles | None = None
        self._n_reads = 1
        """So many were expected to be read one within the other when their settings were made."""
        budget.count(self)

    @property
    def budget(self) -> MemoryBudget:
        return self._budget

    @property
    def spill_files(self) -> SpillFiles:
        """Made when they are first asked for."""
        budget = self._budget
        if self._files is None:
            self._files = SpillFiles(budget.spill, SpillSettings.within(budget.disk_bytes, n_reads=budget.n_reads))
            self._n_reads = budget.n_reads
        elif self._n_reads < budget.n_reads:  # a query that came later
            self._files.settings = SpillSettings.within(budget.disk_bytes, n_reads=budget.n_reads)
            self._n_reads = budget.n_reads
        return self._files

    @property
    def counts(self) -> SpillCounts:
        """What was asked of the disk so far, but for mapped files."""
        return SpillCounts() if self._files is None else self._files.counts

    @property
    def n_bytes(self) -> int:
        """Bytes of vectors in memory."""
        return self._rooms.n_bytes

    @property
    def n_file_bytes(self) -> int:
        """Bytes of vectors in files."""
        return self._maps.n_bytes

    @property
    def rows_per_call(self) -> int:
        """A lookup touches about a dozen pages."""
        return max(256, self._budget.disk_bytes // (32 * mmap.PAGESIZE)) if self._maps else NO_LIMIT

    @property
    def growth(self) -> float:
        """Room counts as taken at once."""
        return self._budget.growth

    def new_name(self) -> str:
        return str(next(self._names))

    def resize(self, name: str, old: Room | None, n_bytes: int) -> Room:
        others = self._budget.n_state_bytes - (len(old) if name in self._rooms and old is not None else 0)
        is_small = n_bytes < LEAST_FILE_BYTES or others + n_bytes <= self._budget.state_bytes
        mapped = None if is_small else self._map_file(n_bytes)
        if mapped is None:
            new = super().resize(name, old, n_bytes)
            assert isinstance(new, np.ndarray | MemoryMap)
            self._rooms.put(name, new)
            self._maps.drop(name)
            return new
        self._maps.put(name, mapped)
        self._rooms.drop(name)
        if old is not None:
            n_kept = min(len(old), n_bytes)
            as_bytes(mapped)[:n_kept] = as_bytes(old)[:n_kept]
        return mapped

    def free(self, name: str) -> None:
        self._rooms.drop(name)
        self._maps.drop(name)

    def release_pages(self) -> None:
        if self.n_file_bytes > self._budget.disk_bytes:
            for each in self._maps.alive():
                each.madvise(mmap.MADV_DONTNEED)

    def _map_file(self, n_bytes: int) -> _FileMap | None:
        """A file of its own, without a name; None if there is no room for it. Its blocks are reserved: a write
        through a mapping could only end in a signal.
        """
        try:
            self._budget.spill.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._budget.spill, prefix="sash-") as file:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
                return _FileMap(file.fileno(), n_bytes)
        except OSError as error:
            self._budget.refused = ResourceError(
                f"no room for {n_bytes} bytes of a window in `{self._budget.spill}`: {error.strerror}; make room "
                "there, let SASH_SPILL or `sash.configure(spill=…)` name a larger disk, or give Sash more memory"
            )
            return None


class _FileMap(mmap.mmap):
    """A mapping that a weak dictionary can hold."""
