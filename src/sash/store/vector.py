"""Growing arrays, in the memory of a process or in files that every process of a machine can map.

A window's rows and indexes are vectors. In a file they outlive the process: whoever maps the file next goes on with
them, without reading or copying anything. `Memory` is one home, `SpillArena` and `Directory` are others; the code that
fills and searches vectors does not know which one it works on.

A vector pickles as its name. The files are those of the arena that the unpickler is given, and so are those that
segments are in, see `dump` and `load`.
"""

from __future__ import annotations

import io
import mmap
import pickle
from typing import Any, Protocol, TypeAlias

import numpy as np

from sash.store.memory_budget import MemoryBudget
from sash.store.spill_files import SpillFiles

ARENA = 0
ITEMS_PER_MOVE = 1 << 20
NO_LIMIT = int(np.iinfo(np.int64).max)
MAPPED_BYTES = 1 << 20
"""From so many bytes on, memory is mapped."""
Room: TypeAlias = mmap.mmap | np.ndarray
"""The bytes of a vector."""


class Arena(Protocol):
    """Where vectors live."""

    @property
    def rows_per_call(self) -> int:
        """How many rows may be looked up by key before `release_pages` has to be called."""
        ...

    @property
    def growth(self) -> float:
        """How many times larger a vector becomes when it is full."""
        ...

    @property
    def budget(self) -> MemoryBudget | None:
        """What all that is kept here may take; None: as much as there is."""
        ...

    @property
    def spill_files(self) -> SpillFiles:
        """Where what finds no room goes, if there is a budget."""
        ...

    def open_files(self, page_bytes: int) -> SpillFiles:
        """Files that another process has left, with pages of this length; those to come are alike."""
        ...

    def new_name(self) -> str: ...

    def resize(self, name: str, old: Room | None, n_bytes: int) -> Room:
        """The bytes of a vector, with what fits of the old content. The old ones must not be used any more."""
        ...

    def open(self, name: str, n_bytes: int) -> Room:
        """The bytes of a vector that another process has left."""
        ...

    def free(self, name: str) -> None:
        """Forgets a vector."""
        ...

    def release_pages(self) -> None:
        """Lets go of memory that can be had again from files."""
        ...


class Memory:
    """Arrays of this process alone."""

    @property
    def rows_per_call(self) -> int:
        return NO_LIMIT

    @property
    def growth(self) -> float:
        """Room costs nothing until it is used."""
        return 2.0

    @property
    def budget(self) -> MemoryBudget | None:
        return None

    @property
    def spill_files(self) -> SpillFiles:
        raise AssertionError("nothing has to leave memory that has no limit")

    def open_files(self, page_bytes: int) -> SpillFiles:
        raise AssertionError("nothing outlives its process in memory")

    def new_name(self) -> str:
        return ""

    def resize(self, name: str, old: Room | None, n_bytes: int) -> Room:
        """Much memory is mapped: it can grow without being copied, unless somebody still looks at it."""
        if isinstance(old, MemoryMap) and n_bytes >= MAPPED_BYTES:
            try:
                old.resize(n_bytes)
                return old
            except (BufferError, SystemError):  # the second where there is no mremap
                pass
        new = _map_memory(n_bytes) if n_bytes >= MAPPED_BYTES else np.empty(n_bytes, np.uint8)
        if old is not None:
            n_kept = min(len(old), n_bytes)
            as_bytes(new)[:n_kept] = as_bytes(old)[:n_kept]
        return new

    def open(self, name: str, n_bytes: int) -> Room:
        raise AssertionError("nothing outlives its process in memory")

    def free(self, name: str) -> None:
        pass

    def release_pages(self) -> None:
        pass


class MemoryMap(mmap.mmap):
    """Memory that was mapped, and that a weak dictionary can hold."""


def _map_memory(n_bytes: int) -> MemoryMap:
    mapped = MemoryMap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # what is shared cannot grow
    if hasattr(mmap, "MADV_HUGEPAGE"):
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped


def as_bytes(room: Room) -> np.ndarray:
    """The bytes of a vector as an array over them."""
    return np.frombuffer(room, np.uint8)


class Vector:
    """A growing array of items of one type, or of rows of `width` such items."""

    __slots__ = ("_arena", "_array", "_capacity", "_dtype", "_name", "_room", "_width")

    def __init__(self, dtype: Any, arena: Arena, width: int | None = None, capacity: int = 1):
        self._dtype = np.dtype(dtype)
        self._arena = arena
        self._width = width
        self._name = arena.new_name()
        self._capacity = 0
        self._room: Room | None = None
        self._array: np.ndarray | None = None
        self.resize(capacity)

    def __len__(self) -> int:
        """How many items there is room for."""
        return self._capacity

    @property
    def array(self) -> np.ndarray:
        """The items, with room for more at the end. Not to be kept over a call that may resize the vector."""
        if self._array is None:
            if self._room is None:
                self._room = self._arena.open(self._name, self._n_bytes(self._capacity))
            self._array = self._shaped(as_bytes(self._room))
        return self._array

    def reserve(self, n_items: int) -> None:
        """Makes room for at least so many items."""
        if n_items > self._capacity:
            self.resize(max(n_items, int(self._arena.growth * self._capacity)))

    def resize(self, n_items: int) -> None:
        """Makes room for just so many items; those beyond are lost."""
        n_items = max(1, n_items)
        if n_items == self._capacity and self._room is not None:
            return
        self._array = None
        self._room = self._arena.resize(self._name, self._room, self._n_bytes(n_items))
        self._capacity = n_items

    def write(self, at: int, items: np.ndarray) -> None:
        """Puts items in their place, making room for them."""
        self.reserve(at + len(items))
        self.array[at : at + len(items)] = items

    def drop(self, n_gone: int, n_items: int) -> None:
        """Removes the first `n_gone` of `n_items` items. The room that they took is given back if it is most of all."""
        array, n_left = self.array, n_items - n_gone
        step = min(n_gone, ITEMS_PER_MOVE) or n_left or 1
        for start in range(0, n_left if n_gone else 0, step):
            stop = min(start + step, n_left)
            array[start:stop] = array[n_gone + start : n_gone + stop]
            self._arena.release_pages()
        del array
        # Items of a window come and go; room that is given back and made anew each time is slow.
        if self._capacity > self._arena.growth**2 * n_left:
            self.resize(n_left + n_left // 4)

    def free(self) -> None:
        """Gives all room back. The vector must not be used any more."""
        self._room = self._array = None
        self._arena.free(self._name)

    def _shaped(self, data: np.ndarray) -> np.ndarray:
        items = data.view(self._dtype)
        return items if self._width is None else items.reshape(-1, self._width)

    def _n_bytes(self, n_items: int) -> int:
        return n_items * self._dtype.itemsize * (1 if self._width is None else max(1, self._width))

    def __getstate__(self) -> tuple:
        return self._arena, self._name, self._dtype.str, self._width, self._capacity

    def __setstate__(self, state: tuple) -> None:
        self._arena, self._name, dtype, self._width, self._capacity = state
        self._dtype = np.dtype(dtype)
        self._room = self._array = None


def dump(state: object, arena: Arena) -> bytes:
    """An object graph that holds vectors and segments of `arena`, without their content."""
    sink = io.BytesIO()
    _Pickler(sink, arena).dump(state)
    return sink.getvalue()


def load(data: bytes, arena: Arena) -> Any:
    """The object graph that `dump` wrote, with its vectors and segments in `arena`."""
    return _Unpickler(io.BytesIO(data), arena).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, arena: Arena):
        super().__init__(file, protocol=5)
        self._arena = arena

    def persistent_id(self, obj: Any) -> int | None:
        """The arena, or its files by the length of their pages, which no other budget may change."""
        if isinstance(obj, SpillFiles):
            assert obj is self._arena.spill_files, "segments of another arena"
            return obj.settings.page_bytes
        return ARENA if obj is self._arena else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arena: Arena):
        super().__init__(file)
        self._arena = arena

    def persistent_load(self, pid: Any) -> Arena | SpillFiles:
        return self._arena if pid == ARENA else self._arena.open_files(pid)
