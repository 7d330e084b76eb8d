"""Turns are complete up to their time, and hold all tuples; an instant that is larger than memory comes in parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store.batch import EXPIRES, OP, TS, concat, sorted_by_time
from sash.store.timed_turns import Instants, OrderedTuples, TimedTurn, in_turns

ROWS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from([-1, 1])), max_size=40)
ONE_INSTANT = [(1, 1)] * 30
TWO_INSTANTS = [(1, 1), (1, -1), (2, 1)] * 9


def table_of(rows: list[tuple[int, int]]) -> pa.Table:
    ts, signs = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
    return pa.table({TS: ts, EXPIRES: np.arange(len(ts)), OP: signs.astype(np.int8)})


def ordered(rows: list[tuple[int, int]], n_rows: int) -> OrderedTuples:
    tuples = sorted_by_time(table_of(rows), with_ties=False, leaving_first=True)
    parts = [tuples.slice(first, n_rows) for first in range(0, tuples.num_rows, n_rows)]
    return OrderedTuples(parts, tuples.schema, tuples.num_rows)


def turns_of(inputs: list[list], n_rows: int, clock: int, most_bytes: int, instants: Instants) -> list[TimedTurn]:
    return list(in_turns([ordered(rows, n_rows) for rows in inputs], clock, most_bytes, instants))


@given(
    st.lists(ROWS, min_size=1, max_size=3),
    st.sampled_from([1, 3, 50]),
    st.sampled_from([3, 6, 9]),
    st.sampled_from([1, 100, 400, 10**6]),
    st.sampled_from(Instants),
)
@example([ONE_INSTANT], 3, 6, 100, Instants.ENTERING_FIRST).via("one instant is larger than memory")
@example([ONE_INSTANT], 3, 6, 100, Instants.WHOLE).via("and taken at once")
@example([TWO_INSTANTS, TWO_INSTANTS], 3, 6, 100, Instants.ENTERING_FIRST).via("two are, and some of it leaves")
@example([TWO_INSTANTS, TWO_INSTANTS], 3, 6, 100, Instants.LEAVING_FIRST).via("two are, and some of it leaves")
@example([[(0, 1)], [(6, 1)] * 30], 50, 6, 100, Instants.LEAVING_FIRST).via("one is far behind")
def test_turns_are_complete_up_to_their_time(
    inputs: list[list], n_rows: int, clock: int, most_bytes: int, instants: Instants
) -> None:
    turns, last_us, open_us = turns_of(inputs, n_rows, clock, most_bytes, instants), -1, None
    for tables, until, is_part in turns:
        times = [time for table in tables for time in table[TS].to_pylist()]
        assert until >= last_us
        if is_part:
            assert set(times) == {until}
            assert until > last_us
            assert open_us in (None, until) or (instants is Instants.LEAVING_FIRST and open_us < until)
            open_us = until
        else:
            assert instants is not Instants.ENTERING_FIRST or open_us in (None, until)
            assert last_us == clock or all(time > last_us for time in times)
            assert until == clock or all(time <= until for time in times)
            last_us, open_us = until, None
    assert (last_us, open_us) == (clock, None)
    for number, rows in enumerate(inputs):
        found = concat([table_of([]), *(turn.inputs[number] for turn in turns)])
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, table_of(rows).to_pylist()))


@given(st.lists(ROWS, min_size=2, max_size=2), st.sampled_from([1, 3]))
@example([TWO_INSTANTS, TWO_INSTANTS], 3)
def test_what_leaves_comes_after_what_enters_or_before_it(inputs: list[list], n_rows: int) -> None:
    for tables, _, is_part in turns_of(inputs, n_rows, 9, 1, Instants.ENTERING_FIRST):
        assert not is_part or {sign for table in tables for sign in table[OP].to_pylist()} == {1}
    seen: dict[int, tuple[bool, int]] = {}
    for tables, until, is_part in turns_of(inputs, n_rows, 9, 1, Instants.LEAVING_FIRST):
        if is_part:
            phases = {(sign > 0, number) for number, table in enumerate(tables) for sign in table[OP].to_pylist()}
            assert len(phases) == 1, "what leaves on the left, then on the right, then what enters, likewise"
            assert seen.get(until, (False, 0)) <= min(phases)
            seen[until] = min(phases)


@pytest.mark.parametrize("instants", [Instants.ENTERING_FIRST, Instants.LEAVING_FIRST])
@pytest.mark.parametrize("rows", [[(1, 1)] * 2000, [(n // 7, 1) for n in range(2000)]], ids=["one", "many"])
def test_no_turn_is_larger_than_memory(rows: list, instants: Instants) -> None:
    turns = turns_of([rows, rows], 10, 5, 800, instants)
    assert max(sum(table.nbytes for table in turn.inputs) for turn in turns if turn.until < 5) <= 2 * 800


@given(ROWS, st.sampled_from([1, 3, 50]), st.lists(st.integers(-1, 7), max_size=4))
def test_what_is_asked_for_bit_by_bit_is_all(rows: list, n_rows: int, times: list[int]) -> None:
    tuples, found = ordered(rows, n_rows), []
    for until in sorted(times):
        found += [row for part in tuples.up_to(until) for row in part.to_pylist()]
        assert all(row[TS] <= until for row in found)
        assert sum(row[TS] <= until for row in found) == sum(time <= until for time, _ in rows)
    found += [row for part in tuples for row in part.to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, table_of(rows).to_pylist()))
