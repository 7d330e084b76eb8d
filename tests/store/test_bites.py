"""A step in bites: every tuple once, in order of time, and never a clock that a later bite contradicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store import bites as store_bites
from sash.store.batch import TS
from sash.store.bites import LEAST_ROWS, Bite, Bites, Spent, Use
from sash.store.memory_budget import MemoryBudget

CLOCK = 50


def arrivals(*slots: Sequence[int]) -> dict[int, pa.Table]:
    return {slot: pa.table({"n": range(len(ts)), TS: pa.array(ts, pa.int64())}) for slot, ts in enumerate(slots)}


def budget_for(n_rows: int) -> MemoryBudget:
    """So large that bites have about so many of the rows above, 16 bytes each."""
    return MemoryBudget(1 << 30, n_rows * 16, 1 << 20, Path("nowhere"))


def cut(step: Bite, n_rows: int) -> list[Bite]:
    return list(Bites(step, budget_for(n_rows)))


TIMES = st.lists(st.integers(1, 99), max_size=80)


@given(TIMES, TIMES, st.integers(1, 20))
def test_every_tuple_comes_once_and_in_time(left: list[int], right: list[int], n_rows: int) -> None:
    step = Bite(arrivals(left, right), CLOCK, {0: CLOCK, 1: 70})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_bites, "LEAST_ROWS", 1)
        bites, reached = cut(step, n_rows), 0
    for bite in bites:
        times = [ts for table in bite.arrivals.values() for ts in table[TS].to_pylist()]
        assert all(reached < ts for ts in times), "older than a clock that was promised"
        assert reached <= bite.clock <= CLOCK
        assert all(bite.clock <= clock for clock in bite.clocks.values())
        reached = bite.clock
    assert bites[-1].clock == CLOCK
    assert bites[-1].clocks == step.clocks
    for slot, table in step.arrivals.items():
        found = pa.concat_tables([bite.arrivals[slot] for bite in bites])
        assert sorted(found["n"].to_pylist()) == table["n"].to_pylist()


def test_what_fits_is_one_bite() -> None:
    step = Bite(arrivals([3, 1, 2]), CLOCK, {0: CLOCK})
    assert cut(step, 1000) == [step]
    assert list(Bites(step, None)) == [step]


def test_a_step_without_tuples_still_moves_the_clock() -> None:
    step = Bite({}, CLOCK, {})
    assert cut(step, 1) == [step]


def test_an_instant_is_not_cut_in_two() -> None:
    bites = cut(Bite(arrivals([7] * 100, [7] * 100), CLOCK, {}), LEAST_ROWS)
    assert len(bites) == 1


def test_bites_are_larger_where_nothing_is_kept_and_much_is_read() -> None:
    budget, step = MemoryBudget(1 << 14, 1 << 13, 1 << 13, Path("nowhere")), Bite(arrivals(range(1, 1001)), 2000, {})
    kept, in_pieces, passing = (list(Bites(step, budget, Spent(use, 0))) for use in Use)
    assert (len(kept), len(in_pieces), len(passing)) == (22, 10, 7)
    reading = Bites(step, budget, Spent(Use.PASSED_ON, 1 << 20))
    for _ in reading:
        reading.see(1 << 19)
    assert [bite.arrivals[0].num_rows for bite in reading] == [bite.arrivals[0].num_rows for bite in passing]


def test_bites_become_smaller_when_much_comes_out_and_larger_again() -> None:
    bites = Bites(Bite(arrivals(range(1, 1001)), 2000, {}), budget_for(64))
    sizes = []
    for number, bite in enumerate(bites):
        sizes.append(bite.arrivals[0].num_rows)
        bites.see(10**9 if number < 2 else 0)
    assert sizes[:5] == [63, 31, 16, 32, 64]
