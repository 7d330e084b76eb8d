"""The algorithms of the W-join paper against all combinations.

Law: whatever arrives, however it is cut into calls, and whenever the windows forget rows or give them new numbers, each
     combination with equal keys whose times are within reach of one another is given out once, by every algorithm.
     Pipelines do so as well if streams are ahead of each other in time, as they are where they take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.index import multiway_index
from sash.index.multiway_index import MultiwayIndex
from sash.papers.wjoin import window_pipeline
from sash.papers.wjoin.arrival_order import merge_arrivals
from sash.papers.wjoin.gca_join import gca_join
from sash.papers.wjoin.ripple_join import RippleJoin
from sash.papers.wjoin.window_merge import WindowMerge
from sash.papers.wjoin.window_pipeline import WindowPipeline
from sash.papers.wjoin.wjoin_algorithms import ALGORITHMS
from sash.papers.wjoin.xjoin import XJoin

LATER, FAR = 1 << 40, 1 << 62


@dataclass
class Rows:
    """A window whose rows are all in memory. `ids` says which tuple a row is."""

    n_keys: int
    base: int = 0
    ts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    keys: np.ndarray = field(init=False)
    ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = np.empty((0, max(1, self.n_keys)), np.int64)

    @property
    def floor(self) -> int:
        return self.base

    @property
    def next_row(self) -> int:
        return self.base + len(self.ts)

    def add(self, ts: int, keys: Sequence[int], number: int) -> None:
        self.ts = np.append(self.ts, ts)
        padded = [*keys, *([0] * (self.keys.shape[1] - self.n_keys))]
        self.keys = np.vstack([self.keys, np.array([padded], np.int64)])
        self.ids.append(number)

    def forget(self, floor: int) -> None:
        n_gone = floor - self.base
        self.base, self.ts, self.keys, self.ids = floor, self.ts[n_gone:], self.keys[n_gone:], self.ids[n_gone:]

    def renumber(self, base: int) -> None:
        self.base = base


@dataclass(frozen=True)
class Case:
    """Tuples (stream, ts, keys) in order of time, cut into calls of `sizes`. After each call the windows forget what is
    dead, and those calls in `renumbered` give the rows new numbers.
    """

    has_key: tuple[tuple[bool, ...], ...]
    reach: tuple[tuple[int, ...], ...]
    tuples: tuple[tuple[int, int, tuple[int, ...]], ...]
    sizes: tuple[int, ...] = ()
    renumbered: tuple[bool, ...] = ()

    def combinations(self) -> Counter[tuple[int, ...]]:
        by_stream = [[n for n, (s, _, _) in enumerate(self.tuples) if s == stream] for stream in range(len(self.reach))]
        return Counter(chosen for chosen in product(*by_stream) if self._joins(chosen))

    def agrees(self, chosen: dict[int, int]) -> bool:
        """Whether the tuples of some streams have equal keys."""
        for (i, first), (j, second) in combinations(chosen.items(), 2):
            for has_i, has_j, own, other in zip(
                self.has_key[i], self.has_key[j], self.tuples[first][2], self.tuples[second][2]
            ):
                if has_i and has_j and own != other:
                    return False
        return True

    def _joins(self, chosen: tuple[int, ...]) -> bool:
        times = [self.tuples[number][1] for number in chosen]
        pairs = permutations(range(len(chosen)), 2)
        return all(times[j] - times[i] <= self.reach[i][j] for i, j in pairs) and self.agrees(dict(enumerate(chosen)))


Make = Callable[..., MultiwayIndex]


class Replay:
    """Feeds a case to an index and notes what comes out."""

    def __init__(self, case: Case, make: Make, forgets: bool = True):
        self.case = case
        self.has_key, self.reach = np.array(case.has_key, np.bool_), np.array(case.reach, np.int64)
        self.windows = [Rows(self.has_key.shape[1]) for _ in case.reach]
        self.index = make(self.windows, self.has_key, self.reach)
        self.index.refill()
        self.found: Counter[tuple[int, ...]] = Counter()
        self._forgets = forgets

    def run(self) -> Replay:
        at, call = 0, 0
        while at < len(self.case.tuples):
            size = self.case.sizes[call] if call < len(self.case.sizes) else len(self.case.tuples)
            self.arrive(at, at + size)
            at += size
            if self._forgets:
                self.forget(self.case.tuples[at:])
            if call < len(self.case.renumbered) and self.case.renumbered[call]:
                for window in self.windows:
                    window.renumber(window.base // 2)
                self.index.refill()
            call += 1
        return self

    def arrive(self, first: int, last: int) -> None:
        firsts = [window.next_row for window in self.windows]
        for number, (stream, ts, keys) in enumerate(self.case.tuples[first:last], first):
            own = [key if has else 0 for key, has in zip(keys, self.has_key[stream])]
            self.windows[stream].add(ts, own, number)
        for chunk in self.index.arrive(firsts):
            assert 0 < chunk.shape[1] <= multiway_index.COMBINATIONS_PER_CHUNK
            assert chunk.shape[0] == len(self.windows)
            for rows in chunk.T.tolist():
                self.found[tuple(w.ids[row - w.base] for w, row in zip(self.windows, rows))] += 1

    def forget(self, coming: Sequence[tuple[int, int, tuple[int, ...]]]) -> None:
        """Rows that none of the tuples to come can join."""
        n_streams = len(self.windows)
        nexts = [min((ts for s, ts, _ in coming if s == stream), default=LATER) for stream in range(n_streams)]
        floors = []
        for i, window in enumerate(self.windows):
            limit = min(nexts[j] - self.reach[i, j] for j in range(n_streams) if j != i)
            floors.append(window.base + int(np.searchsorted(window.ts, limit)))
        self.index.advance(floors)
        for window, floor in zip(self.windows, floors):
            window.forget(floor)


@st.composite
def cases(draw: st.DrawFn, most_streams: int = 6, least_gap: int = 0, fewest: int = 0, most_keys: int = 3) -> Case:
    n_streams = draw(st.integers(2, most_streams))
    n_keys = draw(st.integers(0, most_keys))
    has_key = draw(_table(n_streams, n_keys, st.booleans()))
    if draw(st.booleans()):
        width = draw(st.integers(0, 8))
        reach = tuple((width,) * n_streams for _ in range(n_streams))
    else:
        reach = draw(_table(n_streams, n_streams, st.sampled_from([0, 1, 2, 5, 9, FAR])))
    arrivals = draw(
        st.lists(st.tuples(st.integers(0, n_streams - 1), st.integers(least_gap, 3)), min_size=fewest, max_size=24)
    )
    times = np.cumsum([gap for _, gap in arrivals])
    keys = draw(_table(len(arrivals), n_keys, st.integers(0, 1)))
    tuples = tuple((s, int(t), key) for (s, _), t, key in zip(arrivals, times, keys))
    sizes = tuple(draw(st.lists(st.integers(1, 6), max_size=24)))
    return Case(has_key, reach, tuples, sizes, tuple(draw(st.lists(st.booleans(), max_size=6))))


def _table(n_lines: int, n_columns: int, cells: st.SearchStrategy) -> st.SearchStrategy:
    line = st.tuples(*[cells] * n_columns)
    return (
        st.tuples(*[line] * n_lines) if n_lines < 8 else st.lists(line, min_size=n_lines, max_size=n_lines).map(tuple)
    )


MAKERS: dict[str, Make] = {
    **ALGORITHMS,
    "gca with nlw": lambda *given: gca_join(*given, inner="nlw"),
    "gca with hw": lambda *given: gca_join(*given, inner="hw"),
    "ripple, updated often": lambda *given: RippleJoin(*given, update_every=3),
    "xjoin, updated often": lambda *given: XJoin(*given, update_every=2),
}


LONG, SHORT = 100, 10
TAKING_TURNS = Case(
    ((),) * 4,
    ((0, LONG, SHORT, SHORT), (LONG, 0, SHORT, SHORT), (SHORT, SHORT, 0, SHORT), (SHORT, SHORT, SHORT, 0)),
    ((1, 0, ()), (3, 37, ()), (2, 45, ()), (0, 50, ())),
)
"""Stream 2 is too far ahead of stream 1, and stream 0 of stream 3, and nothing else is."""


@pytest.mark.parametrize("name", MAKERS)
@given(case=cases(), capacity=st.sampled_from([1, 2, 3, 1000]), n_slots=st.sampled_from([1, 1000]))
@example(Case(((True,), (True,)), ((2, 2), (2, 2)), ((0, 0, (1,)), (0, 0, (1,)), (1, 0, (1,)))), 1, 1)
@example(TAKING_TURNS, 1000, 1000)
def test_every_combination_is_found_once(name: str, case: Case, capacity: int, n_slots: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiway_index, "COMBINATIONS_PER_CHUNK", capacity)
        patch.setattr(window_pipeline, "FIRST_SLOTS", n_slots)
        replay = Replay(case, MAKERS[name]).run()
    assert replay.found == case.combinations()
    assert replay.index.counts.outputs == replay.found.total()


PIPELINES: dict[str, Make] = {
    **{name: partial(ALGORITHMS[name], takes_turns=True) for name in ("nlw", "hw", "ripple", "xjoin")},
    "ripple, updated often": partial(RippleJoin, update_every=3, takes_turns=True),
    "xjoin, updated often": partial(XJoin, update_every=2, takes_turns=True),
}


@st.composite
def interleaved(draw: st.DrawFn) -> Case:
    """The tuples of a case, those of each stream in order of time, but any stream ahead of any other."""
    case = draw(cases(most_streams=4, fewest=12, most_keys=1))
    queues = [[each for each in case.tuples if each[0] == stream] for stream in range(len(case.reach))]
    picks = draw(st.permutations([stream for stream, _, _ in case.tuples]))
    return replace(case, tuples=tuple(queues[stream].pop(0) for stream in picks))


@pytest.mark.parametrize("name", PIPELINES)
@given(case=interleaved(), n_slots=st.sampled_from([1, 1000]))
def test_every_combination_is_found_once_by_turns(name: str, case: Case, n_slots: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_pipeline, "FIRST_SLOTS", n_slots)
        replay = Replay(case, PIPELINES[name]).run()
    assert replay.found == case.combinations()


@pytest.mark.parametrize("name", PIPELINES)
def test_a_stream_far_ahead_waits_for_the_others(name: str) -> None:
    """Both streams take turns, and one is ten times as slow: its last tuple is there long before its partners."""
    slow, fast = ([(stream, ts, (0,)) for ts in range(0, 1000, gap)] for stream, gap in ((0, 50), (1, 5)))
    case = Case(((True,),) * 2, ((0, 2), (2, 0)), (*slow, *fast), (30,) * 10)
    replay = Replay(case, PIPELINES[name]).run()
    assert replay.found == case.combinations()
    assert replay.found.total() == len(slow)


def test_turns_take_one_tuple_of_each_stream() -> None:
    windows = [Rows(0) for _ in range(3)]
    for stream, times in enumerate([(5, 6, 7), (0,), (1, 2)]):
        for ts in times:
            windows[stream].add(ts, (), 0)
    arrivals = merge_arrivals(windows, [0, 0, 0], 0, takes_turns=True)  # pyright: ignore[reportArgumentType]
    assert list(zip(arrivals.streams.tolist(), arrivals.ts.tolist())) == [
        (0, 5),
        (1, 0),
        (2, 1),
        (0, 6),
        (2, 2),
        (0, 7),
    ]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_tuple_stays_for_a_stream_that_lags_behind(name: str) -> None:
    """Fig. 3, which cannot happen in order of time: b4 is too far from e1, and c2 joins e1 later.

    A         a2                    (10)
    B            b2            b4   (12, 30)
    C                 · · · · · · · · c2 comes last, of time 13
    D           d2                  (11)
    E       e1                      (9)
    """
    a2, b2, d2, e1, b4, c2 = (0, 10, ()), (1, 12, ()), (3, 11, ()), (4, 9, ()), (1, 30, ()), (2, 13, ())
    case = Case(((),) * 5, ((10,) * 5,) * 5, (a2, b2, d2, e1, b4, c2), (1,) * 6)
    replay = Replay(case, PIPELINES[name], forgets=False)
    for number in range(5):
        replay.arrive(number, number + 1)
    assert not replay.found
    replay.arrive(5, 6)
    assert replay.found == Counter([(0, 1, 5, 2, 3)])


@pytest.mark.parametrize("name", MAKERS)
@given(case=cases(most_streams=4, least_gap=1))
def test_the_work_does_not_depend_on_how_arrivals_are_cut_into_calls(name: str, case: Case) -> None:
    """But for the checks of Mode 1: it looks again whenever it has waited."""
    cut = Replay(replace(case, renumbered=()), MAKERS[name]).run().index.counts
    whole = Replay(replace(case, sizes=(), renumbered=()), MAKERS[name]).run().index.counts
    if isinstance(Replay(case, MAKERS[name]).index, WindowMerge):
        cut, whole = cut._replace(checks=0), whole._replace(checks=0)
    assert cut == whole


@given(case=cases(most_streams=4))
def test_the_merge_joins_compare_nothing_outside_the_windows(case: Case) -> None:
    """A nested loop over the tuples that have come so far and are not further back than the longest window, or than the
    longest of their own stream, compares at least as many.
    """
    n_streams = len(case.reach)
    longest = max(case.reach[i][j] for i, j in permutations(range(n_streams), 2))
    gca, lca = (Replay(replace(case, renumbered=()), MAKERS[name]).run().index.counts for name in ("gca", "lca"))
    ordered = replace(case, tuples=tuple(sorted(case.tuples, key=lambda each: each[1::-1])))
    assert gca.comparisons <= nested_loop_comparisons(ordered, [longest] * n_streams)
    own = [max(case.reach[i][j] for j in range(n_streams) if j != i) for i in range(n_streams)]
    assert lca.comparisons <= nested_loop_comparisons(ordered, own)


def nested_loop_comparisons(case: Case, spans: Sequence[int]) -> int:
    """How many tuples a nested loop for each arriving tuple tests, over those of `spans` before it, and refines."""
    n_streams, total = len(spans), 0
    is_refined = len({case.reach[i][j] for i, j in permutations(range(n_streams), 2)}) > 1
    for number, (new, now, _) in enumerate(case.tuples):
        partial = [{new: number}]
        for stream in (each for each in range(n_streams) if each != new):
            near = [n for n, (s, ts, _) in enumerate(case.tuples[:number]) if s == stream and ts >= now - spans[s]]
            total += len(partial) * len(near)
            partial = [{**p, stream: n} for p in partial for n in near if case.agrees({**p, stream: n})]
        total += is_refined * len(partial) * n_streams * (n_streams - 1) // 2
    return total


@given(case=cases(most_streams=2))
def test_a_scan_leaves_nothing_in_the_buffer_that_is_out(case: Case) -> None:
    """HW-join may keep what is out in buckets that are not probed, but not for longer than another window."""
    nlw, hw = (Replay(replace(case, renumbered=()), MAKERS[name]) for name in ("nlw", "hw"))
    for number, (stream, now, _) in enumerate(case.tuples):
        other = 1 - stream
        nlw.arrive(number, number + 1)
        hw.arrive(number, number + 1)
        age = [now - ts for s, ts, _ in case.tuples[:number] if s == other]
        span = case.reach[other][stream]
        assert _held(nlw, other) == sum(each <= span for each in age)
        assert sum(each <= span for each in age) <= _held(hw, other) <= sum(each <= 2 * span for each in age)


def _held(replay: Replay, side: int) -> int:
    assert isinstance(replay.index, WindowPipeline)
    return int(replay.index.held[0, side])


@pytest.mark.slow
def test_a_long_run_finds_the_same_with_every_algorithm() -> None:
    rng = np.random.default_rng(7)
    streams, times = rng.integers(0, 3, 3000), np.cumsum(rng.integers(0, 3, 3000))
    keys = np.stack([rng.integers(0, 40, 3000), rng.integers(0, 4, 3000)], axis=1)
    tuples = tuple((int(s), int(t), (int(a), int(b))) for s, t, (a, b) in zip(streams, times, keys))
    reach = ((0, 150, 300), (90, 0, 200), (100, 110, 0))
    case = Case(((True, False), (True, True), (True, True)), reach, tuples, (40,) * 75, (False, True, True) * 25)
    first, *others = (Replay(case, make).run().found for make in MAKERS.values())
    assert first.total() > 100
    assert all(found == first for found in others)


@pytest.mark.parametrize("others_us", [800, 100])
def test_the_local_approach_compares_less_than_the_global_one(others_us: int) -> None:
    """The windows of §5.3: one pair has a longer one."""
    rng = np.random.default_rng(3)
    reach = np.full((4, 4), others_us // 10)
    reach[0, 1] = reach[1, 0] = 100
    tuples = tuple((int(rng.integers(0, 4)), time, (int(rng.integers(0, 20)),)) for time in range(0, 2000, 2))
    case = Case(((True,),) * 4, tuple(map(tuple, reach.tolist())), tuples, (50,) * 20)
    work = {name: Replay(case, MAKERS[name]).run().index.counts.comparisons for name in ("lca", "gca")}
    assert work["lca"] < work["gca"]
