"""What an index over the windows of a join's two sides does: as tuples arrive, it finds those that they meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from sash.store.vector import Arena

LEFT, RIGHT = 0, 1
PAIRS_PER_CHUNK = 1 << 18


class Pairs(NamedTuple):
    """Rows of both sides that join, and from when to when each pair is there."""

    left: np.ndarray
    right: np.ndarray
    ts: np.ndarray
    expires: np.ndarray

    @classmethod
    def room(cls, capacity: int) -> Pairs:
        """For so many pairs."""
        return cls(*(np.empty(capacity, np.int64) for _ in range(4)))

    def first(self, n_pairs: int) -> Pairs:
        return Pairs(*(array[:n_pairs] for array in self))

    def parts(self, n_pairs: int) -> Iterator[Pairs]:
        """So many at a time."""
        for start in range(0, len(self.ts), n_pairs):
            yield Pairs(*(array[start : start + n_pairs] for array in self))


def pairs_per_chunk(arena: Arena) -> int:
    """How many pairs an index gives at once, unless a single row has more."""
    return PAIRS_PER_CHUNK if arena.budget is None else min(PAIRS_PER_CHUNK, arena.budget.n_pairs_at_once())


class JoinCounts(NamedTuple):
    """The work of an index so far, which the cost model estimates."""

    scans: int
    """Tuples looked at to find pairs."""
    insertions: int
    invalidations: int
    """Tuples removed."""
    checks: int
    """Comparisons to find out which tuples to remove."""
    outputs: int


class WindowIndex(Protocol):
    """Rows of two windows, found by key. How the rows of a step come in, and pairs out, is for each kind to say."""

    @property
    def counts(self) -> JoinCounts: ...

    def advance(self, clock: int) -> None:
        """After a step: whatever ends by this clock is stale."""
        ...

    def refill(self) -> None:
        """Starts afresh with all rows of the windows: their numbers have changed, or the index is new."""
        ...

    def give_room(self) -> None:
        """Rows have left memory: gives back the room that they had."""
        ...

    def growth(self, n_rows: int) -> int:
        """By how many bytes it may grow at once if so many rows come, beside what each of them takes."""
        ...

    def free(self) -> None:
        """Gives all room back: another index takes over."""
        ...


class JoinIndex(WindowIndex, Protocol):
    """Gives the pairs of a step as its rows come in."""

    def arrive(self, firsts: tuple[int, int], clock: int) -> Iterator[Pairs]:
        """Puts the rows of each side from `firsts` on into the index; the pairs they make, with rows of the other side
        that are there and with each other, in chunks. `clock` is the clock after this step.
        """
        ...
