"""How much memory whatever runs together may take, and which part of it is for what.

    half      state: the rows, keys and indexes that operators keep from step to step
    quarter   a step: the tuples that it is worked off in, and what it puts out
    quarter   disk: what is known of files by heart, and frames of them that are read

Nobody asks for permission to allocate. Vectors are counted as they are (`Arena.n_bytes`), and whoever can let go of
memory does so before a part is used up: windows seal their oldest rows, steps are worked off in bites, and a vector for
which there is no room left is a file.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sash.errors import ResourceError

ROW_BYTES = 192
"""What the arrays and indexes of a window take for a row beside its columns, at most."""
TRACE_BYTES = 40
"""What a trace takes for a row beside its columns: the number of its key, and its place among those that expire."""
PASSING_BYTES = 64
"""What a row takes beside its columns that passes through operators and is looked up, but not kept."""
LEAST_SHARE = 16
"""What is less than one part in so many of what is for state is not sealed: files of a few rows would cost more than
they free."""
GROWTH = 1.25
"""How much larger vectors become than what they hold, where memory is short."""
ROOMY_GROWTH = 1.5
"""And as long as half of it is free: they are moved, and give room back, less often."""
PAIR_BYTES = 128
"""What a pair of rows takes while it is found and joined, beside the columns of both, at most."""
LEAST_PAIRS = 64
LEAST_BYTES = 1 << 14
"""Less is refused, whatever the plan; see `plan/least_memory.py` for what a plan needs."""
LEAST_ROWS = 16
"""So many rows are worked on at once, however little memory there is."""
SHARE_OF_STATE = 3 / 4
"""Once they are state, a bite's tuples may take this part of what is for it; the rest is for older ones."""
SHARE_OF_PIECE = 1 / 2
"""And this one those of a piece: little has to leave for it, so segments are large, and what is in memory is new."""


FULL_WHEN_RESTORED = 3 / 4
"""What is restored goes to disk as soon as this part of what is for state is in use."""

T = TypeVar("T")


class Counted(Protocol):
    """Something that holds memory."""

    @property
    def n_bytes(self) -> int: ...


class Guided(Protocol):
    """Something that knows by heart what is on disk."""

    @property
    def n_guide_bytes(self) -> int: ...


class MemoryBudget:
    """Of all that shares it: bytes for each of its parts, and the directory for what does not fit."""

    def __init__(self, state_bytes: int, step_bytes: int, disk_bytes: int, spill: Path):
        self.state_bytes = state_bytes
        self.step_bytes = step_bytes
        self.disk_bytes = disk_bytes
        self.spill = spill
        self.refused: ResourceError | None = None
        """Why something that should have left memory is still there: a step is not given up half-way. Whoever begins
        the next one makes room first, or refuses it."""
        self.n_reads = 1
        """So many files may be read one within the other; see `expect_reads`."""
        self._holders: weakref.WeakSet[Counted] = weakref.WeakSet()
        self._guided: weakref.WeakSet[Guided] = weakref.WeakSet()
        self._shared: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    @classmethod
    def of(cls, n_bytes: int, spill: Path) -> MemoryBudget:
        """So much in all."""
        assert n_bytes >= LEAST_BYTES
        return cls(n_bytes // 2, n_bytes // 4, n_bytes // 4, spill)

    @property
    def n_bytes(self) -> int:
        """All parts together."""
        return self.state_bytes + self.step_bytes + self.disk_bytes

    def is_filled_by(self, n_bytes: int) -> bool:
        """Whether what is restored would go to disk if state took so much."""
        return n_bytes > FULL_WHEN_RESTORED * self.state_bytes

    @property
    def growth(self) -> float:
        """How much larger vectors become when they are full, now."""
        return ROOMY_GROWTH if 2 * self.n_state_bytes <= self.state_bytes else GROWTH

    def n_state_bytes_of(self, n_rows: int, n_bytes: int) -> int:
        """What so many rows with so many bytes of columns take once they are state."""
        return int(GROWTH * (n_bytes + ROW_BYTES * n_rows))

    def n_pairs_at_once(self, row_bytes: int = PAIR_BYTES) -> int:
        """How many pairs a step may have in memory, if the columns of both rows have so many bytes."""
        return max(LEAST_PAIRS, self.step_bytes // (PAIR_BYTES + row_bytes))

    def expect_reads(self, n_reads: int) -> None:
        """Says that so many files will be read one within the other: what is for disk has to do for all of them."""
        self.n_reads = max(self.n_reads, n_reads)

    def count(self, holder: Counted) -> None:
        """Counts what a holder has, from now on, as state."""
        self._holders.add(holder)

    def shared(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """What all that share the budget have in common under a name, as long as one of them has it."""
        found = self._shared.get(name)
        if found is None:
            found = self._shared[name] = make()
        assert isinstance(found, kind)
        return found

    @property
    def n_state_bytes(self) -> int:
        """What state takes now."""
        return sum(each.n_bytes for each in self._holders)

    def has_room_for_guides(self, asking: Guided) -> bool:
        """Whether what is known of files by heart leaves half of what is for disk to reading them. Whoever asks is
        counted from now on.
        """
        self._guided.add(asking)
        return 2 * sum(each.n_guide_bytes for each in self._guided) <= self.disk_bytes
