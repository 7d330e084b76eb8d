"""Figures 2(a), 3(a) and 4 of the paper: what each schedule does next, and when it lets pairs go.

A tuple looked at takes one unit of the queueing clock, and a pair nothing.
"""

from __future__ import annotations

import numpy as np
import pytest

from sash.papers.shared.max_query_throughput import throughput_matrix
from sash.papers.shared.shared_join import SharedJoin, WorkCosts

STAR, CIRCLE = 1, 2
FIGURES_2_AND_3 = [
    ("b", 0, STAR),
    ("a", 1, CIRCLE),
    ("b", 4, STAR),
    ("a", 5, CIRCLE),
    ("b", 8, STAR),
    ("a", 9, CIRCLE),
    ("a", 11, STAR),
    ("b", 12, CIRCLE),
]
"""a11 joins b8, b4 and b0, b12 joins a9, a5 and a1: one in each partial window of w1 = 5, w2 = 9, w3 = 13."""
FIGURE_4 = [(side, ts, STAR) for ts in range(45, 100, 10) for side in "ab"] + [("a", 100, STAR), ("b", 101, STAR)]
"""All tuples join; w1 = 20, w2 = 30, w3 = 60."""


def releases(schedule: str, windows: list[int], stream: list[tuple[str, int, int]]) -> list[tuple[float, str, str]]:
    """When a pair was released, which, and to which queries. The last two tuples arrive, the others were there."""
    join = SharedJoin(windows, None, schedule, False, WorkCosts(1, 0))
    sides = np.array([side == "b" for side, _, _ in stream], np.int64)
    ts, keys = (np.array(column) for column in list(zip(*stream))[1:])
    join.load(sides[:-2], ts[:-2], keys[:-2])
    join.push(sides[-2:], ts[-2:], keys[-2:])
    found = join.advance()
    names = [f"{side}{at}" for side, at, _ in stream]
    told: dict[tuple[float, str], str] = {}
    for at, later, earlier, window in zip(found.at_us.tolist(), found.later, found.earlier, found.windows_us.tolist()):
        pair = (at, f"{names[later]} {names[earlier]}")
        told[pair] = (told.get(pair, "") + f" Q{windows.index(window) + 1}").strip()
    return [(at, pair, queries) for (at, pair), queries in told.items()]


def test_largest_window_only():
    """Figure 2(a): b12 waits until a11 has scanned the largest window; pairs go to queries as they are found."""
    assert releases("lwo", [5, 9, 13], FIGURES_2_AND_3) == [
        (12, "a11 b8", "Q1 Q2 Q3"),
        (13, "a11 b4", "Q2 Q3"),
        (14, "a11 b0", "Q3"),
        (16, "b12 a9", "Q1 Q2 Q3"),
        (17, "b12 a5", "Q2 Q3"),
        (18, "b12 a1", "Q3"),
    ]


def test_smallest_window_first():
    """Figure 3(a), steps 1 to 12: b12 comes when a11 has scanned w1, and they take turns from there on."""
    assert releases("swf", [5, 9, 13], FIGURES_2_AND_3) == [
        (12, "a11 b8", "Q1 Q2 Q3"),
        (14, "b12 a9", "Q1"),
        (15, "a11 b4", "Q2 Q3"),
        (16, "b12 a9", "Q2"),
        (16, "b12 a5", "Q2"),
        (17, "a11 b0", "Q3"),
        (18, "b12 a9", "Q3"),
        (18, "b12 a5", "Q3"),
        (18, "b12 a1", "Q3"),
    ]


def test_maximum_query_throughput():
    """Figure 4: a100 goes on through w2, then b101 catches up; what it finds on the way goes to Q2 at once."""
    assert releases("mqt", [20, 30, 60], FIGURE_4) == [
        (101, "a100 b95", "Q1 Q2 Q3"),
        (102, "a100 b85", "Q1 Q2 Q3"),
        (103, "a100 b75", "Q2 Q3"),
        (104, "b101 a100", "Q1 Q2"),
        (105, "b101 a95", "Q1 Q2"),
        (106, "b101 a85", "Q1 Q2"),
        (107, "b101 a75", "Q2"),
        (108, "a100 b65", "Q3"),
        (109, "a100 b55", "Q3"),
        (110, "a100 b45", "Q3"),
        (110, "b101 a100", "Q3"),
        (110, "b101 a95", "Q3"),
        (110, "b101 a85", "Q3"),
        (110, "b101 a75", "Q3"),
        (111, "b101 a65", "Q3"),
        (112, "b101 a55", "Q3"),
        (113, "b101 a45", "Q3"),
    ]


def test_smallest_window_first_where_throughput_would_choose_otherwise():
    """The tuples of Figure 4: b101 interrupts a100 after w1, which MQT does not allow."""
    found = releases("swf", [20, 30, 60], FIGURE_4)
    assert [(at, pair) for at, pair, queries in found if queries.startswith("Q1")] == [
        (102, "a100 b95"),
        (102, "a100 b85"),
        (105, "b101 a100"),
        (105, "b101 a95"),
        (105, "b101 a85"),
    ]
    assert (106, "a100 b75", "Q2 Q3") in found


def test_the_matrix_of_figure_4():
    assert throughput_matrix([2, 3, 6], [1, 1, 1]).tolist() == [
        [0, 1 / 2, 2 / 3, 2 / 3],
        [0, 0, 1, 1],
        [0, 0, 0, 1 / 3],
    ]


def test_the_matrix_changes_with_the_queries():
    join = SharedJoin([2, 6], [1, 1], "mqt")
    join.add(3)
    assert np.array_equal(join.throughput, throughput_matrix([2, 3, 6], [1, 1, 1]))
    join.add(6)
    assert join.throughput[2, 3] == pytest.approx(2 / 3)
    join.drop(3)
    assert np.array_equal(join.throughput, throughput_matrix([2, 6], [1, 2]))


def test_of_equal_throughputs_the_largest_window_is_served():
    """With windows of 10, 20 and 30 a partial window serves one query wherever it is: a100, which has scanned w1 when
    b101 comes, goes on through w3, and b101 does not interrupt it as by SWF."""
    assert releases("mqt", [10, 20, 30], FIGURE_4) == [
        (101, "a100 b95", "Q1 Q2 Q3"),
        (102, "a100 b85", "Q2 Q3"),
        (103, "a100 b75", "Q3"),
        (104, "b101 a100", "Q1 Q2 Q3"),
        (105, "b101 a95", "Q1 Q2 Q3"),
        (106, "b101 a85", "Q2 Q3"),
        (107, "b101 a75", "Q3"),
    ]


def test_a_larger_window_is_not_served_where_a_smaller_one_serves_more():
    """The windows of 10, 20 and 30 with two queries for the smallest: b101 scans w1 before a100 scans on."""
    join = SharedJoin([10, 20, 30], [2, 1, 1], "mqt", False, WorkCosts(1, 0))
    sides = np.array([side == "b" for side, _, _ in FIGURE_4], np.int64)
    ts, keys = np.array([ts for _, ts, _ in FIGURE_4]), np.ones(len(FIGURE_4), np.int64)
    join.load(sides[:-2], ts[:-2], keys[:-2])
    join.push(sides[-2:], ts[-2:], keys[-2:])
    found = join.advance()
    first = found.windows_us == 10
    assert found.at_us[first].tolist() == [101, 102, 103]


def test_pairs_leave_the_output_buffer_when_the_largest_window_has_got_them():
    """In Figure 4, at 110, a100 has scanned w3, and the four pairs of b101 are released before b101 goes on."""
    join = SharedJoin([20, 30, 60], None, "mqt", False, WorkCosts(1, 0))
    sides = np.array([side == "b" for side, _, _ in FIGURE_4], np.int64)
    ts, keys = np.array([ts for _, ts, _ in FIGURE_4]), np.ones(len(FIGURE_4), np.int64)
    join.load(sides[:-2], ts[:-2], keys[:-2])
    join.push(sides[-2:], ts[-2:], keys[-2:])
    join.advance(107.5)
    assert (join.n_held, join.n_waiting) == (0, 1)
    assert join.peaks.held == 4
