"""The shared window join: every query gets what it would get alone, in the same order, under every schedule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.papers.shared import shared_join
from sash.papers.shared.shared_join import SCHEDULES, Released, SharedJoin, WorkCosts

A, B = 0, 1
WINDOWS = (2, 3, 6, 10, 15)


def alone(tuples: list[tuple[int, int, int]], window: int, since: int = 0) -> list[tuple[int, int]]:
    """The pairs of one query, (later, earlier), for tuples (side, ts, key) in order of arrival."""
    return [
        (later, earlier)
        for later in range(since, len(tuples))
        for earlier in reversed(range(later))
        if tuples[earlier][0] != tuples[later][0]
        and tuples[earlier][2] == tuples[later][2]
        and tuples[later][1] - tuples[earlier][1] < window
    ]


def push(join: SharedJoin, tuples: list[tuple[int, int, int]]) -> None:
    sides, ts, keys = np.array(tuples, np.int64).reshape(-1, 3).T
    join.push(sides, ts, keys)


def by_window(released: Released) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for window, later, earlier in zip(released.windows_us.tolist(), released.later.tolist(), released.earlier.tolist()):
        found.setdefault(window, []).append((later, earlier))
    return found


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    steps = draw(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 0, 0, 1, 2, 7]), st.integers(-1, 1))))
    ts, tuples = 0, []
    for side, gap, key in steps:
        ts += gap
        tuples.append((side, ts, key))
    return tuples


@pytest.fixture(autouse=True, params=[1, 1 << 10], ids=["no room", "room"])
def room(request, monkeypatch):
    """Buffers that hold nothing at first have to grow at every pair, in the middle of whatever is done."""
    monkeypatch.setattr(shared_join, "_ROOM", request.param)


settings = st.tuples(
    st.sampled_from(sorted(SCHEDULES)),
    st.booleans(),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([0.0, 0.5, 3.0]),
)


@given(streams(), settings, st.lists(st.sampled_from(WINDOWS), min_size=1, unique=True))
def test_every_query_gets_what_it_would_get_alone(tuples, setting, windows):
    schedule, is_hashed, *costs = setting
    join = SharedJoin(sorted(windows), None, schedule, is_hashed, WorkCosts(*costs))
    push(join, tuples)
    released = join.advance()
    found = by_window(released)
    assert {window: found.get(window, []) for window in windows} == {each: alone(tuples, each) for each in windows}
    assert (join.n_held, join.n_waiting) == (0, 0)
    assert released.at_us.tolist() == sorted(released.at_us.tolist())
    assert all(at >= tuples[later][1] for at, later in zip(released.at_us, released.later))


changes = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["add", "drop"]), st.sampled_from(WINDOWS), st.integers(0, 12)),
    max_size=8,
)


@given(streams(), settings, changes)
def test_queries_come_and_go(tuples, setting, changes):
    """A query gets the pairs of the tuples that arrive after it, and when it goes, it has got the first of them."""
    schedule, is_hashed, *costs = setting
    join = SharedJoin([3, 15], [1, 1], schedule, is_hashed, WorkCosts(*costs))
    since, n_queries = {3: 0, 15: 0}, {3: 1, 15: 1}
    found: dict[int, list[tuple[int, int]]] = {}
    rest = list(tuples)

    def collect(released: Released) -> None:
        for window, pairs in by_window(released).items():
            found.setdefault(window, []).extend(pairs)

    for n_next, change, window, wait in changes:
        push(join, rest[:n_next])
        rest = rest[n_next:]
        collect(join.advance(later_by(join, wait)))
        if change == "add" and window <= max(n_queries):
            number = join.add(window)
            since.setdefault(window, number)
            n_queries[window] = n_queries.get(window, 0) + 1
        elif change == "drop" and window in n_queries and (len(n_queries) > 1 or n_queries[window] > 1):
            join.drop(window)
            n_queries[window] -= 1
            if n_queries[window] == 0:
                expected = alone(tuples, window, since.pop(window))
                got = found.pop(window, [])
                assert got == expected[: len(got)]
                del n_queries[window]
        assert join.windows_us == sorted(n_queries)
    push(join, rest)
    collect(join.advance())
    assert {each: found.get(each, []) for each in n_queries} == {
        each: alone(tuples, each, since[each]) for each in n_queries
    }
    assert (join.n_held, join.n_waiting) == (0, 0)


def later_by(join: SharedJoin, wait: int) -> float:
    """A time after the clock, which may lie within the work for the tuples that have come."""
    return (join.clock_us if math.isfinite(join.clock_us) else 0) + wait


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("is_hashed", [False, True])
def test_old_rows_are_forgotten(schedule, is_hashed):
    rng = np.random.default_rng(5)
    tuples = [(int(side), number, int(key)) for number, (side, key) in enumerate(rng.integers(0, (2, 9), (6_000, 2)))]
    join = SharedJoin([5, 40, 100], None, schedule, is_hashed, WorkCosts(0.01, 0.05))
    found: dict[int, list[tuple[int, int]]] = {5: [], 40: [], 100: []}
    for first in range(0, len(tuples), 500):
        push(join, tuples[first : first + 500])
        for window, pairs in by_window(join.advance(first + 450)).items():
            found[window] += pairs
    for window, pairs in by_window(join.advance()).items():
        found[window] += pairs
    for window, pairs in found.items():
        recent = [pair for later in range(6_000) for pair in alone_of(tuples, later, window)]
        assert pairs == recent
    assert join.n_stored < 2_000
    assert 100 <= join.peaks.join < 200


def alone_of(tuples: list[tuple[int, int, int]], later: int, window: int) -> list[tuple[int, int]]:
    first = max(0, later - window)
    return [(later, first + earlier) for own, earlier in alone(tuples[first : later + 1], window, later - first)]


def test_loaded_tuples_are_joined_but_do_not_scan():
    join = SharedJoin([5], None, "swf")
    join.load(np.array([A, B]), np.array([0, 1]), np.array([7, 7]))
    push(join, [(A, 2, 7), (B, 3, 7)])
    assert by_window(join.advance()) == {5: [(2, 1), (3, 2), (3, 0)]}
    assert join.n_scans == 3


def test_responses_count_from_when_they_are_measured():
    join = SharedJoin([5], None, "lwo", True, WorkCosts(1, 2))
    push(join, [(A, 0, 7), (B, 1, 7)])
    join.advance()
    join.measure()
    push(join, [(A, 10, 7), (B, 11, 7), (B, 11, 7)])
    join.advance()
    (response,) = join.responses()
    assert response == (5, 2, 4.5, 6)
    assert join.peaks == (3, 2, 0), "the first tuples have left the join buffers"


def test_nested_loops_look_at_all_tuples_in_the_window_and_hashing_at_those_of_a_bucket():
    tuples = [(number % 2, number, number // 2) for number in range(100)]
    nested, hashed = (SharedJoin([21], None, "mqt", is_hashed) for is_hashed in (False, True))
    for join in (nested, hashed):
        push(join, tuples)
        assert len(join.advance().later) == 50
    assert nested.n_scans == sum(min(10, (number + 1) // 2) for number in range(100))
    assert hashed.n_scans == 50


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(3))
def test_queries_come_and_go_while_many_tuples_wait(schedule, seed):
    """More arrives than can be scanned: the line grows, rows move, and tuples wait at all levels."""
    rng = np.random.default_rng(seed)
    ts = np.cumsum(rng.integers(0, 3, 3_000)).tolist()
    tuples = list(zip(rng.integers(0, 2, 3_000).tolist(), ts, rng.integers(0, 9, 3_000).tolist()))
    join = SharedJoin([5, 40, 100, 120], None, schedule, True, WorkCosts(0.4, 0.2))
    since, found = dict.fromkeys([5, 40, 100, 120], 0), {each: [] for each in (5, 20, 40, 100, 120)}
    changes = {4: ("drop", 40), 6: ("add", 20), 9: ("drop", 5), 11: ("drop", 120), 13: ("add", 40), 14: ("drop", 20)}
    for number, first in enumerate(range(0, 3_000, 200)):
        push(join, tuples[first : first + 200])
        for window, pairs in by_window(join.advance(ts[first + 199])).items():
            found[window] += pairs
        assert number == 0 or join.n_waiting > 20
        change, window = changes.get(number, ("none", 0))
        if change == "add":
            since[window], found[window] = join.add(window), []
        elif change == "drop":
            join.drop(window)
            expected = near(tuples, window, since.pop(window))
            assert found[window] == expected[: len(found[window])]
    for window, pairs in by_window(join.advance()).items():
        found[window] += pairs
    for window, number in since.items():
        assert found[window] == near(tuples, window, number)
    assert (join.n_held, join.n_waiting) == (0, 0)


def near(tuples: list[tuple[int, int, int]], window: int, since: int) -> list[tuple[int, int]]:
    """As `alone`, for many tuples that come about one in a time unit: those far before a tuple are left out."""
    pairs = []
    for later in range(since, len(tuples)):
        first = max(0, later - 3 * window - 30)
        pairs += [(later, first + earlier) for _, earlier in alone(tuples[first : later + 1], window, later - first)]
    return pairs


@given(streams(), settings, st.integers(0, 30), st.integers(0, 12), st.sampled_from([20, 40]))
def test_a_window_larger_than_all_others_is_complete_when_tuples_were_kept_for_as_long(
    tuples, setting, n_first, wait, window
):
    schedule, is_hashed, *costs = setting
    join = SharedJoin([3, 15], None, schedule, is_hashed, WorkCosts(*costs))
    push(join, tuples[:n_first])
    found = by_window(join.advance(later_by(join, wait)))
    since, begin = join.add(window), tuples[n_first - 1][1] if 0 < n_first <= len(tuples) else 0
    push(join, tuples[n_first:])
    for each, pairs in by_window(join.advance()).items():
        found.setdefault(each, []).extend(pairs)
    assert {each: found.get(each, []) for each in (3, 15)} == {each: alone(tuples, each) for each in (3, 15)}
    expected = alone(tuples, window, since)
    got = found.get(window, [])
    assert got == [pair for pair in expected if pair in set(got)]
    missing = set(expected) - set(got)
    assert all(tuples[earlier][1] <= begin - 15 for _, earlier in missing), "only what was dropped before is missing"
    assert (join.n_held, join.n_waiting) == (0, 0)


def test_other_queries_are_served_when_nobody_waits():
    join = SharedJoin([5, 20], None, "mqt")
    push(join, [(A, 0, 7), (B, 1, 7)])
    join.advance()
    join.regroup([2, 10], [1, 3])
    assert join.windows_us == [2, 10]
    assert join.throughput[1, 2] == pytest.approx(3 / 8)
    push(join, [(A, 3, 7), (B, 3, 7)])
    assert by_window(join.advance()) == {2: [(3, 2)], 10: [(2, 1), (3, 2), (3, 0)]}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_larger_table_finds_the_same_with_fewer_looks(schedule):
    rng = np.random.default_rng(2)
    tuples = [
        (int(side), number, int(key)) for number, (side, key) in enumerate(rng.integers(0, (2, 20_000), (60_000, 2)))
    ]
    found, n_scans = [], []
    for is_spread in (False, True):
        join = SharedJoin([500, 10_000, 30_000], None, schedule)
        pairs = []
        for first in range(0, 60_000, 20_000):
            if is_spread:
                join.spread(20_000)
            push(join, tuples[first : first + 20_000])
            pairs += sorted(zip(*(column.tolist() for column in join.advance()[:3])))
        found.append(pairs)
        n_scans.append(join.n_scans)
    assert found[0] == found[1]
    assert n_scans[1] < n_scans[0] / 2
