"""The algorithms of the W-join paper against all combinations.

Law: whatever arrives, however it is cut into calls, and whenever the windows forget rows or give them new numbers, each
     combination with equal keys whose times are within reach of one another is given out once, by every algorithm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store import multiway_index
from sash.store.gca_join import gca_join
from sash.store.multiway_index import MultiwayIndex
from sash.store.ripple_join import RippleJoin
from sash.store.wjoin_algorithms import ALGORITHMS
from sash.store.xjoin import XJoin

LATER = 1 << 40


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

    def _joins(self, chosen: tuple[int, ...]) -> bool:
        return all(self._is_pair(i, chosen[i], j, chosen[j]) for i, j in permutations(range(len(chosen)), 2))

    def _is_pair(self, i: int, first: int, j: int, second: int) -> bool:
        (_, t_i, keys_i), (_, t_j, keys_j) = self.tuples[first], self.tuples[second]
        shared = [k for k in range(len(keys_i)) if self.has_key[i][k] and self.has_key[j][k]]
        return t_j - t_i <= self.reach[i][j] and all(keys_i[k] == keys_j[k] for k in shared)


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
            clock = self.case.tuples[at][1] if at < len(self.case.tuples) else LATER
            if self._forgets:
                self.forget(clock)
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

    def forget(self, clock: int) -> None:
        """Rows that no tuple from `clock` on can join."""
        floors = []
        for i, window in enumerate(self.windows):
            span = max(self.reach[i, j] for j in range(len(self.windows)) if j != i)
            floors.append(window.base + int(np.searchsorted(window.ts, clock - span)))
        self.index.advance(floors)
        for window, floor in zip(self.windows, floors):
            window.forget(floor)


@st.composite
def cases(draw: st.DrawFn, most_streams: int = 6) -> Case:
    n_streams = draw(st.integers(2, most_streams))
    n_keys = draw(st.integers(0, 3))
    has_key = draw(_table(n_streams, n_keys, st.booleans()))
    if draw(st.booleans()):
        width = draw(st.integers(0, 8))
        reach = tuple((width,) * n_streams for _ in range(n_streams))
    else:
        reach = draw(_table(n_streams, n_streams, st.sampled_from([0, 1, 2, 5, 9])))
    arrivals = draw(st.lists(st.tuples(st.integers(0, n_streams - 1), st.integers(0, 3)), max_size=24))
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


@pytest.mark.parametrize("name", MAKERS)
@given(case=cases(), capacity=st.sampled_from([1, 2, 3, 1000]))
@example(case=Case(((True,), (True,)), ((2, 2), (2, 2)), ((0, 0, (1,)), (0, 0, (1,)), (1, 0, (1,)))), capacity=1)
def test_every_combination_is_found_once(name: str, case: Case, capacity: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiway_index, "COMBINATIONS_PER_CHUNK", capacity)
        replay = Replay(case, MAKERS[name]).run()
    assert replay.found == case.combinations()
    assert replay.index.counts.outputs == replay.found.total()
