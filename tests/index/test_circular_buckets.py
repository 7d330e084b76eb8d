"""Kostowski's window joins against all pairs that overlap, and against the paper's Figures 2 and 3 in plain Python.

Law: whatever arrives, in whatever order and however it is cut into calls, each pair with equal keys whose lives
     overlap is found once, under every strategy and with any number of buckets.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.index import circular_buckets, join_index
from sash.index.circular_buckets import INVALIDATIONS, CircularBuckets
from sash.index.join_index import LEFT, RIGHT, JoinCounts
from sash.kernels.bucket_join import DEAD
from sash.kernels.hashing import mix64
from sash.store.batch import NEVER
from sash.store.directory import Directory
from sash.store.vector import Arena, Memory, dump, load


@dataclass
class Rows:
    """A side whose rows are all in memory. Those before `base` are forgotten when it moves."""

    base: int = 0
    keys: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    ts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    ends: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    ids: np.ndarray | None = None

    @property
    def floor(self) -> int:
        return self.base

    @property
    def next_row(self) -> int:
        return self.base + len(self.keys)

    def add(self, tuples: list[tuple[int, int, int]]) -> int:
        """Appends tuples (key, ts, end); returns the first row that is new."""
        first = self.next_row
        new = np.array(tuples, np.int64).reshape(-1, 3)
        self.keys, self.ts, self.ends = (
            np.concatenate([old, new[:, place]]) for place, old in enumerate((self.keys, self.ts, self.ends))
        )
        return first

    def forget_dead(self, clock: int) -> None:
        """As an owner does: the oldest rows go while they are dead."""
        dead = self.ends <= clock + 1
        n_gone = len(dead) if dead.all() else int(np.argmin(dead))
        self.base += n_gone
        self.keys, self.ts, self.ends = (each[n_gone:].copy() for each in (self.keys, self.ts, self.ends))


@dataclass(frozen=True)
class Call:
    """Tuples (key, ts, end) of both sides, and the clock after them."""

    left: tuple[tuple[int, int, int], ...]
    right: tuple[tuple[int, int, int], ...]
    clock: int


def overlapping(left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, (key_i, ts_i, end_i) in enumerate(left)
        for j, (key_j, ts_j, end_j) in enumerate(right)
        if key_i == key_j and max(ts_i, ts_j) < min(end_i, end_j)
    ]


def run(
    calls: list[Call], n_buckets: int | tuple[int, int], invalidation: str, arena: Arena | None = None
) -> tuple[CircularBuckets, list[tuple[int, int]]]:
    """The index after all calls, and the pairs it found."""
    arena = arena or Memory()
    sides = Rows(), Rows()
    index = CircularBuckets(sides, n_buckets, invalidation, arena)
    found = []
    for call in calls:
        firsts = sides[LEFT].add(list(call.left)), sides[RIGHT].add(list(call.right))
        for pairs in index.arrive(firsts, call.clock):
            found += zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
        for side in sides:
            side.forget_dead(call.clock)
        if isinstance(arena, Directory):
            index = load(dump(index, arena), arena)
            sides = index._sides
    return index, sorted(found)


def expected(calls: list[Call]) -> list[tuple[int, int]]:
    return overlapping([each for call in calls for each in call.left], [each for call in calls for each in call.right])


@st.composite
def out_of_order(draw: st.DrawFn) -> list[Call]:
    """Calls whose tuples are newer than the clock of the call before, and in no other order."""
    calls, clock = [], 0
    made = st.tuples(st.integers(-2, 3), st.integers(1, 15), st.integers(1, 20))
    for _ in range(draw(st.integers(0, 8))):
        left, right = (
            tuple((key, clock + after, clock + after + life) for key, after, life in draw(st.lists(made, max_size=8)))
            for _ in range(2)
        )
        clock += draw(st.integers(0, 12))
        calls.append(Call(left, right, clock))
    return calls


@st.composite
def in_order(draw: st.DrawFn) -> list[Call]:
    """Two streams in order of time with windows of one length each, cut anywhere."""
    windows = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    calls, now = [], 0
    for gaps in draw(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=8))):
        sides: tuple[list, list] = [], []
        for gap, key, is_left in gaps:
            now += gap
            side = LEFT if is_left else RIGHT
            sides[side].append((key, now, now + windows[side]))
        calls.append(Call(tuple(sides[LEFT]), tuple(sides[RIGHT]), now - 1))
    return calls


BUCKETS = st.sampled_from([1, 2, 3, 100, (1, 5), (4, 3)])


@pytest.mark.parametrize("invalidation", INVALIDATIONS)
@pytest.mark.parametrize("are_least", [False, True], ids=["usual sizes", "least sizes"])
@given(calls=out_of_order() | in_order(), n_buckets=BUCKETS)
@example([Call(((1, 5, 9), (1, 2, 4)), ((1, 3, 20),), 1), Call((), ((1, 8, 9), (1, 2, 3)), 9)], 1)
def test_all_overlapping_pairs_are_found_once(invalidation, are_least, calls, n_buckets) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if are_least:
            patch.setattr(join_index, "PAIRS_PER_CHUNK", 1)
            patch.setattr(circular_buckets, "FIRST_SLOTS", 1)
            patch.setattr(circular_buckets, "MAX_SLACK", 0)
        assert run(calls, n_buckets, invalidation)[1] == expected(calls)


@given(calls=out_of_order(), n_buckets=BUCKETS, invalidation=st.sampled_from(INVALIDATIONS))
def test_another_process_goes_on_with_the_files(calls, n_buckets, invalidation) -> None:
    with TemporaryDirectory() as directory:
        arena = Directory(Path(directory), resident_bytes=0)
        assert run(calls, n_buckets, invalidation, arena)[1] == expected(calls)


class Paper:
    """Figures 2 and 3, tuple by tuple, with the four strategies of §4.2."""

    def __init__(self, n_buckets: tuple[int, int], invalidation: str):
        self.buckets = [[deque() for _ in range(number)] for number in n_buckets]
        self.invalidation = invalidation
        self.scans = self.insertions = self.invalidations = self.checks = self.outputs = 0

    def arrive(self, side: int, one: tuple[int, int, int]) -> None:
        key, ts, _ = one
        own, other = (
            self.buckets[each][int(mix64(np.int64(key)) % np.uint64(len(self.buckets[each])))]
            for each in (side, 1 - side)
        )
        for bucket in [other] if self.invalidation in ("probe", "probe_insert") else self.buckets[1 - side]:
            self._remove(bucket, ts)
        self.scans += len(other)
        self.outputs += sum(other_key == key and ts < other_end for other_key, _, other_end in other)
        self.insertions += 1
        own.append(one)
        for bucket in {"probe_insert": [own], "optimal": self.buckets[side]}.get(self.invalidation, []):
            self._remove(bucket, ts)

    def occupancy(self, side: int) -> int:
        return sum(map(len, self.buckets[side]))

    def _remove(self, bucket: deque, now: int) -> None:
        self.checks += 1
        while bucket and bucket[0][2] <= now:
            bucket.popleft()
            self.checks += 1
            self.invalidations += 1


def merged(calls: list[Call]) -> list[tuple[int, tuple[int, int, int]]]:
    """All tuples in the order in which they arrive."""
    arrivals = []
    for call in calls:
        both = [(side, one) for side, tuples in enumerate((call.left, call.right)) for one in tuples]
        arrivals += sorted(both, key=lambda arrival: arrival[1][1])
    return arrivals


@pytest.mark.parametrize("invalidation", INVALIDATIONS)
@given(calls=in_order(), n_buckets=BUCKETS)
def test_the_work_is_that_of_the_paper(invalidation, calls, n_buckets) -> None:
    """Rows stay with their owner here, as the paper has no other place for tuples than the buckets."""
    both = n_buckets if isinstance(n_buckets, tuple) else (n_buckets, n_buckets)
    paper = Paper(both, invalidation)
    for side, one in merged(calls):
        paper.arrive(side, one)
    index = CircularBuckets(sides := (Rows(), Rows()), n_buckets, invalidation)
    for call in calls:
        firsts = sides[LEFT].add(list(call.left)), sides[RIGHT].add(list(call.right))
        list(index.arrive(firsts, NEVER - 1))
    assert index.counts == JoinCounts(*(getattr(paper, name) for name in JoinCounts._fields))
    assert [index.occupancy(side) for side in (LEFT, RIGHT)] == [paper.occupancy(side) for side in (LEFT, RIGHT)]


@given(calls=in_order(), n_buckets=BUCKETS)
def test_optimal_invalidation_leaves_nothing_stale(calls, n_buckets) -> None:
    sides = Rows(), Rows()
    index = CircularBuckets(sides, n_buckets, "optimal")
    for side, one in merged(calls):
        left, right = (rows.add([one] if side == place else []) for place, rows in enumerate(sides))
        list(index.arrive((left, right), one[1] - 1))
        assert [index.occupancy(each) for each in (LEFT, RIGHT)] == [int((rows.ends > one[1]).sum()) for rows in sides]


def test_occupancy_is_noted_at_instants() -> None:
    """
    left     1   2       5        each for 3
    right            4
    instants   1         5   9    everything up to the instant has arrived
    """
    sides = Rows(), Rows()
    index = CircularBuckets(sides, 2, "optimal")
    index.sample(np.array([1, 5, 9]))
    firsts = sides[LEFT].add([(0, 1, 4), (0, 2, 5), (0, 5, 8)]), sides[RIGHT].add([(0, 4, 7)])
    list(index.arrive(firsts, 5))
    assert index.samples.tolist() == [[1, 0], [1, 1], [1, 1]]


def test_only_the_strategy_removes_stale_tuples() -> None:
    """A thousand tuples of the left with a window of ten, and none of the right, which alone would probe."""
    left = tuple((0, ts, ts + 10) for ts in range(1000))
    calls = [Call(left, (), 0)]
    occupancies = {name: run(calls, 1, name)[0].occupancy(LEFT) for name in INVALIDATIONS}
    assert occupancies == {"probe": 1000, "probe_insert": 1000, "probe_all": 1000, "optimal": 1000}, "0 may yet come"
    sides = Rows(), Rows()
    for name, held in {"probe": 1000, "probe_insert": 10, "probe_all": 1000, "optimal": 10}.items():
        sides = Rows(), Rows()
        index = CircularBuckets(sides, 1, name)
        list(index.arrive((sides[LEFT].add(list(left)), 0), 999))
        assert index.occupancy(LEFT) == held


def test_what_the_owner_has_forgotten_makes_room() -> None:
    """Probe-time invalidation with no probes: buckets do not grow with rows that are gone."""
    sides = Rows(), Rows()
    index = CircularBuckets(sides, 1, "probe")
    for start in range(0, 100_000, 100):
        first = sides[LEFT].add([(0, ts, ts + 10) for ts in range(start, start + 100)])
        list(index.arrive((first, 0), start + 99))
        sides[LEFT].forget_dead(start + 99)
    assert index.occupancy(LEFT) < 1000


def test_buckets_that_were_full_once_give_their_room_back() -> None:
    sides = Rows(), Rows()
    index = CircularBuckets(sides, 50, "optimal")
    many = [(key, 0, 1) for key in range(20) for _ in range(2000)]
    list(index.arrive((sides[LEFT].add(many), 0), 0))
    n_once = len(index._buckets[LEFT]._slots)
    for ts in range(1, 3000):
        list(index.arrive((sides[LEFT].add([(1000 + ts % 40, ts, ts + 100)]), 0), ts))
    assert index.occupancy(LEFT) == 100
    assert len(index._buckets[LEFT]._slots) <= n_once
    index._buckets[LEFT].make_room()
    assert len(index._buckets[LEFT]._slots) < n_once / 10
    found = list(index.arrive((sides[LEFT].next_row, sides[RIGHT].add([(1000, 2999, 3010)])), 2999))
    assert sorted(sides[LEFT].ts[found[0].left].tolist()) == [2920, 2960]


def filled(tuples: list[tuple[int, int, int]], ids: list[int] | None = None) -> tuple[CircularBuckets, Rows]:
    """An index with tuples on the left, for a step in phases."""
    rows = Rows()
    rows.add(tuples)
    rows.ids = None if ids is None else np.array(ids, np.int64).reshape(-1, 1)
    index = CircularBuckets((rows, Rows()), 3)
    index.insert(LEFT, 0, rows.next_row)
    return index, rows


def probed(index: CircularBuckets, *tuples: tuple[int, int, int], row_limit: int = NEVER) -> list[tuple[int, int]]:
    keys, ts, ends = np.array(tuples, np.int64).T.copy()
    chunks = index.probe(LEFT, keys, ts, ends, row_limit)
    return [pair for at, rows in chunks for pair in zip(at.tolist(), rows.tolist(), strict=True)]


def test_in_phases_rows_below_the_limit_are_probed() -> None:
    index, _ = filled([(7, 1, 5), (8, 1, 5), (7, 2, 6), (7, 3, 7)])
    assert probed(index, (7, 4, 9), (8, 5, 9), (7, 5, 9)) == [(0, 0), (0, 2), (0, 3), (2, 2), (2, 3)]
    assert probed(index, (7, 4, 9), row_limit=3) == [(0, 0), (0, 2)]


def test_in_phases_the_owner_may_end_a_tuple_early() -> None:
    index, rows = filled([(7, 1, 9), (7, 2, 9)])
    rows.ends[0] = 4
    assert probed(index, (7, 3, 9), (7, 4, 9)) == [(0, 0), (0, 1), (1, 1)]


def test_in_phases_what_ends_by_the_clock_is_dropped_when_it_is_probed() -> None:
    index, _ = filled([(7, 1, 4), (7, 1, 5)])
    index.advance(4)
    assert probed(index, (7, 3, 9)) == [(0, 1)], "nothing that can still come overlaps the first"
    assert index.occupancy(LEFT) == 1


def test_a_row_is_found_once() -> None:
    index, _ = filled([(7, 1, 9), (7, 1, 9), (8, 1, 9)], ids=[4, 4, 4])
    asked = np.array([7, 7, 7, 8, 9]), np.array([[4], [4], [4], [5], [4]]), np.full(5, 9)
    assert index.find(LEFT, *asked).tolist() == [0, 1, -1, -1, -1]


def test_of_rows_with_one_identity_the_one_that_lives_until_then_is_found() -> None:
    #       v1 |---4   6---v3---9
    #              4-v2-6          the order in which rows came, or are taken back, says nothing
    rows = [(7, 4, 99), (7, 6, 99), (7, 1, 99), (7, 20, 99)]
    index, _ = filled(rows, ids=[5, 5, 5, 5])
    asked = np.full(3, 7), np.full((3, 1), 5), np.array([9, 4, 6])
    assert index.find(LEFT, *asked).tolist() == [1, 2, 0]


def test_a_row_that_has_expired_or_is_still_to_come_is_not_found() -> None:
    index, _ = filled([(7, 1, 3), (7, 5, 9)], ids=[5, 5])
    asked = np.full(2, 7), np.full((2, 1), 5), np.array([4, 5])
    assert index.find(LEFT, *asked).tolist() == [-1, -1]


def test_dead_rows_are_not_filled_in_again() -> None:
    index, rows = filled([(7, 1, 9), (7, 2, 9), (8, 3, 9)], ids=[1, 2, 3])
    rows.ends[1] = DEAD
    index.refill()
    assert index.occupancy(LEFT) == 2
    assert probed(index, (7, 3, 9)) == [(0, 0)]
    assert index.find(LEFT, np.array([7]), np.array([[2]]), np.array([5])).tolist() == [-1]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 10)), max_size=40),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 10)), min_size=1, max_size=10),
)
def test_in_phases_all_overlapping_pairs_are_found(made, probing) -> None:
    tuples, probes = ([(key, ts, ts + life) for key, ts, life in each] for each in (made, probing))
    index, _ = filled(tuples)
    assert sorted(probed(index, *probes)) == overlapping(probes, tuples)
