"""Law 3: any arrival order within the slack gives the same output. Beyond it: records read = accepted + late."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sash.testing import Case, assert_changes, expected_changes
from sash.testing.case import Step
from sash.testing.reference import row_keys, split_late
from sash.testing.strategies import batch_cuts, cases, rearrangements


@given(cases().flatmap(lambda case: st.tuples(st.just(case), rearrangements(case))))
def test_order_of_arrival_does_not_show(pair: tuple[Case, Case]) -> None:
    case, other = pair
    assert_changes(other.run(), case.run())


late_cases = cases(is_late=True).flatmap(lambda case: st.tuples(st.just(case), batch_cuts(case, with_advances=False)))


@given(late_cases)
def test_late_rows_are_told_and_the_rest_is_answered(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    changes, finished = case.replay(steps)
    assert_changes(changes, expected_changes(case.bound, case.tables))
    for name, arrived in case.arrivals.items():
        late = pa.concat_tables([arrived.schema.empty_table(), *finished.late[name]])
        accepted, expected_late = split_late(arrived, finished.plan.streams[name])
        assert row_keys(late) == row_keys(expected_late)
        assert finished.n_read[name] == arrived.num_rows
        assert finished.n_late[name] == late.num_rows
        assert Counter(row_keys(arrived)) == Counter(row_keys(accepted)) + Counter(row_keys(late))
