"""What graphs of pair windows amount to, against all combinations of small times."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations, product

from hypothesis import example, given
from hypothesis import strategies as st

from sash.sql.window_graph import FAR, CompletedWindow, PairWindow, WindowGraph, shortest_ways

LONGEST_US = 3


def undirected(left: str, right: str, length_us: int) -> PairWindow:
    return PairWindow(left, right, length_us)


def directed(left: str, right: str, length_us: int) -> PairWindow:
    return PairWindow(left, right, length_us, is_directed=True)


CHAIN = WindowGraph(("A", "B", "C"), (undirected("A", "B", 10), undirected("B", "C", 20)))
PATH = WindowGraph(("A", "B", "C"), (directed("A", "B", 10), directed("B", "C", 20)))
DETOUR = WindowGraph(("A", "B", "C"), (undirected("A", "B", 1), undirected("B", "C", 2), undirected("A", "C", 9)))
ISLANDS = WindowGraph(("A", "B", "C", "D"), (undirected("C", "A", 5),))


@st.composite
def connected_graphs(draw: st.DrawFn) -> WindowGraph:
    """Of two to four streams: a tree of windows, and some more between pairs that have none."""
    aliases = draw(st.permutations("ABCD"))[: draw(st.integers(2, 4))]
    tree = {(aliases[draw(st.integers(0, i - 1))], aliases[i]) for i in range(1, len(aliases))}
    others = [pair for pair in combinations(aliases, 2) if pair not in tree and pair[::-1] not in tree]
    chosen = [*sorted(tree), *(draw(st.lists(st.sampled_from(others), unique=True)) if others else [])]
    lengths = st.integers(1, LONGEST_US)
    ends = [tuple(draw(st.permutations(pair))) for pair in chosen]
    pairs = [PairWindow(left, right, draw(lengths), draw(st.booleans())) for left, right in ends]
    return WindowGraph(tuple(sorted(aliases)), tuple(pairs))


def is_answer(graph: WindowGraph, times: tuple[int, ...]) -> bool:
    ts = dict(zip(graph.aliases, times))
    lags = [(pair, ts[pair.right] - ts[pair.left]) for pair in graph.pairs]
    return all((lag >= 0 if pair.is_directed else lag > -pair.length_us) and lag < pair.length_us for pair, lag in lags)


def answers(graph: WindowGraph) -> list[tuple[int, ...]]:
    latest = LONGEST_US * (len(graph.aliases) - 1)
    return [times for times in product(range(latest), repeat=len(graph.aliases)) if is_answer(graph, times)]


def length_of_way(graph: WindowGraph, way: tuple[str, ...]) -> int:
    """The sum of the windows along a way; FAR if a window is missing."""
    lengths = {frozenset((pair.left, pair.right)): pair.length_us for pair in graph.pairs}
    return min(FAR, sum(lengths.get(frozenset(step), FAR) for step in pairwise(way)))


@given(graph=connected_graphs())
@example(graph=WindowGraph(("A", "B"), (undirected("A", "B", 1),)))
@example(graph=WindowGraph(("A", "B", "C"), (directed("A", "B", 2), directed("B", "C", 2), directed("C", "A", 2))))
def test_reach_is_the_most_that_times_differ_by(graph: WindowGraph) -> None:
    every = range(len(graph.aliases))
    combined = answers(graph)
    most = tuple(tuple(max(times[j] - times[i] for times in combined) for j in every) for i in every)
    assert graph.reach_us == most


@given(graph=connected_graphs())
def test_directed_windows_of_the_completed_graph(graph: WindowGraph) -> None:
    combined = answers(graph)
    for window in graph.windows:
        left, right = graph.aliases.index(window.left), graph.aliases.index(window.right)
        if window.is_directed:
            assert all(times[left] <= times[right] for times in combined)
        else:
            assert {times[left] < times[right] for times in combined} == {True, False}
            assert any(times[left] > times[right] for times in combined)


@given(graph=connected_graphs())
def test_a_missing_window_is_the_sum_along_the_shortest_way(graph: WindowGraph) -> None:
    given_us = {frozenset((pair.left, pair.right)): pair.length_us for pair in graph.pairs}
    assert len(graph.windows) == len(list(combinations(graph.aliases, 2)))
    for window in graph.windows:
        if window.via is None:
            assert window.length_us == given_us[frozenset((window.left, window.right))]
            continue
        between = [alias for alias in graph.aliases if alias not in (window.left, window.right)]
        ways = [(window.left, *via, window.right) for n in range(3) for via in permutations(between, n)]
        assert window.length_us == min(length_of_way(graph, way) for way in ways)
        assert window.length_us == length_of_way(graph, (window.left, *window.via, window.right))


@given(graph=connected_graphs())
def test_every_tuple_of_an_answer_is_alive_when_the_answer_enters(graph: WindowGraph) -> None:
    lives_us = graph.lives_us
    assert list(lives_us) == list(graph.aliases)
    for alias, life_us in lives_us.items():
        assert life_us == max(w.length_us for w in graph.windows if alias in (w.left, w.right))
        assert all(max(times) < times[graph.aliases.index(alias)] + life_us for times in answers(graph))


def test_a_chain() -> None:
    assert CHAIN.windows == (
        CompletedWindow("A", "B", 10, is_directed=False, via=None),
        CompletedWindow("A", "C", 30, is_directed=False, via=("B",)),
        CompletedWindow("B", "C", 20, is_directed=False, via=None),
    )
    assert CHAIN.reach_us == ((0, 9, 28), (9, 0, 19), (28, 19, 0))
    assert CHAIN.lives_us == {"A": 30, "B": 20, "C": 30}
    assert CHAIN.parts == [("A", "B", "C")]


def test_a_path() -> None:
    assert all(window.is_directed for window in PATH.windows)
    assert PATH.reach_us == ((0, 9, 28), (0, 0, 19), (0, 0, 0))
    assert PATH.lives_us == CHAIN.lives_us


def test_a_path_against_the_order_of_from() -> None:
    graph = WindowGraph(("C", "B", "A"), PATH.pairs)
    assert [(window.left, window.right) for window in graph.windows] == [("B", "C"), ("A", "C"), ("A", "B")]
    assert [window.via for window in graph.windows] == [None, ("B",), None]


def test_two_directed_windows_out_of_one_stream_leave_their_ends_undirected() -> None:
    graph = WindowGraph(("A", "B", "C"), (directed("A", "B", 10), directed("A", "C", 20)))
    assert graph.windows[2] == CompletedWindow("B", "C", 30, is_directed=False, via=("A",))
    assert graph.reach_us[1][2] == 19
    assert graph.reach_us[2][1] == 9


def test_a_given_window_stays_though_others_are_tighter() -> None:
    assert [window.length_us for window in DETOUR.windows] == [1, 9, 2]
    assert DETOUR.reach_us[0][2] == 1
    assert DETOUR.lives_us == {"A": 9, "B": 2, "C": 9}


def test_parts() -> None:
    assert ISLANDS.parts == [("A", "C"), ("B",), ("D",)]
    assert ISLANDS.reach_us[0][1] == FAR


def test_shortest_ways_do_not_lead_through_what_nothing_bounds() -> None:
    assert shortest_ways([[0, FAR, 1], [FAR, 0, FAR], [FAR, 2, 0]]) == [[0, 3, 1], [FAR, 0, FAR], [FAR, 2, 0]]
