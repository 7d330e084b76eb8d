"""Tuples that wait for the clock: what has come and is newer than it, however much that is.

    clock      ──────────────┤
    segments         ▏▏▏▏▏▏▏▏│▏▏▏▏▏▏▏▏▏▏▏▏▏      on disk, each in order of time: as the clock moves they are read
    segments                 │  ▏▏▏▏▏▏▏▏▏▏▏▏     from one end to the other
    head                     │      ▏ ▏▏  ▏ ▏    in memory, as they have come

A segment is removed as a file when its last tuple has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sash.store.batch import BEGINNING, NEVER, TS, int64_column
from sash.store.block import Block
from sash.store.block_log import Adapt
from sash.store.memory_budget import PASSING_BYTES
from sash.store.segment import WindowSegment
from sash.store.timed_log import TimedLog
from sash.store.vector import Arena


class HeldTuples(TimedLog):
    """Tuples newer than `clock`, in the order in which they came."""

    def __init__(self, schema: pa.Schema, arena: Arena):
        super().__init__(schema, arena)
        self.clock = BEGINNING
        self.oldest_us: int = NEVER
        """The least time of those that are held."""
        self._spans: dict[int, tuple[int, int]] = {}
        """By the first row of a block, its first and its last time."""
        self._places: dict[str, int] = {}
        """By the name of a segment's file, how many of its tuples have left."""

    def release(self, clock: int) -> list[pa.Table]:
        """Moves the clock: those that it passes, in the order in which they came if they have one time. They are
        forgotten. As long as there are none, no block is looked at.
        """
        if self.oldest_us > clock:
            self.clock = clock
            return []
        places = {segment.name: self._place_at(segment, clock) for segment in self.log.segments}
        due = self._due(clock, places)
        self.clock, self._places = clock, places
        self._forget()
        return due

    def is_due(self, tuples: pa.Table, clock: int) -> np.ndarray:
        """Which leave when the clock moves. A block stays until its last tuple is due, so some may have left before."""
        ts = int64_column(tuples, TS)
        return (ts > self.clock) & (ts <= clock)

    def hold(self, later: pa.Table) -> None:
        """Adds tuples, all newer than the clock."""
        if later.num_rows:
            self.make_room(later.nbytes)
            self._see(self.log.append(later), later)
            self.oldest_us = min(self.oldest_us, int(int64_column(later, TS).min()))

    def pace(self, clock: int, n_max: int) -> int:
        """The latest time up to which at most about `n_max` leave, or as many as a step may have in memory; `clock` at
        most. Those of one instant leave together. Where memory has no limit they may all leave at once.
        """
        budget = self.log.arena.budget
        if budget is None or self.oldest_us > clock:
            return clock
        n_max = min(n_max, self._n_in_step)
        first = np.empty(0, np.int64)
        for times in self._next_times(clock, n_max + 1):
            first = np.sort(np.concatenate([first, times]))[: n_max + 1]
        return clock if len(first) <= n_max else min(clock, max(int(first[0]), int(first[-1]) - 1))

    def restore(self, entries: Mapping[str, bytes], next_number: int, clock: int, adapt: Adapt) -> None:
        """Becomes what the log's entries describe. They are sealed as they come in if they are too many."""
        self.clock = clock
        self._spans, self._places = {}, {}
        self.log.restore(entries, next_number, adapt, self._see_restored)
        self.oldest_us = self._oldest()

    def _due(self, clock: int, places: Mapping[str, int]) -> list[pa.Table]:
        """Copies of those that leave: of segments up to new places."""
        sealed: list[pa.Table] = []
        for segment in self.log.segments:
            first, last = self._places[segment.name], places[segment.name]
            if last > first:
                sealed.append(segment.take(segment.first + np.arange(first, last)))
        blocks = [self.log.read(block) for block in self.log.head if self._spans[block.first][0] <= clock]
        return [*sealed, *(block.filter(pa.array(self.is_due(block, clock))) for block in blocks)]

    def _forget(self) -> None:
        """Those that the clock has passed, block by block."""
        gone = [block for block in self.log.blocks if self._spans[block.first][1] <= self.clock]
        for block in gone:
            del self._spans[block.first]
        self.log.drop(gone)
        self.log.trim()
        self._places = {segment.name: self._places[segment.name] for segment in self.log.segments}
        self.oldest_us = self._oldest()

    def _place_at(self, segment: WindowSegment, clock: int) -> int:
        """Of the first tuple of a segment that is newer than the clock."""
        place = self._places[segment.name]
        while segment.min_ts <= clock and place < segment.n_rows:
            times = _times(segment, place, self._n_in_step)
            n_due = int(np.searchsorted(times, clock, side="right"))
            place += n_due
            if n_due < len(times):
                break
        return place

    def _see(self, block: Block, tuples: pa.Table) -> None:
        ts = int64_column(tuples, TS)
        self._spans[block.first] = int(ts.min()), int(ts.max())

    def _see_restored(self, block: Block) -> None:
        self._see(block, self.log.read(block))
        self.make_room(block.n_bytes)

    def _oldest(self) -> int:
        """The least time of a tuple that has not left."""
        times = [self._first_time(each) for each in self.log.segments]
        head = self._head_times
        here = head[head > self.clock]
        return min([*times, int(here.min())] if len(here) else times, default=NEVER)

    def _first_time(self, segment: WindowSegment) -> int:
        """Of what has not left; at least one tuple has not, or the segment would be gone."""
        place = self._places[segment.name]
        return int(_times(segment, place, 1)[0]) if place else segment.min_ts

    @property
    def _head_times(self) -> np.ndarray:
        """Of all rows in memory; those of blocks that are gone are not newer than the clock."""
        rows = self.log.rows
        return rows.int64(TS)[: rows.n_rows]

    @property
    def _n_in_step(self) -> int:
        """How many of the tuples that are held a step may have in memory, beside as many of another stream."""
        budget, log = self.log.arena.budget, self.log
        assert budget is not None
        return max(1, budget.step_bytes // (2 * (log.n_bytes // max(1, log.n_rows) + PASSING_BYTES)))

    def _next_times(self, clock: int, n_rows: int) -> Iterator[np.ndarray]:
        """Times of tuples that are due, in parts; of each segment the first ones, which are so many or all."""
        head = self._head_times
        yield head[(head > self.clock) & (head <= clock)]
        for segment in self.log.segments:
            if segment.min_ts <= clock:
                times = _times(segment, self._places[segment.name], n_rows)
                yield times[times <= clock]

    def _note_sealed(self, segment: WindowSegment, blocks: Sequence[Block], times: np.ndarray) -> None:
        self._places[segment.name] = int(np.searchsorted(times, self.clock, side="right"))


def _times(segment: WindowSegment, place: int, n_rows: int) -> np.ndarray:
    """Of so many tuples of a segment from a place on, or of all that are there."""
    return segment.ids(segment.first + np.arange(place, min(place + n_rows, segment.n_rows)))[:, 0]
