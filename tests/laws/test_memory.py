"""Law 6, of memory: how much there is does not show. Windows that are sealed all the time answer as those in memory do.

least     16 KiB, of which a quarter is for a step: a few rows are a bite, and fewer come into a window at once
sealed    whatever is in a window when a step begins goes to disk first, whole or half, in pages of few rows
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sash
from sash.index import head_room
from sash.oracle.snapshot_law import is_join
from sash.plan import least_memory
from sash.sql.bound_query import BoundQuery
from sash.store import bites, sealed_expiries, sorted_runs, spill_files, timed_log, trace
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget
from sash.testing import Case, assert_changes, expected_changes, stream_of
from sash.testing.case import Push, Step
from sash.testing.plans import plans
from sash.testing.strategies import batch_cuts, cases
from support.multiway_strategies import multiway_cases
from support.profiles import volume
from support.shared_case import SharedCase
from support.shared_strategies import SCHEDULES, shared_cases, with_schedule

Interrupted = tuple[Case, list[Step], set[int]]
N_CASES = volume(dev=4, ci=35, deep=1000)


@pytest.fixture(autouse=True, scope="module")
def sealed_all_the_time(spill: Path) -> Iterator[None]:
    """Memory is always short, however little there is in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_room, "LEAST_SHARE", 1 << 40)
        patch.setattr(timed_log, "LEAST_SHARE", 1 << 40)
        patch.setattr(trace, "LEAST_SHARE", 1 << 40)
        patch.setattr(sealed_expiries, "LEAST_BATCH_BYTES", 64)
        patch.setattr(bites, "LEAST_ROWS", 2)
        patch.setattr(bites, "SHARE_OF_STATE", 1 / 8)
        patch.setattr(spill_files, "LEAST_PAGE_BYTES", 64)
        patch.setattr(sorted_runs, "LEAST_RUN_BYTES", 1)
        patch.setattr(least_memory, "least_memory", lambda plans: LEAST_BYTES)  # many plans need more
        patch.setattr(MemoryBudget, "n_state_bytes", property(lambda budget: budget.state_bytes + 1))
        yield
    gc.collect()
    assert list(spill.iterdir()) == [], "files that nobody needs any more"


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spill")


@contextmanager
def as_little_memory(spill: Path) -> Iterator[None]:
    sash.configure(memory=LEAST_BYTES, spill=spill)
    yield
    sash.configure()


def check(case: Case, steps: list[Step], stops: set[int], spill: Path) -> None:
    expected = case.run()
    with as_little_memory(spill):
        assert_changes(case.run(), expected)
        changes, _ = case.replay(steps, restart_after=stops)
        assert_changes(changes, expected)


@st.composite
def interrupted(draw: st.DrawFn, strategy: st.SearchStrategy[Case]) -> Interrupted:
    case = draw(strategy)
    steps = draw(batch_cuts(case))
    return case, steps, draw(st.sets(st.integers(0, max(0, len(steps) - 1)), max_size=3))


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(interrupted(cases()))
def test_windows_on_disk_do_not_show(spill: Path, drawn: Interrupted) -> None:
    check(*drawn, spill)


@settings(max_examples=N_CASES)
@given(interrupted(plans()))
def test_plans_over_windows_on_disk_do_not_show(spill: Path, drawn: Interrupted) -> None:
    check(*drawn, spill)


ONE_TIME_IN_PARTS = Case(
    "SELECT A.v AS v0, B.v AS v1, C.v AS v2 FROM a A, b B, c C WHERE A.k = B.k AND A.j = C.j "
    "WINDOW (A, B) = 5 us AND WINDOW (B, C) = 5 us",
    {
        "a": sash.stream(
            stream_of("""
            ts | k | j | v
            0  | 0 | 0 | 1
            0  | 0 | 0 | 1
            0  | 0 | 0 | 1
            0  | 0 | 0 | 1
            1  | 0 | 0 | 1
            2  | 0 | 0 | 1
            3  | 0 | 0 | 1
            4  | 0 | 0 | 1
        """),
            time="ts",
        ),
        "b": sash.stream(
            stream_of("""
            ts | k | v
            -1 | 0 | 1
            0  | 0 | 1
            1  | 0 | 1
            2  | 0 | 1
            3  | 0 | 1
            4  | 0 | 1
            5  | 0 | 1
            6  | 0 | 1
        """),
            time="ts",
        ),
        "c": sash.stream(
            stream_of("""
            ts | j | v
            -1 | 0 | 1
            0  | 0 | 1
            1  | 0 | 1
            1  | 0 | 1
            3  | 0 | 2
            5  | 0 | 3
            5  | 1 | 0
        """),
            time="ts",
            slack="1 us",
        ),
    },
)


@pytest.mark.slow
@settings(max_examples=N_CASES)
@example((ONE_TIME_IN_PARTS, [Push("c", 0, 7), Push("a", 0, 8), Push("b", 0, 8)], set())).via(
    "pairs of one time, too many for memory, and a tuple of that time"
)
@given(interrupted(multiway_cases()))
def test_joins_of_many_streams_with_little_memory_do_not_show(spill: Path, drawn: Interrupted) -> None:
    check(*drawn, spill)
    bound, tables = drawn[0].bound, drawn[0].tables
    if isinstance(bound, BoundQuery) and is_join(bound):
        with as_little_memory(spill):
            assert_changes(drawn[0].run(), expected_changes(bound, tables))


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(shared_cases(), st.sampled_from((*SCHEDULES, None)), st.sets(st.integers(0, 30), max_size=3))
def test_queries_that_share_with_little_memory_do_not_show(
    spill: Path, case: SharedCase, schedule: str | None, restarts: set[int]
) -> None:
    """They come and go, and each gets what it would get alone in memory without an end."""
    case = with_schedule(case, schedule)
    with as_little_memory(spill):
        episodes = case.play(restarts)
    for episode in episodes:
        if episode.changes.num_rows or case.is_due(episode):
            assert_changes(episode.changes, case.alone(episode))


A = stream_of("""
    ts | k | v
    1  | a | 1
    2  | b | 2
    2  | a | 3
    4  | a | 4
    9  | b | 5
""")
B = stream_of("""
    ts | k | v
    1  | b | 1
    3  | a | 2
    4  | a | 3
    5  | b | 4
    9  | a | 5
""")


JOINS = {
    "of two": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 5 US",
    "of three": "SELECT A.v, B.v AS w FROM a A, b B, a C WHERE A.k = B.k AND B.k = C.k WINDOW 5 US",
    "of three by time": "SELECT A.v FROM a A, b B, a C WHERE A.v < B.v AND B.v < C.v WINDOW 5 US",
}


@pytest.mark.parametrize("text", JOINS.values(), ids=JOINS)
def test_rows_are_in_segments_then(spill: Path, text: str) -> None:
    """That the cases above are about what they say."""
    with as_little_memory(spill):
        frames = {"a": sash.stream(A, time="ts"), "b": sash.stream(B, time="ts")}
        running = sash.query(text, **frames)
    n_segments = []
    for row in range(A.num_rows):
        running.push("a", A.slice(row, 1))
        running.push("b", B.slice(row, 1))
        logs = [log for _, operator in running.operators() for log in operator.logs().values()]
        n_segments.append(sum(len(log.segments) for log in logs))
        assert (sum(log.n_disk_bytes for log in logs) > 0) == (n_segments[-1] > 0)
    assert max(n_segments) > 2


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, sum(v) AS s FROM a A [RANGE 5 US] GROUP BY k",
        "SELECT DISTINCT k FROM a A [RANGE 5 US]",
        "SELECT k FROM a A [RANGE 5 US] EXCEPT SELECT k FROM b B [RANGE 2 US]",
        "SELECT v FROM a A [RANGE 5 US] WHERE k IN (SELECT k FROM b B [RANGE 4 US])",
        "SELECT v FROM a A [RANGE 5 US] EMIT CHANGES",
    ],
)
def test_rows_of_traces_are_in_segments_then(text: str, spill: Path) -> None:
    frames = {"a": A, "b": B} if " b B" in text else {"a": A}
    streams = {name: sash.stream(frame, time="ts") for name, frame in frames.items()}
    expected = sash.sql(text, **streams)
    with as_little_memory(spill):
        running = sash.query(text, **streams)
        assert sash.sql(text, **streams).equals(expected)
    n_segments = 0
    for row in range(A.num_rows):
        for name, frame in frames.items():
            running.push(name, frame.slice(row, 1))
        n_segments += sum(len(log.segments) for _, each in running.operators() for log in each.logs().values())
    assert n_segments > 1
