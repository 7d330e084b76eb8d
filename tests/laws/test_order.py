"""Law 3: any arrival order within the slack gives the same output. Beyond it: records read = accepted + late."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.oracle.reference import split_late
from sash.oracle.row_keys import row_keys
from sash.oracle.snapshot_law import check_snapshot
from sash.sql.bound_query import BoundQuery
from sash.testing import Case, assert_changes, expected_changes
from sash.testing.case import Step
from sash.testing.plans import plans
from sash.testing.strategies import batch_cuts, cases, rearrangements
from support.multiway_strategies import multiway_cases
from support.profiles import law_volume


def rearranged(strategy: st.SearchStrategy[Case]) -> st.SearchStrategy[tuple[Case, Case]]:
    return strategy.flatmap(lambda case: st.tuples(st.just(case), rearrangements(case)))


@settings(max_examples=law_volume())
@given(rearranged(cases()))
def test_order_of_arrival_does_not_show(pair: tuple[Case, Case]) -> None:
    case, other = pair
    assert_changes(other.run(), case.run())


@settings(max_examples=law_volume())
@given(rearranged(plans()))
def test_order_of_arrival_does_not_show_in_plans(pair: tuple[Case, Case]) -> None:
    case, other = pair
    assert_changes(other.run(), case.run())


@settings(max_examples=law_volume())
@given(rearranged(multiway_cases()))
def test_order_of_arrival_does_not_show_in_joins_of_many_streams(pair: tuple[Case, Case]) -> None:
    case, other = pair
    assert_changes(other.run(), case.run())


def cut(strategy: st.SearchStrategy[Case]) -> st.SearchStrategy[tuple[Case, list[Step]]]:
    return strategy.flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case, with_advances=False)))


@settings(max_examples=law_volume())
@given(cut(plans(is_late=True)))
def test_plans_answer_for_the_rows_in_time(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    changes, _ = case.replay(steps)
    check_snapshot(case.bound, case.tables, changes)


@settings(max_examples=law_volume())
@given(cut(cases(is_late=True)))
def test_late_rows_are_told_and_the_rest_is_answered(cut: tuple[Case, list[Step]]) -> None:
    check_late_rows(*cut)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(cut(multiway_cases(is_late=True, is_join=True)))
def test_late_rows_of_many_streams_are_told_and_the_rest_is_answered(cut: tuple[Case, list[Step]]) -> None:
    check_late_rows(*cut)


def check_late_rows(case: Case, steps: list[Step]) -> None:
    assert isinstance(case.bound, BoundQuery)
    changes, finished = case.replay(steps)
    assert_changes(changes, expected_changes(case.bound, case.tables))
    for name, arrived in case.arrivals.items():
        late = pa.concat_tables([arrived.schema.empty_table(), *finished.late[name]])
        accepted, expected_late, _ = split_late(arrived, finished.plan.streams[name])
        assert row_keys(late) == row_keys(expected_late)
        assert finished.n_read[name] == arrived.num_rows
        assert finished.n_late[name] == late.num_rows
        assert Counter(row_keys(arrived)) == Counter(row_keys(accepted)) + Counter(row_keys(late))
