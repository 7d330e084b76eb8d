"""The tuples of one input of a join of many, against a plain list of those that came.

Law: from the first row since a time on, a window holds exactly the tuples that are not older, in order of time;
     and, below it, no tuple that was dead at the last clock but in a block with one that was not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store.batch import EXPIRES, OP, TS
from sash.store.block_window import CUTS
from sash.store.directory import Directory
from sash.store.ordered_window import OrderedWindow
from sash.store.vector import dump, load

SPAN_US = 80
SCHEMA = pa.schema([
    ("a", pa.int64()), ("b", pa.string()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8()),
])  # fmt: skip
KEYS = (("a",), (), ("a", "b"))


def tuples(times: list[int]) -> pa.Table:
    columns = [times, [str(time) for time in times], times, [time + 1000 for time in times], [1] * len(times)]
    return pa.table(columns, schema=SCHEMA)


def window() -> OrderedWindow:
    return OrderedWindow(SCHEMA, KEYS, SPAN_US)


def times_of(each: OrderedWindow, since: int) -> list[int]:
    """Of the tuples that are not older, after looking at all that stands beside them."""
    rows = np.arange(each.first_since(since), each.next_row)
    places = rows - each.base
    payload = each.log.rows.take(rows, ["a", "b"])
    times = each.ts[places].tolist()
    assert payload["a"].to_pylist() == times
    assert payload["b"].to_pylist() == [str(time) for time in times]
    assert each.expires[places].tolist() == [time + 1000 for time in times]
    return times


STEPS = st.lists(st.tuples(st.lists(st.integers(1, 200), max_size=8), st.integers(0, 150), st.booleans()), max_size=8)


@given(steps=STEPS)
def test_what_is_not_older_than_the_clock_is_there(steps: list[tuple[list[int], int, bool]]) -> None:
    """Tuples come in order of time; some of them are dead in the step in which they come, and found until its end."""
    each, came, clock = window(), [], 0
    for gaps, progress, restarts in steps:
        first, new = each.next_row, []
        for gap in gaps:
            new.append((new or came or [0])[-1] + gap)
        clock += progress
        each.insert(tuples(new), clock)
        assert each.ts[first - each.base : each.next_row - each.base].tolist() == new
        came += new
        each.evict(clock)
        alive = [time for time in came if time > clock + 1]
        assert times_of(each, clock + 2) == alive
        if restarts:
            other = window()
            other.restore(each.log.entries(), each.log.next_number, clock)
            each = other
            assert times_of(each, clock + 2) == alive


def test_keys_stand_side_by_side() -> None:
    """Equal tuples have equal keys; where an input has no key there is nothing."""
    each = window()
    each.insert(tuples([5, 5, 7]), 0)
    keys = each.keys[:3]
    assert keys[:, 0].tolist() == [5, 5, 7]
    assert keys[:, 1].tolist() == [0, 0, 0]
    assert keys[0, 2] == keys[1, 2] != keys[2, 2]


@pytest.mark.parametrize(("time", "expected"), [(0, 0), (3, 0), (4, 1), (5, 1), (6, 3), (7, 3), (8, 4)])
def test_first_since(time: int, expected: int) -> None:
    each = window()
    each.insert(tuples([3, 5, 5, 7]), 0)
    assert each.first_since(time) == expected


def test_first_since_looks_at_nothing_that_is_gone() -> None:
    each = window()
    each.insert(tuples([3, 5]), 0)
    each.insert(tuples([500, 700]), 0)
    each.evict(400)
    assert each.first_since(0) == each.floor == 2
    assert each.n_evicted == 2


@pytest.mark.slow
def test_an_eighth_of_the_span_lies_dead_at_most() -> None:
    each = window()
    for time in range(1, 1000):
        each.insert(tuples([time]), time - SPAN_US)
        each.evict(time - SPAN_US)
        assert each.log.n_rows <= SPAN_US + SPAN_US / CUTS + 1


@pytest.mark.slow
def test_rows_keep_their_numbers_until_the_window_says_otherwise() -> None:
    each, seen = window(), {}
    for time in range(1, 3000, 3):
        n_rebuilds = each.n_rebuilds
        each.insert(tuples([time]), time - SPAN_US)
        each.evict(time - SPAN_US)
        if each.n_rebuilds > n_rebuilds:
            seen = {}
        seen[each.next_row - 1] = time
        assert all(each.ts[row - each.base] == time for row, time in seen.items() if row >= each.floor)


def test_a_window_may_rest_in_files(tmp_path) -> None:
    arena = Directory(tmp_path)
    each = OrderedWindow(SCHEMA, KEYS, SPAN_US, arena)
    each.insert(tuples([3, 5, 5, 7]), 0)
    other = load(dump(each, arena), Directory(tmp_path))
    assert times_of(other, 4) == [5, 5, 7]
    assert other.keys[:4, 0].tolist() == [3, 5, 5, 7]
