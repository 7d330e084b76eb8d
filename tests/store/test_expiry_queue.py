"""The expiry queue against a sorted list.

Law: popping at `clock` takes out exactly what expires by then, in order of expiry and row, in whatever order it
     came.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store import expiry_queue
from sash.store.batch import BEGINNING, NEVER
from sash.store.directory import Directory
from sash.store.expiry_queue import FIRST_PLACES, ExpiryQueue
from sash.store.vector import dump, load


@dataclass(frozen=True)
class Step:
    """Entries that come, then the pace that is asked for and kept, or not asked for."""

    entries: tuple[tuple[int, int], ...] = ()
    clock: int = BEGINNING
    n_max: int | None = None
    restarts: bool = False


@dataclass
class Model:
    """A sorted list beside the queue that should answer alike."""

    directory: Path | None = None
    entries: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = ExpiryQueue(self._arena())

    def take(self, step: Step) -> None:
        push(self.queue, step.entries)
        self.entries = sorted([*self.entries, *(entry for entry in step.entries if entry[0] != NEVER)])
        assert len(self.queue) == len(self.entries)
        clock = step.clock
        if step.n_max is not None:
            clock = self.queue.pace(step.clock, step.n_max)
            assert clock == pace(self.entries, step.clock, step.n_max)
        if step.restarts and (arena := self._arena()) is not None:
            self.queue = load(dump(self.queue, self.queue._arena), arena)
        assert pop(self.queue, clock) == [entry for entry in self.entries if entry[0] <= clock]
        self.entries = [entry for entry in self.entries if entry[0] > clock]
        assert len(self.queue) == len(self.entries)

    def _arena(self) -> Directory | None:
        return Directory(self.directory, resident_bytes=0) if self.directory else None


def push(queue: ExpiryQueue, entries: tuple[tuple[int, int], ...]) -> None:
    queue.push(*(np.array([entry[place] for entry in entries], np.int64) for place in (0, 1)))


def pop(queue: ExpiryQueue, clock: int) -> list[tuple[int, int]]:
    expires, rows = queue.pop(clock)
    return list(zip(expires.tolist(), rows.tolist(), strict=True))


def pace(entries: list[tuple[int, int]], clock: int, n_max: int) -> int:
    """The definition: of all instants up to `clock`, the last with few enough entries up to it, or the first of all."""
    due = [expires for expires, _ in entries if expires <= clock]
    instants = [instant for expires in due for instant in (expires - 1, expires)]
    fitting = [instant for instant in [*instants, clock] if sum(expires <= instant for expires in due) <= n_max]
    return max([*fitting, *due[:1]]) if due else clock


ENTRIES = st.lists(st.tuples(st.integers(-5, 30) | st.just(NEVER), st.integers(0, 50)), max_size=12)
STEPS = st.lists(
    st.builds(
        Step,
        entries=st.one_of(ENTRIES, ENTRIES.map(sorted)).map(tuple),
        clock=st.integers(-6, 31),
        n_max=st.none() | st.integers(0, 6),
        restarts=st.booleans(),
    ),
    max_size=12,
)


def run(steps: list[Step], directory: Path | None = None) -> Model:
    model = Model(directory)
    for step in steps:
        model.take(step)
    return model


@pytest.mark.parametrize("first_places", [1, FIRST_PLACES])
@given(STEPS)
@example([Step(((9, 0), (1, 1), (2, 2), (3, 3))), Step(clock=2), Step(((4, 4),), clock=9)])
def test_entries_leave_as_from_a_sorted_list(first_places: int, steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry_queue, "FIRST_PLACES", first_places)
        run(steps)


@given(STEPS)
def test_another_process_goes_on_with_the_files(steps: list[Step]) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry_queue, "FIRST_PLACES", 1)
        run(steps, Path(directory))


@pytest.mark.parametrize(
    ("clock", "n_max", "expected"),
    [(4, 0, 4), (5, 0, 5), (9, 1, 5), (9, 2, 8), (9, 4, 8), (9, 5, 9), (7, 5, 7), (100, 5, 100), (100, NEVER, 100)],
)
def test_a_pace_takes_whole_instants_and_at_least_one(clock: int, n_max: int, expected: int) -> None:
    """
    expires   5 5        9 9 9
    """
    queue = ExpiryQueue()
    push(queue, ((9, 2), (5, 0), (9, 1), (5, 3), (9, 4)))
    assert queue.pace(clock, n_max) == expected
    assert len(queue) == 5


def test_nothing_is_due_in_an_empty_queue() -> None:
    queue = ExpiryQueue()
    assert queue.pace(7, 0) == 7
    assert pop(queue, NEVER) == []
    push(queue, ((NEVER, 1), (NEVER, 2)))
    assert len(queue) == 0


def test_the_ends_of_time() -> None:
    model = run([Step(((NEVER - 1, 1), (BEGINNING, 2)), BEGINNING, 0)])
    assert len(model.queue) == 1
    assert model.queue.pace(NEVER, 0) == NEVER - 1
    assert pop(model.queue, NEVER) == [(NEVER - 1, 1)]


def test_a_cleared_queue_is_empty() -> None:
    queue = ExpiryQueue()
    push(queue, ((5, 1), (3, 2), (4, 3)))
    queue.clear()
    assert len(queue) == 0
    push(queue, ((2, 9),))
    assert pop(queue, 10) == [(2, 9)]


def test_arrays_that_may_not_be_written_to_or_are_strided() -> None:
    """As Arrow's columns are."""
    entries = np.array([[3, 1], [1, 2], [2, 3]], np.int64)
    entries.setflags(write=False)
    queue = ExpiryQueue()
    queue.push(entries[:, 0], entries[:, 1])
    assert pop(queue, 9) == [(1, 2), (2, 3), (3, 1)]


@pytest.mark.parametrize("seed", [None, 0], ids=["in order", "out of order"])
def test_many_entries_come_and_go_and_room_follows_them(seed: int | None) -> None:
    expires = np.arange(100_000)
    if seed is not None:
        np.random.default_rng(seed).shuffle(expires)
    queue = ExpiryQueue()
    for start in range(0, len(expires), 10_000):
        queue.push(expires[start : start + 10_000], -expires[start : start + 10_000])
    assert n_places(queue) >= 100_000
    for clock in range(999, 99_999, 1000):
        seen, rows = queue.pop(clock)
        assert seen.tolist() == list(range(clock - 999, clock + 1))
        assert rows.tolist() == [-one for one in seen.tolist()]
        assert n_places(queue) <= 8 * len(queue) + 2 * FIRST_PLACES


def test_room_stays_when_as_many_come_as_go() -> None:
    """
    The ring turns in its place, and one far expiry does not send what follows it into the heap.
    """
    queue = ExpiryQueue()
    push(queue, ((10**9, 0),))
    for start in range(0, 100_000, 500):
        queue.push(np.arange(start, start + 500), np.arange(500))
        assert len(queue.pop(start - 1)[0]) == min(start, 500)
        assert n_places(queue) == 2 * FIRST_PLACES
    assert queue._size == 1
    assert queue._count == 500


def n_places(queue: ExpiryQueue) -> int:
    return len(queue._ring) + len(queue._heap)
