"""Tuples that are too many for memory, put in order of time: sorted run by run, written to disk, and merged.

    add     part  part  part │ part  part │ …      what has come is sorted and written as a run when it is enough
    give    run   ▏▏▏▏▏▏▏▏▏▏▏                      runs are cut into batches, of which a few are in memory at a time:
            run   ▏▏▏▏▏▏▏▏▏▏▏                      all up to the least last tuple of any of them can be given out

If they are not too many, nothing is written and nothing is sorted here. If the disk has no room, they stay in memory,
and the budget knows why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.errors import ResourceError
from sash.store.batch import NEVER, TS, concat, int64_column, sorted_by_time
from sash.store.spill_files import SpillFile, SpillFiles
from sash.store.timed_turns import OrderedTuples
from sash.store.vector import Arena

RUNS_AT_ONCE = 32
"""More runs are merged to one first."""
LEAST_RUN_BYTES = 1 << 16
"""Less is kept in memory, however little there is: its batches would be rows."""
PLACE = "_place"


class SortedRuns:
    """Tuples of one step: added in any order, then given out in order of time, once."""

    def __init__(self, arena: Arena, with_ties: bool, n_sharing: int = 1, leaving_first: bool = False):
        """`with_ties`, `leaving_first`: how tuples of one instant are in order, too; see `sorted_by_time`.
        `n_sharing`: how many share what is for a step.
        """
        assert arena.budget is not None
        self._arena, self._budget = arena, arena.budget
        self._in_order = partial(sorted_by_time, with_ties=with_ties, leaving_first=leaving_first)
        self._most_bytes = max(LEAST_RUN_BYTES, arena.budget.step_bytes // (2 * n_sharing))
        self._held: list[pa.Table] = []
        self._n_held_bytes = 0
        self._n_rows = 0
        self._runs: list[_Run] = []

    def add(self, tuples: pa.Table) -> None:
        """Some tuples, of the same columns as the others."""
        if self._runs and not tuples.num_rows:
            return
        self._held.append(tuples)
        self._n_rows += tuples.num_rows
        self._n_held_bytes += tuples.nbytes
        if self._n_held_bytes > self._most_bytes:
            self._write_held()

    @property
    def is_large(self) -> bool:
        """Whether they are too many for memory."""
        return bool(self._runs)

    @property
    def most_bytes(self) -> int:
        """About so much of them should be in memory at once."""
        return self._most_bytes

    def finish(self, schema: pa.Schema) -> pa.Table | OrderedTuples:
        """All tuples, which have this schema: those that fit as they have come, else in order of time."""
        if self._runs:
            return OrderedTuples(self.give(), schema, self._n_rows)
        return concat([schema.empty_table(), *self.give()])

    def give(self) -> Iterator[pa.Table]:
        """All tuples: those that fit as they have come, else in order of time, some at a time."""
        if not self._runs:
            held, self._held = self._held, []
            yield from [concat(held)] if held else []
            return
        self._make_few()
        yield from self._merge(self._runs)
        self._free()

    def _make_few(self) -> None:
        """All in runs, which can be merged at once."""
        self._write_held()
        while len(self._runs) > RUNS_AT_ONCE and self._merge_some():
            pass

    def _free(self) -> None:
        for run in self._runs:
            run.free()
        self._runs = []

    def _write_held(self) -> None:
        held, self._held, self._n_held_bytes = self._held, [], 0
        if held:
            tuples = self._in_order(concat(held))
            del held
            try:
                run = _write_run(self._arena.spill_files, self._cut(tuples))
            except ResourceError as error:
                self._budget.refused = error
                run = _Run([_first_us(batch) for batch in self._cut(tuples)], kept=list(self._cut(tuples)))
            self._runs.append(run)

    def _merge_some(self) -> bool:
        """Makes one run of some; whether there was room for it."""
        some = self._runs[:RUNS_AT_ONCE]
        try:
            run = _write_run(self._arena.spill_files, (each for part in self._merge(some) for each in self._cut(part)))
        except ResourceError as error:
            self._budget.refused = error
            for each in some:
                each.n_read, each.loaded = 0, None
            return False
        for each in some:
            each.free()
        self._runs = [*self._runs[RUNS_AT_ONCE:], run]
        return True

    def _cut(self, tuples: pa.Table) -> Iterator[pa.RecordBatch]:
        """Batches so short that one of each run fits."""
        most_bytes = self._most_bytes // (2 * RUNS_AT_ONCE)
        n_rows = max(1, most_bytes * tuples.num_rows // max(1, tuples.nbytes))
        for start in range(0, tuples.num_rows, n_rows):
            yield from tuples.slice(start, n_rows).combine_chunks().to_batches()

    def _merge(self, runs: list[_Run]) -> Iterator[pa.Table]:
        while loaded := _load_next(runs):
            parts = [run.loaded for run in loaded if run.loaded is not None]
            owners = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
            tuples = concat(parts)
            places = pa.array(np.arange(tuples.num_rows))
            in_order = self._in_order(tuples.append_column(PLACE, places))
            order = int64_column(in_order, PLACE)
            n_ready = _count_ready(runs, loaded, owners[order], int64_column(in_order, TS))
            for run, n_gone in zip(loaded, np.bincount(owners[order[:n_ready]], minlength=len(loaded)), strict=True):
                run.forget(int(n_gone))
            yield in_order.slice(0, n_ready).drop_columns([PLACE])


@dataclass(slots=True)
class _Run:
    """Tuples that are in order, in batches on disk, or in memory if there was no room."""

    firsts: list[int]
    """The first time of each batch."""
    kept: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    """The batches, if they are in memory."""
    place: _RunFile | None = None
    n_read: int = 0
    loaded: pa.Table | None = None
    """What is not given out yet of what was read."""

    @property
    def has_more(self) -> bool:
        return self.n_read < len(self.firsts)

    @property
    def next_us(self) -> int:
        """The first time that was not read yet."""
        return self.firsts[self.n_read] if self.has_more else NEVER

    @property
    def last_us(self) -> int:
        """The last time of what is loaded."""
        assert self.loaded is not None
        return int(int64_column(self.loaded, TS)[-1])

    def load(self) -> None:
        """Reads the next batch."""
        batch = self.kept[self.n_read] if self.place is None else self.place.read(self.n_read)
        self.loaded = pa.Table.from_batches([batch])
        self.n_read += 1

    def forget(self, n_rows: int) -> None:
        """The first of what is loaded have been given out."""
        assert self.loaded is not None
        self.loaded = self.loaded.slice(n_rows) if n_rows < self.loaded.num_rows else None

    def again(self) -> _Run:
        """The same, to be read from its beginning."""
        return _Run(self.firsts, self.kept, self.place)

    def free(self) -> None:
        """Nobody reads it any more."""
        if self.place is not None:
            self.place.files.free(self.place.file)


class _RunFile(NamedTuple):
    files: SpillFiles
    file: SpillFile
    schema: pa.Schema
    starts: list[int]
    """The byte that each batch begins with, and one more for the end."""

    def read(self, number: int) -> pa.RecordBatch:
        page_bytes = self.files.settings.page_bytes
        first, last = self.starts[number], self.starts[number + 1]
        (frame,) = self.files.read(self.file, [(first // page_bytes, -(-last // page_bytes))])
        base = frame.first_page * page_bytes
        return pa.ipc.read_record_batch(pa.py_buffer(frame.data[first - base : last - base]), self.schema)


def _write_run(files: SpillFiles, batches: Iterator[pa.RecordBatch]) -> _Run:
    firsts: list[int] = []
    starts: list[int] = [0]
    schemas: list[pa.Schema] = []

    def encoded() -> Iterator[np.ndarray]:
        for batch in batches:
            data = np.frombuffer(batch.serialize(), np.uint8)
            firsts.append(_first_us(batch))
            starts.append(starts[-1] + len(data))
            schemas[:] = [batch.schema]
            yield data

    file = files.write(encoded())
    return _Run(firsts, place=_RunFile(files, file, schemas[0], starts))


def _first_us(batch: pa.RecordBatch) -> int:
    return batch.column(TS)[0].as_py()


def _load_next(runs: list[_Run]) -> list[_Run]:
    """The runs that may have the next tuples, each with some of them loaded; none if all have been given out."""
    while True:
        loaded = [run for run in runs if run.loaded is not None]
        waiting = [run for run in runs if run.loaded is None and run.has_more]
        if not waiting:
            return loaded
        first = min(waiting, key=lambda run: run.next_us)
        if loaded and first.next_us > min(run.last_us for run in loaded):
            return loaded
        first.load()


def _count_ready(runs: list[_Run], loaded: list[_Run], owners: np.ndarray, ts: np.ndarray) -> int:
    """How many of the loaded tuples, in order, come before all that was not read yet. `owners` says whose each is."""
    unread_us = min((run.next_us for run in runs if run.loaded is None), default=NEVER)
    n_ready = int(np.searchsorted(ts, unread_us))
    for number, run in enumerate(loaded):
        if run.has_more:
            n_ready = min(n_ready, int(np.flatnonzero(owners == number)[-1]) + 1)
    return n_ready


class SharedRuns(SortedRuns):
    """Tuples of one step that several read, each at its own pace: all of them are added before anybody reads."""

    def __init__(self, arena: Arena, n_readers: int):
        super().__init__(arena, with_ties=False, n_sharing=n_readers, leaving_first=True)
        self._n_waiting = self._n_reading = n_readers
        self._are_few = False

    def read(self) -> Iterator[pa.Table]:
        """All tuples, for one reader: those that fit as they have come, else in order of time, some at a time."""
        self._n_waiting -= 1
        if not self._runs:
            held, self._held = self._held, self._held if self._n_waiting else []
            yield from [concat(held)] if held else []
            return
        if not self._are_few:
            self._make_few()
            self._are_few = True
        yield from self._merge([run.again() for run in self._runs])
        self._n_reading -= 1
        if not self._n_reading:
            self._free()
