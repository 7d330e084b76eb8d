"""Law 2: any way of cutting the input into batches gives the same output, order included."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.testing import Case, Push, assert_changes
from sash.testing.case import Step
from sash.testing.strategies import batch_cuts, cases

cut_cases = cases().flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case)))


@given(cut_cases)
def test_cuts_do_not_show(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    changes, _ = case.replay(steps)
    assert_changes(changes, case.run())


@given(cases())
def test_row_by_row(case: Case) -> None:
    steps = [Push(name, row, row + 1) for name, table in case.arrivals.items() for row in range(table.num_rows)]
    changes, _ = case.replay(steps)
    assert_changes(changes, case.run())


@given(cut_cases)
def test_changes_come_in_order_and_are_final(cut: tuple[Case, list[Step]]) -> None:
    """What a step returns is after all that was final before it, and final itself."""
    case, steps = cut
    running = sash.query(case.text, **case.frames)
    for step in steps:
        before = running.clock
        times = case.take(running, step).column("_ts").cast("int64").to_pylist()
        assert times == sorted(times)
        assert all(before < time <= running.clock for time in times)
