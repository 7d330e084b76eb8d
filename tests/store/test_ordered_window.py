"""The tuples of one input of a join of many, against a plain list of those that came.

Law: from the first row since a time on, a window holds exactly the tuples that are not older, in order of time;
     and, below it, no tuple that was dead at the last clock but in a block with one that was not.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store import spill_files
from sash.store.batch import EXPIRES, OP, TS
from sash.store.block_window import CUTS
from sash.store.directory import Directory
from sash.store.keys import encode_keys
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget
from sash.store.ordered_window import OrderedWindow
from sash.store.spill_arena import SpillArena
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


@st.composite
def sealed_windows(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], list[int], bool]:
    """Tuples with time, key and life, how many there are when some are sealed, and whether there is a restart."""
    gaps = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from([40, 40, 41])), max_size=30))
    times = np.cumsum([gap for gap, _, _ in gaps]).tolist()
    rows = [(time, key, life) for time, (_, key, life) in zip(times, gaps)]
    return rows, sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4))), draw(st.booleans())


@given(drawn=sealed_windows(), keys=st.sampled_from([KEYS, (), (("a",),), (("b",), ("a", "b"), ("a",))]))
def test_sealed_tuples_are_found_by_each_key_and_by_time(drawn, keys) -> None:
    """As a nested loop finds them; whatever is asked of a row is the same wherever it is."""
    rows, stops, restarts = drawn
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill_files, "LEAST_PAGE_BYTES", 64)
        each, start = small_window(keys, Path(directory)), 0
        for stop in [*stops, len(rows)]:
            each.insert(keyed(rows[start:stop]), 0)
            start = stop
            if stop in stops:
                each.seal((each.log.n_head_rows + 1) // 2)
        if restarts:
            other = small_window(keys, Path(directory))
            other.restore(each.log.entries(), each.log.next_number, 0)
            each = other
        check_sealed(each, rows, keys)
        each.evict(10_000)
        assert list(Path(directory).iterdir()) == []


def small_window(keys, directory: Path) -> OrderedWindow:
    return OrderedWindow(SCHEMA, keys, SPAN_US, SpillArena(MemoryBudget.of(LEAST_BYTES, directory)), may_seal=True)


def keyed(rows: list[tuple[int, int, int]]) -> pa.Table:
    times = [time for time, _, _ in rows]
    keys, expires = [key for _, key, _ in rows], [time + life for time, _, life in rows]
    return pa.table([keys, list(map(str, times)), times, expires, [1] * len(rows)], schema=SCHEMA)


def check_sealed(each: OrderedWindow, rows: list[tuple[int, int, int]], keys) -> None:
    sealed = np.concatenate([[], *(np.arange(one.first, one.last) for one in each.log.segments)]).astype(np.int64)
    every = np.concatenate([sealed, np.arange(each.floor, each.next_row)])
    payload = each.log.take(every)
    ts = np.array(payload[TS].to_pylist(), np.int64)
    assert sorted(zip(ts.tolist(), payload["a"].to_pylist())) == sorted((time, key) for time, key, _ in rows)
    assert each.expires_of(every, ts).tolist() == payload[EXPIRES].to_pylist()
    assert each.times_since(20).tolist() == sorted(time for time, _, _ in rows if time >= 20)
    found = [pair for one in each.scan_sealed(10, 60) for pair in zip(one.rows.tolist(), one.ts.tolist())]
    expected = [(row, time) for row, time in zip(sealed.tolist(), ts.tolist()) if 10 <= time <= 60]
    assert sorted(found) == sorted(expected)
    for number in (number for number, columns in enumerate(keys) if columns):
        wanted = encode_keys(payload, keys[number])
        assert each.keys_of(every, number).tolist() == wanted.tolist()
        since, until = ts - 7, ts + np.arange(len(ts)) % 9
        seen = [pair for one in each.probe_sealed(number, wanted, since, until, 5) for pair in zip(*map(list, one))]
        assert sorted(seen) == sorted(
            (seeker, row, ts[place])
            for seeker in range(len(every))
            for place, row in enumerate(sealed.tolist())
            if wanted[place] == wanted[seeker] and since[seeker] <= ts[place] <= until[seeker]
        )
