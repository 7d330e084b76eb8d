"""The window buffer against a plain list of all tuples that ever came.

    Law: a probe finds exactly the tuples with its key whose lives overlap its own, of all that ever came: what has been
         forgotten would not have been found either.

A step is what an operator does: insert this step's tuples, retire some, probe, evict up to the new clock. Whatever
comes in a step, tuples, negatives or probes, is newer than the clock of the step before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.index import circular_buckets, join_index
from sash.store import block_window
from sash.store.batch import EXPIRES, NEVER, OP, TS, int64_column
from sash.store.block_window import CUTS
from sash.store.directory import Directory
from sash.store.vector import dump, load
from support.window_buffer import WindowBuffer

SCHEMA = pa.schema(
    [("key", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8()), ("_id.a", pa.int64())]
)


@dataclass
class Tuple:
    """`end` is when it was taken back, else when it expires."""

    number: int
    key: int
    ts: int
    expires: int
    end: int

    def joins(self, other: Tuple) -> bool:
        return self.key == other.key and max(self.ts, other.ts) < min(self.end, other.end)


@dataclass(frozen=True)
class Made:
    """A tuple to come: its key, its time after the last clock, and how long it lives."""

    key: int
    after: int = 1
    life: int | None = None


@dataclass(frozen=True)
class Step:
    """What happens until the clock has moved on. `retracted` says which living tuple ends, by place, and how soon."""

    progress: int
    tuples: tuple[Made, ...] = ()
    probes: tuple[Made, ...] = ()
    retracted: tuple[tuple[int, int], ...] = ()
    restarts: bool = False


@dataclass
class Model:
    """All tuples that ever came, beside the buffer that should answer as if it still held them."""

    window_us: int | None
    n_buckets: int | None = None
    directory: Path | None = None
    clock: int = 0
    tuples: list[Tuple] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.buffer = self._fresh()

    def take(self, step: Step) -> None:
        clock = self.clock + step.progress
        new = [self._make(made) for made in step.tuples]
        self.tuples += new
        self.buffer.insert(as_table(new), clock)
        retracted = self._retract(step, clock)
        self._probe([self._make(made) for made in step.probes])
        self.buffer.evict(clock, retracted)
        self.clock = clock
        if step.restarts:
            self._restart(clock)

    def living(self) -> list[Tuple]:
        """Those that a tuple still to come can meet."""
        return [one for one in self.tuples if one.end > self.clock + 1]

    def _fresh(self) -> WindowBuffer:
        arena = Directory(self.directory, resident_bytes=0) if self.directory else None
        return WindowBuffer(SCHEMA, partial(int64_column, name="key"), self.window_us, self.n_buckets, arena)

    def _restart(self, clock: int) -> None:
        """From the log; or, if the arrays are in files, by mapping them anew."""
        old = self.buffer
        if self.directory:
            self.buffer = load(dump(old, old.arena), Directory(self.directory, resident_bytes=0))
        else:
            self.buffer = self._fresh()
            self.buffer.restore(old.log.entries(), old.log.next_number, clock)

    def _make(self, made: Made) -> Tuple:
        ts = self.clock + made.after
        lives = [life for life in (made.life, self.window_us) if life is not None]
        expires = ts + min(lives) if lives else NEVER
        return Tuple(next(self.numbers), made.key, ts, expires, expires)

    def _retract(self, step: Step, clock: int) -> np.ndarray:
        living, chosen = self.living(), {}
        for place, after in step.retracted:
            one = living[place % len(living)] if living else None
            if one and one.number not in chosen:
                when = max(self.clock, one.ts) + after
                if when <= clock and when < one.end:
                    one.end, chosen[one.number] = when, one
        batch = as_table(list(chosen.values()), ts=[one.end for one in chosen.values()])
        return self.buffer.retract(batch, int64_column(batch, "key")) if chosen else np.empty(0, np.int64)

    def _probe(self, probes: list[Tuple]) -> None:
        keys, ts, ends = (np.array([getattr(one, name) for one in probes], np.int64) for name in ("key", "ts", "end"))
        found = [pair for chunk in self.buffer.probe(keys, ts, ends) for pair in zip(*map(np.ndarray.tolist, chunk))]
        ids = int64_column(self.buffer.log.rows.take(np.array([row for _, row in found], np.int64)), "_id.a").tolist()
        seen = sorted((at, number) for (at, _), number in zip(found, ids))
        assert seen == sorted(
            (at, one.number) for at, probe in enumerate(probes) for one in self.tuples if one.joins(probe)
        )


def as_table(tuples: list[Tuple], ts: list[int] | None = None) -> pa.Table:
    columns = {
        "key": [one.key for one in tuples],
        TS: ts or [one.ts for one in tuples],
        EXPIRES: [one.expires for one in tuples],
        OP: [1] * len(tuples),
        "_id.a": [one.number for one in tuples],
    }
    return pa.table(columns, schema=SCHEMA)


def run(steps: list[Step], window_us: int | None, n_buckets: int | None = None, directory: Path | None = None) -> Model:
    model = Model(window_us, n_buckets, directory)
    for step in steps:
        model.take(step)
    return model


MADE = st.lists(st.builds(Made, st.integers(-2, 2), st.integers(1, 12), st.none() | st.integers(1, 12)), max_size=8)
STEPS = st.lists(
    st.builds(
        Step,
        progress=st.integers(0, 12),
        tuples=MADE.map(tuple),
        probes=MADE.map(tuple),
        retracted=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=4).map(tuple),
        restarts=st.booleans(),
    ),
    max_size=10,
)


@pytest.mark.parametrize("are_least", [False, True], ids=["usual sizes", "least sizes"])
@given(steps=STEPS, window_us=st.none() | st.integers(1, 20), n_buckets=st.sampled_from([None, 1]))
@example([Step(1, (Made(0),)), Step(5, probes=(Made(0, 5),), retracted=((0, 3),))], None, None)
def test_probes_find_what_a_list_of_everything_would(are_least: bool, steps: list[Step], window_us, n_buckets) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if are_least:
            patch.setattr(circular_buckets, "FIRST_BUCKETS", 1)
            patch.setattr(join_index, "PAIRS_PER_CHUNK", 1)
            patch.setattr(block_window, "MAX_GAPS", 1)
        run(steps, window_us, n_buckets)


@given(steps=STEPS, window_us=st.none() | st.integers(1, 20), n_buckets=st.sampled_from([None, 1]))
def test_another_process_goes_on_with_the_files(steps: list[Step], window_us, n_buckets) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(circular_buckets, "FIRST_BUCKETS", 1)
        run(steps, window_us, n_buckets, Path(directory))


def test_a_tuple_that_dies_within_its_step_is_found_but_not_kept() -> None:
    model = run([Step(10, tuples=(Made(1, 1, life=5),), probes=(Made(1, 3),))], window_us=5)
    assert model.buffer.log.n_rows == 0
    assert model.buffer.log.take_changes() == ({}, [])


def test_a_tuple_is_kept_until_nothing_that_can_come_overlaps_it() -> None:
    """
    clock     5        6        7
    tuple     [3 ...          8)      the next tuple that can come is newer than the clock: 7 meets it, 8 would not
    """
    model = Model(window_us=5)
    model.take(Step(3, tuples=(Made(1, 3),)))
    for _ in range(3):
        model.take(Step(1))
        assert model.buffer.log.n_rows == 1
    model.take(Step(1))
    assert model.clock == 7
    assert model.buffer.log.n_rows == 0


def test_an_eighth_of_the_window_at_most_lies_dead() -> None:
    window_us = 80
    model = Model(window_us)
    for _ in range(30):
        model.take(Step(10, tuples=tuple(Made(after, after) for after in range(1, 11))))
        oldest = min(int64_column(model.buffer.log.read(block), EXPIRES).min() for block in model.buffer.log.blocks)
        assert oldest > model.clock + 1 - window_us // CUTS
        assert model.buffer.log.n_rows <= window_us * (1 + 1 / CUTS)


def test_a_batch_that_spans_many_windows_is_cut_into_a_bounded_number_of_blocks() -> None:
    model = Model(window_us=8)
    model.take(Step(0, tuples=tuple(Made(1, 1 + after * 7 % 1000) for after in range(1000))))
    assert len(model.buffer.log.blocks) <= block_window.MAX_CUTS_PER_BATCH + 1
    model.take(Step(500, probes=(Made(1, 501),)))


def test_one_tuple_that_stays_does_not_hold_the_memory_of_those_that_left() -> None:
    model = Model(window_us=None)
    model.take(Step(1, tuples=(Made(0),)))
    for _ in range(400):
        model.take(
            Step(3, tuples=tuple(Made(1) for _ in range(20)), retracted=tuple((place, 1) for place in range(1, 21)))
        )
    assert len(model.living()) == 1
    assert model.buffer.log.n_rows <= 2
    assert len(model.buffer._keys) <= 4 * block_window.FIRST_ROWS
    model.take(Step(1, probes=(Made(0), Made(1))))


@pytest.mark.slow
def test_buckets_grow_with_a_batch_however_large() -> None:
    """A relation comes in one batch."""
    tuples = tuple(Made(key) for key in range(20_000))
    model = run([Step(1, tuples), Step(1, probes=tuple(Made(key) for key in range(100)))], window_us=None)
    assert model.buffer.n_scanned < 250


def test_the_scans_of_a_probe_are_counted() -> None:
    tuples = tuple(Made(key) for key in range(100))
    hashed = run([Step(1, tuples), Step(1, probes=(Made(7),))], window_us=50)
    nested = run([Step(1, tuples), Step(1, probes=(Made(7),))], window_us=50, n_buckets=1)
    assert nested.buffer.n_scanned == 100
    assert 1 <= hashed.buffer.n_scanned < 10
