"""The hash index against all pairs that ever were: those whose keys are equal and whose lives overlap.

A step is what a join does: both windows take this step's tuples, these arrive, and the windows forget what is dead.
Whatever comes is newer than the clock of the step before, in whatever order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.index import hash_index, join_index
from sash.index.hash_index import HashIndex
from sash.store import block_window
from sash.store.batch import EXPIRES, OP, TS, int64_column
from sash.store.block_window import CUTS
from sash.store.directory import Directory
from sash.store.vector import dump, load
from sash.store.window import Window

SCHEMA = pa.schema(
    [("key", pa.int64()), ("number", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8())]
)
WINDOWS_US = (20, 7)


@dataclass(frozen=True)
class Step:
    """Tuples of both sides as (key, time after the last clock), how far the clock moves, and whether others go on."""

    progress: int
    tuples: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = ((), ())
    restarts: bool = False


@dataclass
class Model:
    directory: Path | None = None
    clock: int = 0
    n_made: int = 0
    seen: tuple[list, list] = field(default_factory=lambda: ([], []))
    """All tuples that ever came: (number, key, ts, expires)."""

    def __post_init__(self) -> None:
        arena = Directory(self.directory, resident_bytes=0) if self.directory else None
        self.windows = [Window(SCHEMA, partial(int64_column, name="key"), life, arena) for life in WINDOWS_US]
        self.index = HashIndex(self.windows)

    def take(self, step: Step) -> None:
        firsts = tuple(each.next_row for each in self.windows)
        known = [len(side) for side in self.seen]
        n_rebuilds = sum(each.n_rebuilds for each in self.windows)
        clock = self.clock + step.progress
        for side, made in enumerate(step.tuples):
            self.windows[side].insert(self._make(side, made), clock)
        assert sorted(self._arrive(firsts, clock)) == sorted(self._expected(known))
        for each in self.windows:
            each.evict(clock, np.empty(0, np.int64))
        if sum(each.n_rebuilds for each in self.windows) > n_rebuilds:
            self.index.refill()
        self.clock = clock
        if step.restarts:
            self._restart()

    def _make(self, side: int, made) -> pa.Table:
        rows = [
            (self.n_made + idx, key, self.clock + after, self.clock + after + WINDOWS_US[side])
            for idx, (key, after) in enumerate(made)
        ]
        self.n_made += len(rows)
        self.seen[side].extend(rows)
        numbers, keys, ts, expires = ([row[idx] for row in rows] for idx in range(4))
        columns = {"key": keys, "number": numbers, TS: ts, EXPIRES: expires, OP: [1] * len(rows)}
        return pa.table(columns, schema=SCHEMA)

    def _arrive(self, firsts, clock: int):
        for pairs in self.index.arrive(firsts, clock):
            left, right = (
                int64_column(each.log.rows.take(rows), "number").tolist()
                for each, rows in zip(self.windows, (pairs.left, pairs.right))
            )
            yield from zip(left, right, pairs.ts.tolist(), pairs.expires.tolist())

    def _expected(self, known: list[int]):
        for at, (number, key, ts, expires) in enumerate(self.seen[0]):
            for other_at, (other, other_key, other_ts, other_expires) in enumerate(self.seen[1]):
                is_new = at >= known[0] or other_at >= known[1]
                begin, end = max(ts, other_ts), min(expires, other_expires)
                if is_new and key == other_key and begin < end:
                    yield number, other, begin, end

    def _restart(self) -> None:
        """From the logs; or, if the arrays are in files, by mapping them anew."""
        if self.directory:
            state = dump((self.windows, self.index), self.windows[0].arena)
            self.windows, self.index = load(state, Directory(self.directory, resident_bytes=0))
            return
        old, self.windows = self.windows, Model().windows
        for each, before in zip(self.windows, old):
            each.restore(before.log.entries(), before.log.next_number, self.clock)
        self.index = HashIndex(self.windows)
        self.index.refill()


TUPLES = st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 30)), max_size=8).map(tuple)
STEPS = st.lists(st.builds(Step, st.integers(0, 15), st.tuples(TUPLES, TUPLES), st.booleans()), max_size=10)


@pytest.mark.parametrize("are_least", [False, True], ids=["usual sizes", "least sizes"])
@given(steps=STEPS)
def test_all_pairs_are_found_once(are_least: bool, steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if are_least:
            patch.setattr(hash_index, "FIRST_SLOTS", 1)
            patch.setattr(join_index, "PAIRS_PER_CHUNK", 1)
            patch.setattr(block_window, "MAX_GAPS", 1)
        model = Model()
        for step in steps:
            model.take(step)


@given(steps=STEPS)
def test_another_process_goes_on_with_the_files(steps: list[Step]) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_index, "FIRST_SLOTS", 1)
        model = Model(Path(directory))
        for step in steps:
            model.take(step)


def test_the_places_of_keys_that_are_gone_are_used_again() -> None:
    """Every tuple has a key of its own: the table must not grow with all keys that ever were."""
    model, n_steps, n_per_step = Model(), 200, 100
    for number in range(n_steps):
        keys = np.arange(number * n_per_step, (number + 1) * n_per_step)
        rows = pa.table(
            {"key": keys, "number": keys, TS: keys * 0 + number + 1, EXPIRES: keys * 0 + number + 21,
             OP: np.ones(n_per_step, np.int8)}, schema=SCHEMA,
        )  # fmt: skip
        left, right = (each.next_row for each in model.windows)
        model.windows[0].insert(rows, number)
        assert not list(model.index.arrive((left, right), number))
        for each in model.windows:
            each.evict(number, np.empty(0, np.int64))
    n_in_window = 20 * n_per_step
    assert len(model.index._slots) <= 8 * n_in_window
    counts = model.index.counts
    assert (counts.scans, counts.insertions, counts.outputs) == (0, n_steps * n_per_step, 0)
    assert counts.insertions - counts.invalidations <= n_in_window * (1 + 1 / CUTS)


@given(steps=STEPS)
def test_steps_in_order_are_taken_in_turns(steps: list[Step]) -> None:
    """With turns as short as can be, the same pairs are found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_index, "MIN_ROWS_PER_TURN", 1)
        model = Model()
        for step in steps:
            left, right = (
                tuple((key, after * 10) for key, after in sorted(side, key=lambda each: each[1]))
                for side in step.tuples
            )
            model.take(Step(step.progress * 10, (left, right), step.restarts))


def test_a_step_of_many_windows_is_not_scanned_as_a_whole() -> None:
    model, n_rows = Model(), 20_000
    tuples = tuple((0, 5 * number + 1) for number in range(n_rows))
    for side, each in enumerate(model.windows):
        each.insert(model._make(side, tuples), 5 * n_rows)
    assert sum(len(pairs.ts) for pairs in model.index.arrive((0, 0), 5 * n_rows)) < 6 * n_rows
    n_seen = model.index.counts.scans / n_rows
    assert n_seen < hash_index.MIN_ROWS_PER_TURN, "a tuple meets a few others, and looks at those of a turn"


def test_a_key_with_more_tuples_than_fit_into_a_chunk() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_index, "PAIRS_PER_CHUNK", 4)
        model = Model()
        model.take(Step(1, (((7, 1),) * 10, ((7, 1),) * 3)))
        model.take(Step(1, (((7, 1),), ((7, 2),))))
