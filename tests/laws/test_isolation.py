"""Law 8: a query that shares work with others gets exactly what it would get alone, whatever the others do, and when.

Laws 2, 4 and 6 hold of shared queries as well: cuts, restarts and the schedule do not show.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
from sash.operators.trunk import JOIN
from sash.oracle.snapshot_law import check_snapshot
from sash.plan.sharing.join_sites import sites_of
from sash.store.block_window import CUTS
from sash.testing import Advance, Push, assert_changes, stream_of
from sash.testing.strategies import arrival_cuts
from support.profiles import law_volume, volume
from support.shared_case import Add, Drop, SharedCase
from support.shared_strategies import SCHEDULES, shared_cases, with_schedule

N_CASES = volume(dev=3, ci=25, deep=1000)
SELDOM = st.sampled_from((*[False] * 19, True))
KEYS = "A.k = B.k"
A = stream_of("""
    ts | k | v
    6  | x | 3
    7  | y | 1
""")
B = stream_of("""
    ts | k | v
    5  | y | 4
    6  | x | 5
""")
FRAMES = {"a": sash.stream(A, time="ts", slack="0 us"), "b": sash.stream(B, time="ts", slack="0 us")}
PAIRS = f"SELECT A.v, B.v AS w FROM a A, b B WHERE {KEYS} WINDOW 5 us"
COUNTS = f"SELECT A.k, count(*) AS n FROM a A [NOW], b B [RANGE 9 us] WHERE {KEYS} GROUP BY A.k"
REST = f"({PAIRS}) EXCEPT ALL ({PAIRS.replace('5', '3')})"
ROWS = [Push("b", 0, 2), Push("a", 0, 1), Push("a", 1, 2)]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=N_CASES)
@given(shared_cases(), st.sampled_from((*SCHEDULES, None)), SELDOM)
def test_each_query_gets_what_it_would_get_alone(case: SharedCase, schedule: str | None, is_whole: bool) -> None:
    """One case in twenty runs by all schedules, and DuckDB is asked about its queries that are there from the start."""
    for each in (*SCHEDULES, None) if is_whole else (schedule,):
        check_isolation(case, each)
    if is_whole:
        check_oracle(case)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            SharedCase({"q": COUNTS, "p": PAIRS}, FRAMES, [Add("q"), Add("p"), *ROWS]),
            id="a group ends at the very clock",
        ),
        pytest.param(
            SharedCase(
                {"q": PAIRS, "p": COUNTS}, FRAMES, [Add("q"), *ROWS[:2], Advance(6), Add("p"), Drop("q"), ROWS[2]]
            ),
            id="a query is added just before another change of the set",
        ),
        pytest.param(
            SharedCase({"q": REST, "p": PAIRS}, FRAMES, [Add("p"), *ROWS[:2], Advance(6), Add("q"), ROWS[2]]),
            id="a query begins with pairs of two windows",
        ),
        pytest.param(
            SharedCase(
                {"q": PAIRS, "p": "SELECT A.v FROM a A WINDOW 3 us"},
                FRAMES,
                [Add("p"), Push("b", 0, 1), Push("a", 0, 1), Add("q"), Push("b", 1, 2), Push("a", 1, 2)],
            ),
            id="a stream that no query reads for a while",
        ),
    ],
)
def test_cases_that_once_failed(case: SharedCase, schedule: str) -> None:
    check_isolation(case, schedule)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(shared_cases(), st.sampled_from((*SCHEDULES, None)), st.sets(st.integers(0, 30), min_size=1, max_size=4))
def test_restarts_do_not_show(case: SharedCase, schedule: str | None, restarts: set[int]) -> None:
    """Law 4, also where the set of queries changes while nothing runs."""
    check_isolation(case, schedule, restarts)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(shared_cases(), st.sampled_from((*SCHEDULES, None)))
def test_state_is_kept_once(case: SharedCase, schedule: str | None) -> None:
    """Law 7: the join holds what the largest window of those that run holds, and an eighth of it."""
    case = with_schedule(case, schedule)
    case.play(watch=lambda session, n_events: check_state(case, session, n_events))


def test_what_only_a_dropped_query_needed_is_gone_at_once() -> None:
    """Also if no row comes after it that moves the join's clock."""
    rows = stream_of("\n".join(["ts | k | v", *(f"{ts} | x | 1" for ts in range(9))]))
    frames = {"a": sash.stream(rows, time="ts", slack="0 us"), "b": FRAMES["b"]}
    pairs = f"SELECT A.v, B.v AS w FROM a A, a B WHERE {KEYS} WINDOW 5 us"
    longer = pairs.replace("5 us", "20 us")
    events = [Add("q"), Add("p"), Push("a", 0, 1), Push("a", 1, 9), Drop("q"), Push("b", 0, 1)]
    case = SharedCase({"q": longer, "p": pairs}, frames, events)
    case.play(watch=lambda session, n_events: check_state(case, session, n_events))


def check_state(case: SharedCase, session: sash.Session, n_events: int) -> None:
    admitted_us = case.admitted_us(n_events)
    for group in session._running().jobs:
        trunk = group.plan.trunk
        if trunk is None:
            continue
        sites = [site for plan in group.plan.queries.values() for site in sites_of(plan)]
        most = 0
        for side, stream in enumerate(trunk.signature.streams):
            window_us = max(site.windows_us[side] for site in sites)
            # One that expires just after the clock is held for a query that comes at it.
            held_us = window_us + window_us // CUTS + 1
            most += sum(ts <= group.intake.clock < ts + held_us for ts in admitted_us[stream])
        n_held = sum(log.n_rows for log in dict(group.pipeline.operators())[JOIN].logs().values())
        assert n_held <= most


def check_isolation(case: SharedCase, schedule: str | None, restarts: Collection[int] = ()) -> None:
    case = with_schedule(case, schedule)
    for episode in case.play(restarts):
        if episode.changes.num_rows or case.is_due(episode):
            assert_changes(episode.changes, case.alone(episode))


def check_oracle(case: SharedCase) -> None:
    for episode in case.play():
        if episode.is_finished and episode.begin < len(case.texts):
            alone = case.cases[episode.name]
            check_snapshot(alone.bound, alone.tables, episode.changes)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(st.data())
def test_cuts_do_not_show(data: st.DataObject) -> None:
    """Of queries that are there all the time, the answers do not depend on how the rows come."""
    case = data.draw(shared_cases(is_steady=True))
    again = SharedCase(case.texts, case.frames, [*map(Add, case.texts), *data.draw(arrival_cuts(case.arrivals))])
    for one, other in zip(case.play(), again.play(), strict=True):
        assert_changes(other.changes, one.changes)


@pytest.mark.slow
@settings(max_examples=law_volume())
@given(shared_cases(is_steady=True, is_late=False))
def test_a_whole_run_gives_what_each_query_gives_alone(case: SharedCase) -> None:
    session = case.open_session(with_rows=True)
    for name, text in case.texts.items():
        session.query(name, text)
    for name, changes in session.run().items():
        assert_changes(changes, sash.sql(case.texts[name], **case.frames))
