"""Law 8: a query that shares work with others gets exactly what it would get alone, whatever the others do, and when.

Laws 2, 4 and 6 hold of shared queries as well: cuts, restarts and the schedule do not show.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.testing import assert_changes
from sash.testing.oracle import check_snapshot
from sash.testing.shared import SCHEDULES, shared_cases, with_schedule
from sash.testing.shared_case import Add, SharedCase
from sash.testing.strategies import arrival_cuts

N_CASES = 1000 if settings.get_current_profile_name() == "ci" else 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=N_CASES)
@given(shared_cases(), st.sampled_from((*SCHEDULES, None)), st.integers(0, 9))
def test_each_query_gets_what_it_would_get_alone(case: SharedCase, schedule: str | None, lot: int) -> None:
    """Every tenth case runs by all schedules, and DuckDB is asked about its queries that are there from the start."""
    for each in (*SCHEDULES, None) if lot == 0 else (schedule,):
        check_isolation(case, each)
    if lot == 0:
        check_oracle(case)


def check_isolation(case: SharedCase, schedule: str | None) -> None:
    for episode in with_schedule(case, schedule).play():
        if episode.changes.num_rows or case.is_due(episode):
            assert_changes(episode.changes, case.alone(episode))


def check_oracle(case: SharedCase) -> None:
    for episode in case.play():
        if episode.is_finished and episode.begin < len(case.texts):
            alone = case.cases[episode.name]
            check_snapshot(alone.bound, alone.tables, episode.changes)


@given(st.data())
def test_cuts_do_not_show(data: st.DataObject) -> None:
    """Of queries that are there all the time, the answers do not depend on how the rows come."""
    case = data.draw(shared_cases(is_steady=True))
    again = SharedCase(case.texts, case.frames, [*map(Add, case.texts), *data.draw(arrival_cuts(case.arrivals))])
    for one, other in zip(case.play(), again.play(), strict=True):
        assert_changes(other.changes, one.changes)


@given(shared_cases(is_steady=True, is_late=False))
def test_a_whole_run_gives_what_each_query_gives_alone(case: SharedCase) -> None:
    session = case.open_session(with_rows=True)
    for name, text in case.texts.items():
        session.query(name, text)
    for name, changes in session.run().items():
        assert_changes(changes, sash.sql(case.texts[name], **case.frames))
