"""The index of a join whose tuples leave by the clock alone: one hash table over the windows of both sides.

A tuple that has left is not taken out: a chain of rows ends at the first one that is gone, and the place of a key all
of whose rows are gone is given to another. The table grows when its keys have become too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sash.index import join_index
from sash.index.join_index import LEFT, RIGHT, JoinCounts, Pairs
from sash.kernels import hash_join
from sash.kernels.hash_join import JoinSides, PairRoom, SlotTable
from sash.store.vector import Vector
from sash.store.window import Window

FIRST_SLOTS = 1024
GROWTH = 4
"""How many times more slots there are when they were too few."""
MIN_ROWS_PER_TURN = 1024
"""Fewer rows do not pay for a turn of their own."""


class HashIndex:
    """Rows of two windows by key."""

    def __init__(self, windows: Sequence[Window]):
        self._windows = tuple(windows)
        self._arena = windows[LEFT].arena
        self._slots = Vector(np.int64, self._arena, hash_join.SLOT_WIDTH)
        self._n_free = 0
        self._n_scanned = self._n_inserted = self._n_output = 0
        self.refill()

    def arrive(self, firsts: tuple[int, int], clock: int) -> Iterator[Pairs]:
        """The pairs that the rows from `firsts` on make, in chunks; see `JoinIndex`."""
        capacity = join_index.pairs_per_chunk(self._arena)
        out, n_out, upto = Pairs.room(capacity), 0, list(firsts)
        self._n_inserted += sum(window.next_row - first for window, first in zip(self._windows, firsts))
        for side, stop, floors in self._turns(firsts):
            while upto[side] < stop:
                first, last = upto[side], min(stop, upto[side] + self._arena.rows_per_call)
                upto[side], n_out = self._arrive(side, (first, last), floors, out, n_out)
                if upto[side] == last:
                    continue
                if not self._n_free:
                    self._fill(self._enough_slots(), upto)
                    continue
                if n_out:
                    yield self._counted(out, n_out)
                else:
                    capacity *= 2
                out, n_out = Pairs.room(capacity), 0
        if n_out:
            yield self._counted(out, n_out)

    def advance(self, clock: int) -> None:
        """The windows say what is gone."""

    def refill(self) -> None:
        """Puts all rows of the windows into a fresh table."""
        self._fill(self._first_slots(), [window.next_row for window in self._windows])

    def give_room(self) -> None:
        """By a smaller table, if that is enough; rows that have left are none to meet."""
        if self._first_slots() < len(self._slots.array):
            self.refill()

    def growth(self, n_rows: int) -> int:
        """A table that is full is followed by one that is twice as large."""
        if n_rows <= self._n_free:
            return 0
        n_held = sum(window.next_row - window.floor for window in self._windows)
        return max(0, _slots_for(n_held + n_rows) - len(self._slots.array)) * 8 * hash_join.SLOT_WIDTH

    def free(self) -> None:
        """Gives the room of the table back."""
        self._slots.free()

    @property
    def counts(self) -> JoinCounts:
        """Tuples are removed with their windows' blocks, which needs no comparison."""
        n_evicted = sum(window.n_evicted for window in self._windows)
        return JoinCounts(self._n_scanned, self._n_inserted, n_evicted, 0, self._n_output)

    def _counted(self, out: Pairs, n_out: int) -> Pairs:
        self._n_output += n_out
        return out.first(n_out)

    def _turns(self, firsts: tuple[int, int]) -> Iterator[tuple[int, int, np.ndarray]]:
        """Which side arrives next, up to which row, and below which rows of both sides nothing is met any more.

        One turn for each side, as a rule. A step that is many windows long is taken in turns of about a window, or each
        tuple would look at all of the step that have its key.
        """
        spans = [slice(first - each.base, each.next_row - each.base) for each, first in zip(self._windows, firsts)]
        cuts = self._cut_times(spans)
        stops = [
            [*(first + np.searchsorted(each.ts[span], cuts)), each.next_row]
            for each, span, first in zip(self._windows, spans, firsts)
        ]
        floors = [self._floors()]
        if len(cuts):
            floors += list(np.column_stack([_first_alive(each, cuts) for each in self._windows]))
        for turn, floor in enumerate(floors):
            for side in (LEFT, RIGHT):
                yield side, int(stops[side][turn]), floor

    def _cut_times(self, spans: list[slice]) -> np.ndarray:
        """Instants between turns; none if a step is short, or if its tuples are not in order of time."""
        ts = [each.ts[span] for each, span in zip(self._windows, spans)]
        n_rows = sum(map(len, ts))
        if n_rows < 2 * MIN_ROWS_PER_TURN or any(np.any(each[1:] < each[:-1]) for each in ts):
            return np.empty(0, np.int64)
        begin, end = (pick(int(each[at]) for each in ts if len(each)) for pick, at in ((min, 0), (max, -1)))
        lives = [each.ends[span].astype(np.float64) - each.ts[span] for each, span in zip(self._windows, spans)]
        n_windows = (end - begin) / max(float(each.max(initial=1.0)) for each in lives)
        n_turns = min(int(n_windows), n_rows // MIN_ROWS_PER_TURN)
        return np.linspace(begin, end, max(n_turns, 1) + 1)[1:-1].astype(np.int64)

    def _arrive(self, side: int, span: tuple[int, int], floors: np.ndarray, out: Pairs, n_out: int) -> tuple[int, int]:
        """Up to which row tuples have arrived, and how many pairs there are now."""
        own, other = self._windows[side], self._windows[1 - side]
        sides = JoinSides(own.keys, own.records, own.base, other.records, other.base)
        rows = (out.left, out.right) if side == LEFT else (out.right, out.left)
        table, room = SlotTable(self._slots.array, floors, self._n_free), PairRoom(*rows, out.ts, out.expires)
        upto, n_out, self._n_free, n_scanned = hash_join.arrive(side, *span, sides, table, n_out, room)
        self._n_scanned += n_scanned
        self._arena.release_pages()
        return upto, n_out

    def _fill(self, n_slots: int, upto: list[int]) -> None:
        """Puts the rows below `upto` into a fresh table of so many slots, or of more if they are too few."""
        self._slots.resize(n_slots)
        self._slots.array[:, hash_join.HEADS :] = hash_join.FREE
        self._n_free = n_slots * 5 // 8
        for side, window in enumerate(self._windows):
            first = window.floor
            while first < upto[side]:
                if not self._n_free:
                    self._fill(GROWTH * n_slots, upto)
                    return
                last = min(upto[side], first + self._arena.rows_per_call)
                table = SlotTable(self._slots.array, self._floors(), self._n_free)
                rows = window.keys, window.records, window.base
                first, self._n_free = hash_join.link(side, first, last, *rows, table)
                self._arena.release_pages()

    def _first_slots(self) -> int:
        """Where memory is short, just as many as the rows may need; else it is found out by trying."""
        if self._arena.budget is None:
            return FIRST_SLOTS
        return _slots_for(sum(window.next_row - window.floor for window in self._windows))

    def _enough_slots(self) -> int:
        """So many that the keys that are there take less than half of what may be taken; less where memory is short."""
        n_keys = hash_join.count_keys(self._slots.array, self._floors())
        return _slots_for(2 * n_keys if self._arena.budget is None else n_keys + n_keys // 4)

    def _floors(self) -> np.ndarray:
        return np.array([window.floor for window in self._windows])


def _slots_for(n_keys: int) -> int:
    n_slots = FIRST_SLOTS
    while n_slots * 5 // 8 <= n_keys:
        n_slots *= 2
    return n_slots


def _first_alive(window: Window, times: np.ndarray) -> np.ndarray:
    """For each instant the first row of a window that has not ended by then, or that has one before it that has not."""
    ends = window.ends[window.floor - window.base : window.next_row - window.base]
    return window.floor + np.searchsorted(np.maximum.accumulate(ends), times, side="right")
