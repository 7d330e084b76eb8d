"""The windows of pairs, worked out by hand, and against the graph that queries are bound with."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.oracle.pair_walks import are_in_windows, life_us, most_newer_us, window_us
from sash.sql.window_graph import PairWindow, WindowGraph
from support.multiway_strategies import window_graphs

CHAIN = (PairWindow("A", "B", 3), PairWindow("B", "C", 2, is_directed=True))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 2, 2), True),
        ((2, 0, 0), True),
        ((0, 3, 3), False),
        ((3, 0, 0), False),
        ((0, 0, 1), True),
        ((0, 0, 2), False),
        ((0, 1, 0), False),
    ],
)
def test_times_in_windows(times: tuple[int, int, int], expected: bool) -> None:
    assert are_in_windows(CHAIN, dict(zip("ABC", times))) == expected


def test_a_pair_without_a_window_has_that_of_the_shortest_way() -> None:
    assert [window_us(CHAIN, *pair) for pair in ("AB", "CB", "AC")] == [3, 2, 5]
    assert [life_us(CHAIN, alias) for alias in "ABC"] == [5, 3, 5]
    assert life_us((*CHAIN, PairWindow("C", "A", 4)), "A") == 4
    assert life_us((*CHAIN, PairWindow("C", "A", 9)), "A") == 9


@given(st.integers(2, 6).flatmap(lambda n_streams: window_graphs("ABCDEF"[:n_streams])))
def test_the_graph_of_a_query_says_the_same(pairs: tuple[PairWindow, ...]) -> None:
    aliases = tuple(sorted({alias for pair in pairs for alias in (pair.left, pair.right)}))
    graph = WindowGraph(aliases, pairs)
    assert graph.lives_us == {alias: life_us(pairs, alias) for alias in aliases}
    for (i, one), (j, other) in product(enumerate(aliases), repeat=2):
        assert graph.reach_us[i][j] == most_newer_us(pairs, one, other)


@given(st.integers(2, 4).flatmap(lambda n_streams: window_graphs("ABCD"[:n_streams], max_length_us=3)))
def test_no_answer_has_tuples_further_apart_and_some_has_them_as_far(pairs: tuple[PairWindow, ...]) -> None:
    aliases = sorted({alias for pair in pairs for alias in (pair.left, pair.right)})
    times = (dict(zip(aliases, (0, *others))) for others in _offsets(len(aliases) - 1))
    combinations = [each for each in times if are_in_windows(pairs, each)]
    for one, other in product(aliases, repeat=2):
        assert max(each[other] - each[one] for each in combinations) == most_newer_us(pairs, one, other)


def _offsets(n_streams: int) -> list[tuple[int, ...]]:
    """Times of all streams but the first, which is at 0, as far as windows of 3 microseconds let them differ."""
    return list(product(range(-2 * n_streams, 2 * n_streams + 1), repeat=n_streams))
