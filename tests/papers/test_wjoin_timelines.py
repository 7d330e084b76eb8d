"""The figures of the W-join paper, as timelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import pytest

from sash.index.multiway_index import MultiwayCounts, MultiwayIndex
from sash.papers.wjoin.hw_join import HwJoin
from sash.papers.wjoin.lca_join import LcaJoin
from sash.papers.wjoin.mw_join import MwJoin
from sash.papers.wjoin.nlw_join import NlwJoin
from sash.papers.wjoin.ripple_join import RippleJoin
from sash.papers.wjoin.window_merge import WindowMerge
from sash.papers.wjoin.wjoin_algorithms import ALGORITHMS
from sash.papers.wjoin.xjoin import XJoin

BLACK = 1
"""The key of all tuples that a figure shows as black dots; each white one has a key of its own."""

Index = TypeVar("Index", bound=MultiwayIndex)


@dataclass
class Stream:
    """A window that forgets nothing. Its rows are numbered from 1, as in the figures."""

    base: int = 1
    floor: int = 1
    ts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    keys: np.ndarray = field(default_factory=lambda: np.empty((0, 1), np.int64))

    @property
    def next_row(self) -> int:
        return 1 + len(self.ts)


class Timeline(Generic[Index]):
    """Streams A, B, C …, of which each call of `arrive` gets further tuples: `a=[3, 5]` are white, `A=[4]` is black."""

    def __init__(self, make: Callable[..., Index], reach: np.ndarray):
        self.streams = [Stream() for _ in reach]
        self.index = make(self.streams, np.ones((len(reach), 1), np.bool_), reach)
        self._n_white = BLACK

    def arrive(self, **tuples: list[int]) -> list[tuple[int, ...]]:
        """The combinations that come out, as the numbers of the tuples in their streams."""
        firsts = [stream.next_row for stream in self.streams]
        for number, stream in enumerate(self.streams):
            letter = "abcdefgh"[number]
            new = [(ts, BLACK) for ts in tuples.get(letter.upper(), [])]
            new += [(ts, self._white()) for ts in tuples.get(letter, [])]
            new.sort()
            stream.ts = np.append(stream.ts, np.array([ts for ts, _ in new], np.int64))
            stream.keys = np.append(stream.keys, np.array([[key] for _, key in new], np.int64).reshape(-1, 1), axis=0)
        return sorted(tuple(rows) for chunk in self.index.arrive(firsts) for rows in chunk.T.tolist())

    def _white(self) -> int:
        self._n_white += 1
        return self._n_white


def one_window(n_streams: int, length: int) -> np.ndarray:
    return np.full((n_streams, n_streams), length)


# A   .....................a1..........a2
# B   ..b1......................b2......      c1, like e1 in the figure, is far from b2, but not from a2
# C   c1................................
#     0  1                  8   10  12
LAGGING = np.array([[0, 20, 20], [20, 0, 2], [20, 2, 0]])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_tuple_stays_while_it_is_near_the_newest_of_one_stream(name: str) -> None:
    """Figure 3. Tuples come in order of time, so this takes windows of different length: B is close to C, A is not."""
    timeline = Timeline(ALGORITHMS[name], LAGGING)
    assert timeline.arrive(C=[0]) == []
    assert timeline.arrive(B=[1]) == []
    assert timeline.arrive(A=[8]) == [(1, 1, 1)]
    assert timeline.arrive(B=[10]) == []
    assert timeline.arrive(A=[12]) == [(2, 1, 1)]


@pytest.mark.parametrize("make", [NlwJoin, HwJoin])
def test_a_tuple_goes_once_it_is_far_from_the_newest_of_all_streams(make: type[NlwJoin | HwJoin]) -> None:
    index = (timeline := Timeline(make, LAGGING)).index
    timeline.arrive(C=[0], B=[1, 10], A=[8, 12])
    assert index.held[1].tolist() == [4, 1]
    timeline.arrive(A=[21])
    assert index.held[1].tolist() == [6, 0]
    assert index.held[0].tolist() == [3, 2]


def test_a_scan_compares_all_that_is_not_out() -> None:
    timeline = Timeline(NlwJoin, one_window(2, 10))
    timeline.arrive(a=[0, 1], A=[5])
    assert timeline.index.counts == MultiwayCounts(0, insertions=3, removals=0, checks=0, outputs=0)
    assert timeline.arrive(B=[11]) == [(3, 1)]
    assert timeline.index.counts == MultiwayCounts(2, insertions=4, removals=1, checks=3, outputs=1)


def test_a_probe_compares_one_bucket() -> None:
    """There are about as many buckets as tuples."""
    timeline = Timeline(HwJoin, one_window(2, 10))
    timeline.arrive(a=list(range(64)))
    timeline.arrive(A=[64])
    timeline.arrive(B=[65])
    counts = timeline.index.counts
    assert counts.outputs == 1
    assert 1 <= counts.comparisons <= 4


def test_rarely_probed_buckets_are_updated() -> None:
    """Nothing ever probes the buckets of the white tuples."""
    index = (timeline := Timeline(HwJoin, one_window(2, 10))).index
    for now in range(0, 1000, 2):
        timeline.arrive(a=[now], B=[now + 1])
        assert index.held[0, 0] <= 11
    assert index.counts.removals >= 480


@pytest.mark.parametrize("make", [RippleJoin, XJoin])
def test_the_baselines_hold_stale_tuples_until_the_next_update(make: type[RippleJoin | XJoin]) -> None:
    timeline = Timeline(lambda *given: make(*given, update_every=4), one_window(2, 10))
    index = timeline.index
    timeline.arrive(A=[0, 1])
    assert timeline.arrive(B=[20]) == []
    assert index.counts == MultiwayCounts(2, insertions=3, removals=0, checks=0, outputs=0)
    timeline.arrive(B=[21])
    assert index.held.tolist() == [[0, 2]]
    assert index.counts == MultiwayCounts(2, insertions=4, removals=2, checks=3, outputs=0)


#                v = [26, 36]
# A  ......a1......a2........|.....
# B  .......b1........b2...b3|.b4..
# C  ..........c1............|.....
# D  .d1.................d2..|.....
# E  ....e1..........e2......|.....
def test_the_merge_join_finds_the_periods_of_figure_6() -> None:
    index = (timeline := Timeline(MwJoin, one_window(5, 10))).index
    found = timeline.arrive(a=[22], A=[29], b=[23], B=[31, 35], C=[26], d=[14], D=[34], e=[20], E=[30])
    assert found == [(2, 2, 1, 2, 2), (2, 3, 1, 2, 2)]
    # Mode 1 looks at a1 b1 c1 d1 d2 e1 e2 a1 a2 b1 b2 c1 and drops four of them; Mode 2 admits six. Two of these, d2
    # and b3, find a tuple in every other buffer: a single one.
    assert index.counts == MultiwayCounts(4 + 4, insertions=6, removals=0, checks=12 + 6, outputs=2)
    assert index.held.tolist() == [1, 2, 1, 1, 1]
    # b4 is to the right of the period, and so is whatever comes next: c1 is dropped, and C is waited for.
    assert timeline.arrive(b=[38]) == []
    assert index.held.tolist() == [1, 3, 0, 1, 1]
    assert timeline.arrive(C=[39]) == [(2, 2, 2, 2, 2), (2, 3, 2, 2, 2)]


@pytest.mark.parametrize("make", [MwJoin, LcaJoin])
def test_a_merge_join_does_not_wait_for_an_idle_stream(make: type[MwJoin | LcaJoin]) -> None:
    index = (timeline := Timeline(make, one_window(3, 10))).index
    for now in range(0, 1000, 5):
        timeline.arrive(A=[now], B=[now])
        assert index.held.sum() <= 6
    assert index.counts.comparisons == 0
    assert timeline.arrive(C=[1000]) == [(a, b, 1) for a in (199, 200) for b in (199, 200)]


# A  a1...........a2........       C is within 10 of A and B, which may be 100 apart: the period ends 10 after c1
# B  .....b1................
# C  ........c1...........c2
#    0    5  8     12     20
@pytest.mark.parametrize(("name", "held"), [("lca", [1, 0, 1]), ("gca", [2, 1, 2])])
def test_the_local_approach_goes_by_the_longest_window_of_each_stream(name: str, held: list[int]) -> None:
    reach = np.array([[0, 100, 10], [100, 0, 10], [10, 10, 0]])
    timeline = Timeline(ALGORITHMS[name], reach)
    assert timeline.arrive(A=[0], B=[5], C=[8]) == [(1, 1, 1)]
    assert timeline.arrive(A=[12]) == [(2, 1, 1)]
    assert timeline.arrive(C=[20]) == []
    assert isinstance(timeline.index, WindowMerge)
    assert timeline.index.held.tolist() == held


def test_the_refine_step_compares_each_pair() -> None:
    timeline = Timeline(ALGORITHMS["gca"], np.array([[0, 100, 10], [100, 0, 10], [10, 10, 0]]))
    assert timeline.arrive(A=[0], B=[50], C=[55]) == []
    assert timeline.index.counts == MultiwayCounts(2 + 3, insertions=3, removals=0, checks=3 + 3, outputs=0)


def test_the_local_approach_never_admits_what_is_too_far_behind_in_its_own_window() -> None:
    timeline = Timeline(LcaJoin, np.array([[0, 100, 10], [100, 0, 10], [10, 10, 0]]))
    timeline.arrive(A=[50], B=[50], C=[0])
    assert timeline.index.counts.insertions == 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_next_call_may_go_on_at_the_time_of_the_last(name: str) -> None:
    """a1 is as far back as it may be when b2 comes."""
    timeline = Timeline(ALGORITHMS[name], one_window(2, 10))
    assert timeline.arrive(A=[0], B=[0]) == [(1, 1)]
    assert timeline.arrive(A=[10]) == [(2, 1)]
    assert timeline.arrive(B=[10]) == [(1, 2), (2, 2)]
