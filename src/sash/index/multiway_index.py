"""What finds the combinations of a join of many streams: as tuples arrive, in order of time, those they complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

COMBINATIONS_PER_CHUNK = 1 << 16


class Combinations(NamedTuple):
    """Rows that join, and from when to when they do."""

    rows: np.ndarray
    """With a line per window."""
    ts: np.ndarray
    expires: np.ndarray


class MultiwayCounts(NamedTuple):
    """The work of an index so far."""

    comparisons: int
    """Tuples looked at to find combinations: how often a tuple was tested against what had been joined before it."""
    insertions: int
    """Tuples put into buffers, intermediate results included."""
    removals: int
    """Tuples taken out of buffers, intermediate results included."""
    checks: int
    """Comparisons to find out which tuples to remove, or, in Mode 1 of MW-join, to drop."""
    outputs: int


class MultiwayIndex(Protocol):
    """Rows of several windows (`OrderedWindow`), in order of time.

    Rows of different windows join if they have equal keys, for every key that both have, and times that are not too far
    apart: t_j - t_i <= reach[i, j] for each pair of windows.
    """

    @property
    def counts(self) -> MultiwayCounts: ...

    def arrive(self, firsts: Sequence[int]) -> Iterator[np.ndarray]:
        """Takes the rows of each window from `firsts` on. They are not older than any row that arrived before.

        Gives every combination that has one of them, once, in chunks: arrays of row numbers with a line per window, at
        most about `COMBINATIONS_PER_CHUNK` columns each.
        """
        ...

    def advance(self, floors: Sequence[int]) -> None:
        """After a step: rows below these numbers, one per window, will never join again. The windows may be about to
        forget them.
        """
        ...

    def refill(self) -> None:
        """Starts afresh with all rows that the windows hold: their numbers have changed, or the index is new."""
        ...

    def free(self) -> None:
        """Gives all room back."""
        ...
