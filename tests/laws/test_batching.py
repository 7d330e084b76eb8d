"""Law 2: any way of cutting the input into batches gives the same output, order included."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.testing import Case, Push, assert_changes
from sash.testing.case import Step
from sash.testing.plans import plans
from sash.testing.strategies import batch_cuts, cases
from support.multiway_strategies import multiway_cases
from support.profiles import law_volume

Cut = tuple[Case, list[Step]]


def with_cuts(strategy: st.SearchStrategy[Case]) -> st.SearchStrategy[Cut]:
    return strategy.flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case)))


@settings(max_examples=law_volume())
@given(with_cuts(cases()))
def test_cuts_do_not_show(cut: Cut) -> None:
    check_cuts(*cut)


@settings(max_examples=law_volume())
@given(with_cuts(plans()))
def test_cuts_of_plans_do_not_show(cut: Cut) -> None:
    check_cuts(*cut)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(with_cuts(multiway_cases()))
def test_cuts_of_many_streams_do_not_show(cut: Cut) -> None:
    check_cuts(*cut)


def check_cuts(case: Case, steps: list[Step]) -> None:
    """What the steps return is what one step would, in order, after all that was final before it, and final itself.

    What holds since the beginning has no time.
    """
    running, changes = case.start(), []
    for step in steps:
        before = running.clock
        changes.append(case.take(running, step))
        times = changes[-1].column("_ts").cast("int64").drop_null().to_pylist()
        assert times == sorted(times)
        assert all(before < time <= running.clock for time in times)
    assert_changes(pa.concat_tables([*changes, running.finish()]), case.run())


@pytest.mark.slow
@settings(max_examples=max(law_volume(), 50))
@given(cases() | plans() | multiway_cases())
def test_row_by_row(case: Case) -> None:
    steps = [Push(name, row, row + 1) for name, table in case.arrivals.items() for row in range(table.num_rows)]
    changes, _ = case.replay(steps)
    assert_changes(changes, case.run())
