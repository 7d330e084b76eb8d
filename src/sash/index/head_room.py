"""Who has to leave memory before a step begins: the oldest rows of whichever window of a join has the most there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sash.errors import ResourceError
from sash.store.block_log import BlockLog
from sash.store.memory_budget import GROWTH, LEAST_SHARE, ROW_BYTES, MemoryBudget

LEAST_PAGES = 8
"""A head of less than twice as many pages leaves memory whole."""


class Sealable(Protocol):
    """A window whose oldest rows can leave memory."""

    @property
    def may_seal(self) -> bool: ...

    @property
    def log(self) -> BlockLog: ...

    def seal(self, n_rows: int) -> None:
        """Moves the oldest rows of the head to disk: whole blocks, until there are so many."""
        ...


def make_room(
    windows: Sequence[Sealable], budget: MemoryBudget | None, give_room: Callable[[], None], n_rows: int, n_bytes: int
) -> None:
    """Seals what must leave memory before so much comes in: half of the largest window's head at a time, or all of a
    short one. `give_room` is called whenever rows have left, for the index over them.

    A head that is small beside what others keep stays: segments of a few rows would cost more than they free. If the
    disk has no room, all stays as it is, and the budget knows why.
    """
    if budget is None or not all(window.may_seal for window in windows):
        return
    coming = budget.n_state_bytes_of(n_rows, n_bytes)
    # A vector that is full grows by more than what comes, and a file is what it becomes without room for that.
    while budget.n_state_bytes + max(coming, _next_growth(windows)) > budget.state_bytes:
        largest = max(windows, key=_head_bytes)
        if LEAST_SHARE * _head_bytes(largest) < budget.state_bytes:
            return
        try:
            largest.seal(_n_sealed_rows(largest))
        except ResourceError as error:
            budget.refused = error
            return
        give_room()


def row_bytes(window: Sealable) -> int:
    """Of the columns of a row."""
    return window.log.n_bytes // max(1, window.log.n_rows)


def _n_sealed_rows(window: Sealable) -> int:
    """How many rows leave at once. What is known of a file, and ends of pages, are written for few rows as for many."""
    n_rows, n_bytes = window.log.n_head_rows, sum(block.n_bytes for block in window.log.head)
    is_short = n_bytes < 2 * LEAST_PAGES * window.log.arena.spill_files.settings.page_bytes
    return n_rows if is_short else -(-n_rows // 2)


def _next_growth(windows: Sequence[Sealable]) -> int:
    """What all vectors of the heads take more if they grow."""
    return int((GROWTH - 1) * sum(map(_head_bytes, windows)))


def _head_bytes(window: Sealable) -> int:
    return sum(block.n_bytes + ROW_BYTES * block.n_rows for block in window.log.head)
