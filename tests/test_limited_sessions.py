"""Sessions under a limit: queries that share a join come and go, and each answers as if memory had no end."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.cost.choose_schedule import STEPS_BETWEEN_LOOKS
from sash.embedded import running_job
from sash.embedded.running_job import RunningJob
from sash.errors import PlanError, ResourceError
from sash.operators.pipeline import Pipeline
from sash.operators.tap_spec import LWO
from sash.store.spill_arena import SpillArena
from sash.store.spill_files import SpillFiles
from sash.testing import assert_changes

N_ROWS, ROWS_PER_PUSH, N_KEYS = 1200, 60, 300
DROPPED_AT, ADDED_AT, RESTARTED_AT = 7, 10, 14
JOIN = "SELECT A.k, A.v, B.s FROM a A, b B WHERE A.k = B.k WINDOW {} MILLISECONDS"
COUNT = "SELECT A.k, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.k WINDOW {} MILLISECONDS"
LARGE, COUNTED, SMALL, LATE = JOIN.format(800), COUNT.format(400), JOIN.format(60), JOIN.format(600)
Heard = dict[str, pa.Table]


def rows_of(seed: int) -> pa.Table:
    keys = np.random.default_rng(seed).integers(0, N_KEYS, N_ROWS)
    strings = pa.array([f"row {number} of {seed}" for number in range(N_ROWS)])
    times = pa.array(1000 * np.arange(N_ROWS), pa.timestamp("us"))
    return pa.table({"k": keys, "v": np.arange(N_ROWS), "s": strings, "ts": times})


ROWS = {"a": rows_of(1), "b": rows_of(2)}


@pytest.fixture(autouse=True)
def as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    sash.configure(spill=tmp_path)
    yield
    sash.configure()


def open_session(memory: str | None, **queries: str) -> sash.Session:
    session = sash.Session(memory=memory)
    for name, rows in ROWS.items():
        session.stream(name, rows.schema)
    for name, text in queries.items():
        session.query(name, text)
    return session


def arenas_of(session: sash.Session) -> list[SpillArena]:
    return [job.arena for job in session._running().jobs if job.arena is not None]


def n_segments(session: sash.Session) -> int:
    logs = [log for job in session._running().jobs for each in job.pipeline.logs().values() for log in each]
    return sum(len(log.segments) for log in logs)


def play(memory: str | None, watch: Callable[[sash.Session], None] = lambda session: None) -> Heard:
    """What queries hear of which one is dropped, one comes later, and all are taken to another process."""
    texts = {"large": LARGE, "counted": COUNTED, "small": SMALL}
    session, heard = open_session(memory, **texts), dict[str, list[pa.Table]]()
    for step, first in enumerate(range(0, N_ROWS, ROWS_PER_PUSH)):
        for name, rows in ROWS.items():
            for query, changes in session.push(name, rows.slice(first, ROWS_PER_PUSH)).items():
                heard.setdefault(query, []).append(changes)
            watch(session)
        if step == DROPPED_AT:
            session.drop("large")
            del texts["large"]
        elif step == ADDED_AT:
            session.query("late", LATE)
            texts["late"] = LATE
        elif step == RESTARTED_AT:
            old, session = session, open_session(memory, **texts)
            session.restore(old.snapshot())
            del old
        watch(session)
    for query, changes in session.finish().items():
        heard[query].append(changes)
    return {query: pa.concat_tables(changes) for query, changes in heard.items()}


@pytest.fixture(scope="module")
def expected() -> Heard:
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("SASH_MEMORY", raising=False)
        return play(None)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["64k", "256k"])
def test_queries_come_and_go_as_without_a_limit(memory: str, expected: Heard) -> None:
    """Vectors of less than a page are in memory whatever there is: they take an eighth at most."""
    most_bytes: list[float] = []
    n_files: list[int] = []

    def watch(session: sash.Session) -> None:
        (arena,) = arenas_of(session)
        most_bytes.append(arena.budget.n_state_bytes / arena.budget.state_bytes)
        n_files.append(arena.counts.n_files_written)

    heard = play(memory, watch)
    assert heard.keys() == expected.keys()
    for query, changes in heard.items():
        assert changes.num_rows
        assert_changes(changes, expected[query])
    assert max(most_bytes) < 1 + 1 / 8
    assert max(n_files) > 4


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "drop"])
def test_a_change_does_not_cut_windows_into_small_files(change: str) -> None:
    """Whoever goes on finds memory free: what went on before it has left, and not with every block for itself."""
    session = open_session("64k", large=LARGE, counted=COUNTED, small=SMALL)
    for first in range(0, N_ROWS // 2, ROWS_PER_PUSH):
        for name, rows in ROWS.items():
            session.push(name, rows.slice(first, ROWS_PER_PUSH))
    before = n_segments(session)
    assert before > 4
    if change == "add":
        session.query("late", LATE)
    else:
        session.drop("small")
    assert n_segments(session) <= before


def feed(session: sash.Session, first: int, last: int) -> Heard:
    heard = dict[str, list[pa.Table]]()
    for at in range(first, last, ROWS_PER_PUSH):
        for name, rows in ROWS.items():
            for query, changes in session.push(name, rows.slice(at, ROWS_PER_PUSH)).items():
                heard.setdefault(query, []).append(changes)
    return {query: pa.concat_tables(changes) for query, changes in heard.items()}


@pytest.mark.parametrize("change", ["add", "drop"])
def test_nothing_is_written_at_a_change_while_all_fits_twice(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpillFiles, "write", lambda *_: throw(AssertionError("something is written")))
    session = open_session("1m", large=LARGE, small=SMALL)
    feed(session, 0, N_ROWS // 2)
    session.query("late", LATE) if change == "add" else session.drop("small")
    feed(session, N_ROWS // 2, N_ROWS)


def test_what_went_on_before_a_change_is_gone_with_it() -> None:
    """Also if no step comes in between, and nobody collects garbage."""
    session = open_session("256k", large=LARGE, small=SMALL)
    feed(session, 0, N_ROWS // 2)
    gc.disable()
    try:
        for number in range(4):
            session.query(f"late{number}", LATE)
        (arena,) = arenas_of(session)
        holders = [each for each in arena.budget._holders if each.n_bytes]
    finally:
        gc.enable()
    assert holders == [arena]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "drop"])
def test_a_change_that_meets_a_full_disk_loses_nothing(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next rows are refused until there is room; then all goes on as if nothing had been."""

    def play(is_full: bool) -> Heard:
        session = open_session("64k", large=LARGE, counted=COUNTED)
        before = feed(session, 0, N_ROWS // 2)
        with monkeypatch.context() as patched:
            if is_full:
                patched.setattr(SpillFiles, "write", refuse)
            session.query("late", LATE) if change == "add" else session.drop("counted")
            if is_full:
                with pytest.raises(ResourceError, match="no room"):
                    feed(session, N_ROWS // 2, N_ROWS)
        after, rest = feed(session, N_ROWS // 2, N_ROWS), session.finish()
        parts = {name: [*(heard[name] for heard in (before, after, rest) if name in heard)] for name in rest}
        return {name: pa.concat_tables(changes) for name, changes in parts.items()}

    def refuse(*_: object) -> None:
        raise ResourceError("no room")

    usual, refused = play(False), play(True)
    assert usual.keys() == refused.keys()
    for query, changes in usual.items():
        assert changes.num_rows
        assert_changes(refused[query], changes)


@pytest.mark.slow
def test_a_change_that_fails_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    session, usual = (open_session("64k", large=LARGE, counted=COUNTED) for _ in range(2))
    for each in (session, usual):
        feed(each, 0, N_ROWS // 2)
    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "restore", lambda *_: throw(ResourceError("no room")))
        for change in (lambda: session.drop("counted"), lambda: session.query("late", LATE)):
            with pytest.raises(ResourceError, match="no room"):
                change()
    found, expected = (feed(each, N_ROWS // 2, N_ROWS) for each in (session, usual))
    assert found.keys() == expected.keys()
    for query, changes in expected.items():
        assert changes.num_rows
        assert_changes(found[query], changes)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "drop"])
def test_a_change_that_a_function_asks_for_waits_for_room(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step that asked for it is answered, the next rows are refused until there is room."""

    def play(is_full: bool) -> Heard:
        session = open_session("64k", large=LARGE, counted=COUNTED)
        before, heard, wishes = feed(session, 0, N_ROWS // 2), list[pa.Table](), list[str]()

        def hear(changes: pa.Table) -> None:
            heard.append(changes)
            while wishes:
                session.query("late", LATE) if wishes.pop() == "add" else session.drop("counted")

        session.query("heard", SMALL, into=hear)
        with monkeypatch.context() as patched:
            if is_full:
                patched.setattr(Pipeline, "restore", lambda *_: throw(ResourceError("no room")))
            session.push("a", ROWS["a"].slice(N_ROWS // 2, ROWS_PER_PUSH))
            wishes.append(change)
            asked = session.push("b", ROWS["b"].slice(N_ROWS // 2, ROWS_PER_PUSH))
            assert not wishes
            for name, rows in ROWS.items() if is_full else ():
                with pytest.raises(ResourceError, match="no room"):
                    session.push(name, rows.slice(N_ROWS // 2 + ROWS_PER_PUSH, 1))
            if is_full and change == "add":
                with pytest.raises(PlanError, match="the query `late` begins with the next step"):
                    session.clock_us("late")
            if is_full:
                with pytest.raises(ResourceError, match="no room"):
                    session.query("another", SMALL)
        after, rest = feed(session, N_ROWS // 2 + ROWS_PER_PUSH, N_ROWS), session.finish()
        parts = {name: [*(each[name] for each in (before, asked, after, rest) if name in each)] for name in rest}
        return {name: pa.concat_tables(changes) for name, changes in (parts | {"heard": heard}).items()}

    usual, refused = play(False), play(True)
    assert usual.keys() == refused.keys()
    assert ("late" in usual) == (change == "add")
    for query, changes in usual.items():
        assert changes.num_rows
        assert_changes(refused[query], changes)


def throw(error: Exception) -> None:
    raise error


@pytest.mark.slow
def test_bursts_do_not_bring_windows_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small windows are not served first then: whoever does that looks for rows in memory alone."""
    monkeypatch.setattr(running_job, "WORTH_PAIRS", 1)

    def hear(memory: str | None) -> tuple[Heard, set[str], int]:
        session, heard, orders = open_session(memory), dict[str, list[pa.Table]](), set[str]()
        for window in (1, 2, 5, 600):
            into = heard.setdefault(f"q{window}", [])
            session.query(f"q{window}", JOIN.format(window), into=into.append)
        for step in range(STEPS_BETWEEN_LOOKS + 2):
            for name, rows in ROWS.items():
                session.push(name, rows.slice(40 * step, 40))
            orders |= {job.plan.trunk.serving_order for job in jobs_of(session) if job.plan.trunk}
        return {query: pa.concat_tables(changes) for query, changes in heard.items()}, orders, n_segments(session)

    usual, orders, _ = hear(None)
    assert orders > {LWO}
    limited, orders, n_files = hear("64k")
    assert orders == {LWO}
    assert n_files
    for query, changes in usual.items():
        assert_changes(limited[query], changes)


def jobs_of(session: sash.Session) -> list[RunningJob]:
    return session._running().jobs


def told(session: sash.Session) -> list[str]:
    lines = [line.strip() for line in session.explain(verbose=True).splitlines()]
    return [line for line in lines if line.startswith(("schedule   Largest", "schedule   Small", "memory "))]


def test_explain_says_who_is_served_first_and_what_goes_to_disk() -> None:
    schedule, memory = told(open_session("64k", large=LARGE, small=SMALL))
    assert schedule.endswith("Largest Window Only (LWO), as memory is limited: the others find rows in memory alone")
    assert memory == "memory     the oldest rows may go to segments on disk; how much is unknown, as rates are"
    hinted = SMALL.replace("SELECT", "SELECT /*+ swf */")
    schedule, memory = told(open_session("64k", large=LARGE, small=hinted))
    assert schedule.endswith("the others find rows in memory alone; the hint `swf` has no effect")
    assert memory == "memory     the oldest rows may go to segments on disk; how much is unknown, as rates are"


@pytest.mark.slow
def test_a_hint_for_small_windows_keeps_the_limit() -> None:
    """As EXPLAIN says: the largest window is served."""
    hinted = {"large": LARGE, "small": SMALL.replace("SELECT", "SELECT /*+ swf */")}
    heard: list[Heard] = []
    for memory in (None, "64k"):
        session, changes = open_session(memory, **hinted), {query: list[pa.Table]() for query in hinted}
        for first in range(0, N_ROWS, ROWS_PER_PUSH):
            for name, rows in ROWS.items():
                for query, more in session.push(name, rows.slice(first, ROWS_PER_PUSH)).items():
                    changes[query].append(more)
            for arena in arenas_of(session):
                assert arena.n_bytes < (1 + 1 / 8) * arena.budget.state_bytes
        heard.append({query: pa.concat_tables(each) for query, each in changes.items()})
    (trunk,) = [job.plan.trunk for job in jobs_of(session)]
    assert trunk is not None
    assert trunk.serving_order == LWO
    assert n_segments(session)
    for query, each in heard[0].items():
        assert_changes(heard[1][query], each)
