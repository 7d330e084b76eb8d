"""What tuples make happen as time goes by, against the lives that they were made of.

A tuple counts with its sign from `_ts` until before `_expires`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store import trace as trace_module
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.directory import Directory
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena
from sash.store.trace import Events, Trace
from sash.store.vector import dump, load
from support.steps import Change, Lived, due, signed

COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
WINDOW_US = 16
BY_CLOCK, BY_NEGATIVES = False, True


def make(by_negatives: bool = BY_CLOCK, window_us: int | None = WINDOW_US, limited_in: Path | None = None) -> Trace:
    """`limited_in`: with hardly any memory for a step, and this directory for what does not fit."""
    arena = None if limited_in is None else SpillArena(MemoryBudget(1 << 20, 200, 1 << 12, limited_in))
    return Trace(SCHEMA, window_us, by_negatives, arena)


def ids_of(tuples: pa.Table) -> np.ndarray:
    return tuples["k"].to_numpy()


def lived(k: int, n: int, ts: int, life: int = WINDOW_US, back: int | None = None) -> Lived:
    return Lived((k, n), ts, ts + life if life < NEVER else NEVER, back)


def step(trace: Trace, changes: list[Change], clock: int) -> list[tuple]:
    """Events as (time, id, sign, n)."""
    batch = signed(changes, COLUMNS)
    seen = events_of(trace.step(batch, ids_of(batch), clock))
    trace.evict()
    return seen


def events_of(events: Events) -> list[tuple]:
    columns = (events.times, events.ids, events.signs, events.int64("n"))
    return list(zip(*(each.tolist() for each in columns), strict=True))


def restarted(trace: Trace, by_negatives: bool, window_us: int | None = WINDOW_US) -> Trace:
    fresh = make(by_negatives, window_us)
    for events in fresh.restore(trace.log.entries(), trace.log.next_number, trace.clock, ids_of):
        assert (events.int64("_expires") > trace.clock).all()
    return fresh


def test_a_tuple_happens_when_it_comes_and_when_it_expires() -> None:
    """
    clock     1     3     16    17
    happens   +0                -0
    """
    trace = make()
    assert step(trace, [(1, 1, 17, (5, 0))], 1) == [(1, 5, 1, 0)]
    assert step(trace, [], 3) == step(trace, [], 16) == []
    assert trace.log.n_rows == 1
    assert step(trace, [], 17) == [(17, 5, -1, 0)]
    assert trace.log.n_rows == 0


def test_one_that_is_told_waits_for_the_negative() -> None:
    trace = make(BY_NEGATIVES)
    assert step(trace, [(1, 1, 17, (5, 0))], 1) == [(1, 5, 1, 0)]
    assert step(trace, [(-1, 17, 17, (5, 0))], 17) == [(17, 5, -1, 0)]
    assert trace.log.n_rows == 0


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_what_is_taken_back_early_does_not_leave_again(by_negatives: bool) -> None:
    """
    +0 [1, 17)   -0 at 4         happens   +0 at 1   -0 at 4    at 17 both stop to count: -0 and +0, nothing in sum
    """
    trace = make(by_negatives)
    assert step(trace, [(1, 1, 17, (5, 0))], 1) == [(1, 5, 1, 0)]
    assert step(trace, [(-1, 4, 17, (5, 0))], 4) == [(4, 5, -1, 0)]
    at_expiry = step(trace, [], 17)
    assert sum(sign for _, _, sign, _ in at_expiry) == 0
    assert trace.log.n_rows == 0


def test_a_life_within_a_step_is_not_kept() -> None:
    trace = make()
    assert step(trace, [(1, 1, 17, (5, 0))], 40) == [(1, 5, 1, 0), (17, 5, -1, 0)]
    assert trace.log.take_changes() == ({}, [])


def test_events_are_in_order_of_time_then_id_and_what_enters_comes_first() -> None:
    """At 17 two things happen to id 5: a run."""
    trace = make()
    step(trace, [(1, 1, 17, (5, 0))], 1)
    batch = signed([(1, 17, 33, (7, 1)), (1, 17, 33, (5, 2)), (1, 18, 34, (5, 3))], COLUMNS)
    events = trace.step(batch, ids_of(batch), 18)
    assert events_of(events) == [(17, 5, 1, 2), (17, 5, -1, 0), (17, 7, 1, 1), (18, 5, 1, 3)]
    assert events.starts.tolist() == [0, 2, 3, 4]
    assert (events.run_times.tolist(), events.run_ids.tolist()) == ([17, 17, 18], [5, 7, 5])


def test_no_events_have_no_runs() -> None:
    events = make().step(signed([], COLUMNS), np.empty(0, np.int64), 5)
    assert (len(events), events.starts.tolist(), events.run_ids.tolist()) == (0, [0], [])
    assert events.column("n").type == pa.int64()


def test_blocks_go_whole_within_an_eighth_of_the_window() -> None:
    """A tuple a microsecond, window 16: a block spans 2 of expiry, so at most one more than the window is held."""
    trace = make()
    for clock in range(100):
        step(trace, [(1, clock, clock + WINDOW_US, (0, clock))], clock)
        assert trace.log.n_rows <= WINDOW_US + WINDOW_US // 8


def test_pace_says_how_far_time_may_go() -> None:
    trace = make()
    step(trace, [(1, 1, 10 + number, (0, number)) for number in range(8)], 1)
    assert trace.pace(50, 100) == 50
    paced = trace.pace(50, 3)
    assert 10 <= paced < 17
    assert len(step(trace, [], paced)) <= 4
    assert make(BY_NEGATIVES).pace(50, 3) == 50


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_renumbered_ids_hold_for_what_is_kept(by_negatives: bool) -> None:
    trace = make(by_negatives)
    step(trace, [(1, 1, 17, (0, 0)), (1, 1, 18, (2, 1))], 1)
    trace.renumber(np.array([1, -1, 0]))
    if not by_negatives:
        assert events_of(trace.step(signed([], COLUMNS), np.empty(0, np.int64), 18)) == [(17, 1, -1, 0), (18, 0, -1, 1)]
    else:
        assert trace._ids.array[: trace.log.rows.n_rows].tolist() == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("is_limited", [False, True])
@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_tuples_that_never_expire_are_struck_out_with_what_takes_them_back(
    by_negatives: bool, is_limited: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a window of two rows: what is kept follows the window, not the run. Of equal tuples one goes."""
    monkeypatch.setattr(trace_module, "MIN_STRUCK_OUT", 8)
    trace, sums = make(by_negatives, None, tmp_path if is_limited else None), Counter()
    for clock in range(1, 200):
        changes = [(1, clock, NEVER, (clock % 3, clock % 2))]
        changes += [(-1, clock, NEVER, ((clock - 2) % 3, clock % 2))] if clock > 2 else []
        for _, key, sign, n in step(trace, changes, clock):
            sums[key, n] += sign
        assert trace.log.n_rows <= 2 * 2 + 8 + 2
    assert +sums == {(198 % 3, 0): 1, (199 % 3, 1): 1}
    held: Counter[tuple] = Counter()
    for events in trace.rebuild(ids_of):
        for _, key, sign, n in events_of(events):
            held[key, n] += sign
    assert {key: n for key, n in held.items() if n} == +sums


def test_what_was_taken_back_and_has_expired_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks with negatives go; the log is empty, and there is nothing to strike out."""
    monkeypatch.setattr(trace_module, "MIN_STRUCK_OUT", 4)
    trace = make()
    step(trace, [(1, 1, 17, (0, number)) for number in range(6)], 1)
    step(trace, [(-1, 2, 17, (0, 0))], 2)
    step(trace, [], 17)
    step(trace, [(1, 18, 34, (0, number)) for number in range(6)], 18)
    step(trace, [(-1, 19, 34, (0, 0))], 19)
    step(trace, [], 60)
    assert trace.log.n_rows == 0


def test_another_process_goes_on(tmp_path) -> None:
    arena = Directory(tmp_path)
    trace = Trace(SCHEMA, WINDOW_US, False, arena)
    step(trace, [(1, 1, 17, (5, 0)), (1, 1, 18, (6, 1))], 1)
    other = load(dump(trace, arena), Directory(tmp_path))
    assert step(other, [(-1, 4, 18, (6, 1))], 4) == [(4, 6, -1, 1)]
    assert step(other, [], 17) == [(17, 5, -1, 0)]


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
def test_what_has_expired_within_a_block_is_not_brought_back(by_negatives: bool) -> None:
    """
    clock      1             16               restart   17
    happens   +0 +1          -0                         -1          one block holds both until 17
    """
    lives = [lived(0, 0, 1, 15), lived(0, 1, 1, 16)]
    trace = make(by_negatives)
    step(trace, due(lives, 0, 1, by_negatives), 1)
    assert step(trace, due(lives, 1, 16, by_negatives), 16) == [(16, 0, -1, 0)]
    assert trace.log.n_rows == 2
    fresh = make(by_negatives)
    held = fresh.restore(trace.log.entries(), trace.log.next_number, trace.clock, ids_of)
    assert [events_of(events) for events in held] == [[(0, 0, 1, 1)]]
    assert step(fresh, due(lives, 16, 17, by_negatives), 17) == [(17, 0, -1, 1)]


LIVES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 20), st.integers(1, WINDOW_US), st.none() | st.integers(1, 15)),
    max_size=12,
).map(
    lambda rows: [
        lived(k, number, ts, life, ts + after if after is not None and after < life else None)
        for number, (k, ts, life, after) in enumerate(rows)
    ]
)


@pytest.mark.parametrize("by_negatives", [BY_CLOCK, BY_NEGATIVES])
@pytest.mark.parametrize("min_struck_out", [0, trace_module.MIN_STRUCK_OUT])
@given(lives=LIVES, cuts=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6))
@example([lived(0, 0, 1, 5, back=2), lived(0, 1, 1, 5)], [(1, True), (2, True), (3, True)])
def test_in_sum_events_are_the_lives(min_struck_out: int, by_negatives: bool, lives: list[Lived], cuts) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "MIN_STRUCK_OUT", min_struck_out)
        trace, seen, last = make(by_negatives), [], 0
        for clock, restarts in [*sorted(cuts), (60, False)]:
            events = step(trace, due(lives, last, clock, by_negatives), clock)
            assert all(last < time <= clock for time, *_ in events)
            seen += events
            last = max(last, clock)
            trace = restarted(trace, by_negatives) if restarts else trace
        assert trace.log.n_rows == 0
    for instant in range(40):
        count: Counter[tuple] = Counter()
        for time, key, sign, n in seen:
            count[key, n] += sign if time <= instant else 0
        assert {values: times for values, times in count.items() if times} == {
            lived.values: 1 for lived in lives if lived.ts <= instant < lived.end
        }
