"""The scheduled index against all pairs there are: each class gets its own, by whole instants, in order of time.

A step is what a join does: both windows take this step's tuples, these arrive, and the windows forget what is dead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.papers.shared import scheduled_index
from sash.papers.shared.scheduled_index import ScheduledIndex, Turn
from sash.papers.shared.shared_join import SCHEDULES
from sash.store import block_window
from sash.store.batch import EXPIRES, OP, TS, int64_column
from sash.store.window import Window

SCHEMA = pa.schema([("key", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8())])
LIFE_US = 20
CLASSES_US = (1, 2, 5, 9, 14, 20)


@dataclass(frozen=True)
class Step:
    """Tuples of both sides as (key, time since the last clock, life), how far the clock moves, and classes from then on
    with their numbers of queries, if they change."""

    progress: int
    tuples: tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int, int], ...]] = ((), ())
    classes: tuple[tuple[int, int], ...] = ()


@dataclass
class Model:
    schedule: str
    classes: list[tuple[int, int]]
    clock: int = 0
    seen: tuple[list, list] = field(default_factory=lambda: ([], []))
    """All tuples that ever came: (key, ts, expires)."""

    def __post_init__(self) -> None:
        self.windows = [Window(SCHEMA, partial(int64_column, name="key"), LIFE_US) for _ in range(2)]
        classes_us, n_queries = zip(*self.classes)
        self.index = ScheduledIndex(self.windows, classes_us, n_queries, self.schedule)

    def take(self, step: Step) -> list[Turn]:
        left, right = (each.next_row for each in self.windows)
        known = [len(side) for side in self.seen]
        clock = self.clock + step.progress
        for side, made in enumerate(step.tuples):
            rows = [(key, self.clock + after, self.clock + after + life) for key, after, life in made]
            self.seen[side].extend(rows)
            self.windows[side].insert(table(rows), clock)
        expected = [self._expected(known, window_us) for window_us, _ in self.classes]
        turns = list(self.index.turns((left, right), clock))
        for window, pairs in enumerate(expected):
            self._check([turn for turn in turns if turn.window == window], pairs, clock)
        for each in self.windows:
            each.evict(clock)
        self.index.advance(clock)
        self.clock = clock
        if step.classes:
            self.classes = list(step.classes)
            self.index.reclass(*zip(*self.classes))
        return turns

    def _expected(self, known: list[int], window_us: int) -> list[tuple]:
        """(ts, expires, key) of the pairs that this step makes for a class, and the times of both members."""
        return sorted(
            (max(one[1], two[1]), min(one[2], two[2]), one[0], one[1], two[1])
            for left, one in enumerate(self.seen[0])
            for right, two in enumerate(self.seen[1])
            if (left >= known[0] or right >= known[1])
            and one[0] == two[0]
            and abs(one[1] - two[1]) < window_us
            and max(one[1], two[1]) < min(one[2], two[2])
        )

    def _check(self, turns: list[Turn], expected: list[tuple], clock: int) -> None:
        got = []
        for turn in turns:
            assert not {pair[0] for pair in got} & set(turn.pairs.ts.tolist()), "an instant comes in one turn"
            got += self._values(turn)
            complete = [pair for pair in expected if pair[0] <= turn.complete_us]
            assert sorted(pair for pair in got if pair[0] <= turn.complete_us) == complete
        assert sorted(got) == expected
        assert [pair[0] for pair in got] == [pair[0] for pair in expected]
        assert turns[-1].complete_us >= clock

    def _values(self, turn: Turn) -> list[tuple]:
        pairs = turn.pairs
        left, right = (rows - each.base for each, rows in zip(self.windows, (pairs.left, pairs.right)))
        keys, left_ts = self.windows[0].keys[left], self.windows[0].ts[left]
        assert keys.tolist() == self.windows[1].keys[right].tolist()
        columns = (pairs.ts, pairs.expires, keys, left_ts, self.windows[1].ts[right])
        return list(zip(*(column.tolist() for column in columns)))


def table(rows: list[tuple[int, int, int]]) -> pa.Table:
    keys, ts, expires = ([row[idx] for row in rows] for idx in range(3))
    return pa.table({"key": keys, TS: ts, EXPIRES: expires, OP: [1] * len(rows)}, schema=SCHEMA)


@st.composite
def class_lists(draw: st.DrawFn) -> list[tuple[int, int]]:
    windows = sorted(draw(st.sets(st.sampled_from(CLASSES_US), min_size=1)))
    return [(window, draw(st.integers(1, 3))) for window in windows]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    progress = draw(st.sampled_from([0, 1, 3, 9, 40]))
    each = st.tuples(st.integers(-1, 1), st.integers(1, max(progress, 1)), st.sampled_from([LIFE_US] * 3 + [2, 7]))
    sides = st.lists(each, max_size=8 if progress else 0).map(tuple)
    is_changed = draw(st.integers(0, 3)) == 0
    return Step(progress, (draw(sides), draw(sides)), tuple(draw(class_lists())) if is_changed else ())


@given(
    st.sampled_from(sorted(SCHEDULES)),
    class_lists(),
    st.lists(steps(), max_size=8),
    st.sampled_from([1, 3, 1 << 16]),
    st.sampled_from([1, 4, 1 << 18]),
    st.booleans(),
)
def test_every_class_gets_its_pairs(schedule, classes, steps, n_pairs, n_tuples, is_sparse):
    """`is_sparse`: rows get new numbers whenever there are gaps."""
    with (
        mock.patch.multiple(scheduled_index, PAIRS_PER_RUN=n_pairs, TUPLES_PER_BURST=n_tuples),
        mock.patch.multiple(block_window, FIRST_ROWS=1 if is_sparse else 1024, MAX_GAPS=1 if is_sparse else 8),
    ):
        model = Model(schedule, classes)
        for step in steps:
            model.take(step)


def burst(n_tuples: int, n_keys: int, span_us: int, seed: int = 3) -> Step:
    """So many tuples on both sides, spread over a step."""
    rng = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        after, keys = np.sort(rng.integers(1, span_us + 1, n_tuples)).tolist(), rng.integers(0, n_keys, n_tuples)
        sides.append(tuple((key, ts, LIFE_US) for key, ts in zip(keys.tolist(), after)))
    return Step(span_us, tuple(sides))


def turns_of(schedule: str, classes: list[tuple[int, int]], n_pairs: int = 16) -> list[Turn]:
    with mock.patch.object(scheduled_index, "PAIRS_PER_RUN", n_pairs):
        model = Model(schedule, classes)
        model.take(burst(30, 3, 15))
        return model.take(burst(60, 3, 15, seed=4))


CLASSES = [(2, 1), (9, 1), (20, 1)]


def test_smallest_window_first_completes_a_class_before_it_begins_the_next():
    windows = [turn.window for turn in turns_of("swf", CLASSES)]
    assert windows == sorted(windows)
    assert windows.count(2) > 3


def test_largest_window_only_serves_all_classes_alike():
    turns = turns_of("lwo", CLASSES)
    windows = [turn.window for turn in turns]
    assert windows.index(2) < len(windows) - windows[::-1].index(0) - 1, "the largest has begun when the smallest ends"
    assert [(turn.window, turn.complete_us) for turn in turns[-3:]] == [(0, 30), (1, 30), (2, 30)]


def test_maximum_query_throughput_serves_first_where_most_queries_are():
    """A tuple goes on to a window that many queries have, and only then comes the next; without them it waits."""
    crowded, even = (turns_of("mqt", [(2, 1), (9, n_queries), (20, 1)]) for n_queries in (50, 1))
    for turns, is_together in ((crowded, True), (even, False)):
        last_of_first = max(place for place, turn in enumerate(turns) if turn.window == 0)
        first_of_second = min(place for place, turn in enumerate(turns) if turn.window == 1)
        assert (first_of_second < last_of_first) == is_together
        assert min(place for place, turn in enumerate(turns) if turn.window == 2) > last_of_first


def test_all_of_one_instant_comes_in_one_turn_per_class():
    with mock.patch.object(scheduled_index, "PAIRS_PER_RUN", 4):
        side = tuple((0, 1, LIFE_US) for _ in range(20))
        for schedule in SCHEDULES:
            turns = Model(schedule, CLASSES).take(Step(1, (side, side)))
            assert [(turn.window, len(turn.pairs.ts)) for turn in turns] == [(0, 400), (1, 400), (2, 400)]


def test_a_long_step_is_several_bursts():
    """Of as many instants as fit; one that is too long is a burst by itself."""
    times = [1, 2, 2, 3, 4, 4, 4, 4, 4, 5]
    side = tuple((0, ts, LIFE_US) for ts in times)
    with mock.patch.object(scheduled_index, "TUPLES_PER_BURST", 4):
        turns = Model("swf", [(1, 1), (20, 1)]).take(Step(9, (side, ())))
    assert [(turn.window, turn.complete_us) for turn in turns] == [
        (window, end) for end in (3, 4, 9) for window in (0, 1)
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_step_without_tuples_completes_all_classes(schedule):
    turns = Model(schedule, CLASSES).take(Step(5))
    assert [(turn.window, len(turn.pairs.ts), turn.complete_us) for turn in turns] == [(0, 0, 5), (1, 0, 5), (2, 0, 5)]


@pytest.mark.parametrize("schedule", ["swf", "mqt"])
def test_a_class_is_told_complete_before_the_others_are_worked_on(schedule):
    """However many pairs a run may find: the smallest class does not wait for the rest of it."""
    model = Model(schedule, [(1, 9), (20, 1)])
    model.windows[0].insert(table([(key, 0, LIFE_US) for key in range(5_000)]), 0)
    turns = model.index.turns((0, 0), 0)
    first = next(turns)
    assert (first.window, first.complete_us) == (0, 0)
    assert model.index._join.n_waiting == 5_000, "nobody has scanned the largest window"
    assert [turn.window for turn in turns] == [1]
    assert model.index._join.n_waiting == 0


def test_counts_are_of_tuples_and_pairs_whatever_the_classes():
    model = Model("mqt", CLASSES)
    model.take(Step(5, (((1, 1, LIFE_US), (2, 2, LIFE_US)), ((1, 3, LIFE_US),))))
    assert model.index.counts[:2] == (1, 3)
    assert model.index.counts.outputs == 1


def test_a_freed_index_holds_nothing_and_can_be_filled_again():
    model = Model("swf", CLASSES)
    step = Step(1, (((1, 1, LIFE_US),), ((1, 1, LIFE_US),)))
    model.take(step)
    model.index.free()
    assert model.index._join.n_stored == 0
    model.index.refill()
    assert [len(turn.pairs.ts) for turn in model.take(step)] == [3, 3, 3]
