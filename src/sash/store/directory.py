"""Vectors in files that every process of a machine can map, and what finds no room there.

    <path>/12-3fa0c1d2     a vector, in shared memory
    <path>/disk ─────────> a directory on a larger file system, made when it is first needed:
        15-88b0e7a4            a vector that found no room
        sash-spill-….3         a segment of a window

All of it belongs to whoever owns the directory, not to the process that works on it: it outlives the process, is found
again when the directory has got another name, and is removed with it, see `remove`.
"""

from __future__ import annotations

import itertools
import mmap
import os
import shutil
import tempfile
from pathlib import Path

from sash.errors import ResourceError
from sash.store.memory_budget import ROOMY_GROWTH, MemoryBudget
from sash.store.spill_files import SpillCounts, SpillFiles, SpillSettings
from sash.store.vector import NO_LIMIT, Room
from sash.store.weighed_rooms import WeighedRooms

DISK = "disk"
LEAST_FILE_BYTES = 1 << 12
"""What is smaller stays: it is a page of memory, wherever it is."""


class Directory:
    """Arrays in files of a directory.

    `resident_bytes` bounds how much of the files stays in memory at a time; None: nothing is let go of. `disk` is
    where a directory on a larger file system is made for what finds no room here, or not within the budget; a link
    `DISK` leads to it. If there is a budget there must be such a place.
    """

    def __init__(
        self,
        path: Path,
        disk: Path | None = None,
        resident_bytes: int | None = None,
        budget: MemoryBudget | None = None,
    ):
        self.path = path
        self._disk = disk
        self._resident_bytes = resident_bytes
        self._budget = budget
        self._maps = WeighedRooms[_Map]()
        self._names = itertools.count()
        self._files: SpillFiles | None = None
        self._sizes = {entry.name: entry.stat().st_size for entry in os.scandir(path) if entry.is_file()}
        """By name, the bytes of what is right here."""
        self._n_bytes = sum(self._sizes.values())
        if budget is not None:
            budget.count(self)

    @property
    def rows_per_call(self) -> int:
        """A lookup touches about a dozen pages."""
        if self._resident_bytes is None or self.n_mapped_bytes <= self._resident_bytes:
            return NO_LIMIT
        return max(256, self._resident_bytes // (32 * mmap.PAGESIZE))

    @property
    def growth(self) -> float:
        """Room in a file is taken at once, and counts."""
        return ROOMY_GROWTH if self._budget is None else self._budget.growth

    @property
    def budget(self) -> MemoryBudget | None:
        return self._budget

    @property
    def spill_files(self) -> SpillFiles:
        """Made when they are first asked for."""
        if self._files is None:
            self._files = self._make_files()
        return self._files

    @property
    def spill_counts(self) -> SpillCounts:
        """What was asked of the disk for segments, here and by this process."""
        return SpillCounts() if self._files is None else self._files.counts

    @property
    def n_bytes(self) -> int:
        """Bytes of what is right here, not on the larger file system."""
        return self._n_bytes

    @property
    def n_mapped_bytes(self) -> int:
        return self._maps.n_bytes

    def open_files(self, page_bytes: int) -> SpillFiles:
        if self._files is None:
            self._files = self._make_files(page_bytes)
        assert self._files.settings.page_bytes == page_bytes
        return self._files

    def new_name(self) -> str:
        return f"{next(self._names)}-{os.urandom(4).hex()}"

    def resize(self, name: str, old: Room | None, n_bytes: int) -> Room:
        path = self._place(name, n_bytes)
        self._weigh(name, n_bytes if path.parent == self.path else 0)
        return self._map(name, path, n_bytes)

    def open(self, name: str, n_bytes: int) -> Room:
        return self._map(name, self._find(name), n_bytes)

    def free(self, name: str) -> None:
        self._find(name).unlink(missing_ok=True)
        self._weigh(name, 0)

    def release_pages(self) -> None:
        if self._resident_bytes is None or self.n_mapped_bytes <= self._resident_bytes:
            return
        for each in self._maps.alive():
            each.madvise(mmap.MADV_DONTNEED)

    def leave(self, name: str, data: bytes) -> None:
        """Writes a file that is no vector, for whoever works here next: on the larger file system, if it is in use."""
        (self._link() if (self.path / DISK).exists() else self.path).joinpath(name).write_bytes(data)

    def collect(self, name: str) -> bytes:
        """What was left under this name; the file is gone afterwards."""
        data = self._find(name).read_bytes()
        self.free(name)
        return data

    def _find(self, name: str) -> Path:
        outside = self.path / DISK / name
        return outside if outside.exists() else self.path / name

    def _place(self, name: str, n_bytes: int) -> Path:
        """A vector's file, of this length: here, or on the larger file system if there is no room."""
        if self._disk is None or self._is_within_budget(name, n_bytes):
            try:
                return self._moved(name, self.path, n_bytes)
            except OSError as error:
                if self._disk is None:
                    raise _no_room(self.path, error) from error
        place = self._link()
        try:
            return self._moved(name, place, n_bytes)
        except OSError as error:
            raise _no_room(place, error) from error

    def _is_within_budget(self, name: str, n_bytes: int) -> bool:
        if self._budget is None or n_bytes < LEAST_FILE_BYTES:
            return True
        return self._budget.n_state_bytes - self._sizes.get(name, 0) + n_bytes <= self._budget.state_bytes

    def _moved(self, name: str, place: Path, n_bytes: int) -> Path:
        """The file, in a place where it may not have been before."""
        now, path = self._find(name), place / name
        if now != path and now.exists():
            if n_bytes < now.stat().st_size:
                _allocate(now, n_bytes)
            try:
                shutil.copyfile(now, path)
            except OSError:
                path.unlink(missing_ok=True)
                raise
            now.unlink()
        _allocate(path, n_bytes)
        return path

    def _link(self) -> Path:
        link = self.path / DISK
        if not link.exists():
            assert self._disk is not None
            self._disk.mkdir(parents=True, exist_ok=True)
            link.symlink_to(tempfile.mkdtemp(dir=self._disk))
        return link

    def _make_files(self, page_bytes: int | None = None) -> SpillFiles:
        assert self._budget is not None, "nothing has to leave memory that has no limit"
        settings = SpillSettings.within(self._budget.disk_bytes, page_bytes, self._budget.n_reads)
        return SpillFiles(self._link(), settings, outlives=True)

    def _weigh(self, name: str, n_bytes: int) -> None:
        """A file right here has so many bytes from now on. The sum is kept, as it is asked for with every growth."""
        self._n_bytes += n_bytes - self._sizes.pop(name, 0)
        if n_bytes:
            self._sizes[name] = n_bytes

    def _map(self, name: str, path: Path, n_bytes: int) -> Room:
        handle = os.open(path, os.O_RDWR)
        try:
            mapped = _Map(handle, n_bytes)
        finally:
            os.close(handle)
        self._maps.put(name, mapped)
        return mapped


class _Map(mmap.mmap):
    """A mapping that a weak dictionary can hold."""


def remove(directory: Path) -> None:
    """Removes a directory of vectors with what it has on disk."""
    link = directory / DISK
    if link.is_symlink():
        shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)


def _allocate(path: Path, n_bytes: int) -> None:
    """Makes a file of this length. Its blocks are reserved: a write through a mapping could only end in a signal."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        n_now = os.fstat(handle).st_size
        if n_bytes > n_now:
            os.posix_fallocate(handle, n_now, n_bytes - n_now)
        elif n_bytes < n_now:
            os.ftruncate(handle, n_bytes)
    finally:
        os.close(handle)


def _no_room(place: Path, reason: OSError) -> ResourceError:
    return ResourceError(
        f"no room for a window in {place.resolve()}: {reason.strerror}; free space there, or let `spark.local.dir` "
        "name a larger disk"
    )
