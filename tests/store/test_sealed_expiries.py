"""A trace whose oldest tuples are on disk makes happen what one in memory does, and reads and writes little for it.

Law: after every step the same things happen in sum, by time, key and content, however often tuples were sealed, keys
were numbered anew, tuples were struck out, or the trace was restored.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.errors import ResourceError
from sash.store import sealed_expiries, spill_files
from sash.store import trace as trace_module
from sash.store.batch import NEVER, SIGNED_FIELDS, int64_column
from sash.store.directory import Directory
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena
from sash.store.spill_files import SpillFiles
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, dump, load
from support.profiles import volume
from support.steps import Lived, due, signed

COLUMNS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
WINDOW_US = 16
KEEP_ON, RESTART, RENUMBER, REBUILD, PACE = range(5)


class Numbers:
    """The ids of keys: those that are there, in order of appearance."""

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}

    def of(self, tuples: pa.Table) -> np.ndarray:
        return np.array([self.ids.setdefault(k, len(self.ids)) for k in tuples["k"].to_pylist()], np.int64)

    def forget(self, keys: set[int]) -> np.ndarray:
        """New ids by the old ones, without some keys."""
        left = [k for k in self.ids if k not in keys]
        mapping = np.array([left.index(k) if k in left else -1 for k in self.ids], np.int64)
        self.ids = {k: number for number, k in enumerate(left)}
        return mapping


@contextmanager
def always_short(step_bytes: int = 200) -> Iterator[Arena]:
    """Memory is short, however little is in it, and files have pages of few rows."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "LEAST_SHARE", 1 << 40)
        patch.setattr(sealed_expiries, "LEAST_BATCH_BYTES", 64)
        patch.setattr(spill_files, "LEAST_PAGE_BYTES", 64)
        patch.setattr(MemoryBudget, "n_state_bytes", property(lambda budget: budget.state_bytes + 1))
        yield SpillArena(MemoryBudget(1 << 20, step_bytes, 1 << 12, Path(directory)))
        gc.collect()


def sums_of(events: Events) -> Counter[tuple]:
    """What happens in sum, by (time, id, n, text)."""
    sums: Counter[tuple] = Counter()
    columns = (events.times.tolist(), events.ids.tolist(), events.column("n").to_pylist(), events.column("text"))
    for *what, text, sign in zip(*columns, events.signs.tolist(), strict=True):
        sums[*what, str(text)] += sign
    return Counter({what: n for what, n in sums.items() if n})


def replayed(events: Iterator[Events]) -> Counter[tuple]:
    total: Counter[tuple] = Counter()
    for each in events:
        total.update(sums_of(each))
    return Counter({what: n for what, n in total.items() if n})


def lived(k: int, n: int, ts: int, life: int, after: int | None = None) -> Lived:
    expires = NEVER if life > WINDOW_US else ts + life
    back = None if after is None or ts + after >= expires else ts + after
    return Lived((k, n, None if n % 5 == 4 else "x" * n), ts, expires, back)


LIVES = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(1, 24), st.integers(1, WINDOW_US + 2), st.none() | st.integers(1, WINDOW_US)
    ),
    max_size=24,
).map(lambda rows: [lived(k, number % 7, ts, life, after) for number, (k, ts, life, after) in enumerate(rows)])
STEPS = st.lists(st.tuples(st.integers(0, 44), st.integers(KEEP_ON, PACE)), max_size=12)


@pytest.mark.slow
@pytest.mark.parametrize("by_negatives", [False, True])
@pytest.mark.parametrize("min_struck_out", [0, 1024])
@settings(max_examples=volume(dev=2, ci=4, deep=75))
@given(lives=LIVES, steps=STEPS)
@example([lived(0, 0, 1, 5, 2), lived(0, 0, 1, 5), lived(1, 1, 2, 9)], [(1, 0), (2, RENUMBER), (4, RESTART), (6, 0)])
@example([lived(0, 0, 1, 12, 1), lived(1, 1, 1, 14)], [(1, 0), (2, RENUMBER), (3, 0), (4, RENUMBER), (13, PACE)])
@example([lived(0, 0, 1, 18, 3), lived(0, 0, 1, 18)], [(1, 0), (2, 0), (4, 0), (5, RESTART), (6, REBUILD)])
@example([lived(0, 0, 2, 14, 4), lived(1, 1, 15, 4)], [(3, 0), (8, 0), (13, 0), (31, 0)])
@example([lived(0, 0, 1, 3), lived(1, 1, 1, 16), lived(2, 2, 1, 16)], [(1, 0), (5, REBUILD), (6, RENUMBER)])
def test_being_sealed_does_not_show(
    min_struck_out: int, by_negatives: bool, lives: list[Lived], steps: list[tuple[int, int]]
) -> None:
    with always_short() as arena, pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "MIN_STRUCK_OUT", min_struck_out)
        sealed = Trace(SCHEMA, WINDOW_US, by_negatives, arena)
        still, numbers, last = Trace(SCHEMA, WINDOW_US, by_negatives), Numbers(), 0
        for clock, action in [*sorted(steps), (100, KEEP_ON)]:
            if action == PACE:
                paced = sealed.pace(clock, 2)
                assert last <= paced <= clock or clock < last
                clock = max(last, paced)
            batch = signed(due(lives, last, clock, by_negatives), COLUMNS)
            ids = numbers.of(batch)
            last = max(last, clock)
            happened = [sums_of(trace.step(batch, ids, last)) for trace in (sealed, still)]
            assert happened[0] == happened[1]
            for trace in (sealed, still):
                trace.evict()
            sealed, still = act(action, (sealed, still), numbers, living_keys(lives, last), by_negatives, arena)
        assert sealed.log.n_rows <= 2 * sum(each.expires == NEVER for each in lives)
        n_files = sum(1 + (segment.guide.n_bytes == 0) for segment in sealed.log.segments)
        assert arena.budget is not None
        assert len(list(arena.budget.spill.iterdir())) == n_files


def living_keys(lives: list[Lived], clock: int) -> set[int]:
    return {each.values[0] for each in lives if each.ts <= clock < each.end}


def act(
    action: int, traces: tuple[Trace, Trace], numbers: Numbers, living: set[int], by_negatives: bool, arena: Arena
) -> tuple[Trace, Trace]:
    """What may be done between two steps; both traces then hold the same."""
    if action == RESTART:
        entries = [(trace.log.entries(), trace.log.next_number, trace.clock) for trace in traces]
        fresh = Trace(SCHEMA, WINDOW_US, by_negatives, arena), Trace(SCHEMA, WINDOW_US, by_negatives)
        numbers.ids = {}
        held = [replayed(each.restore(*its, numbers.of)) for each, its in zip(fresh, entries)]
        assert held[0] == held[1]
        for block in traces[0].log.blocks:
            traces[0].log.drop([block])
        return fresh
    if action == RENUMBER:
        mapping = numbers.forget(set(numbers.ids) - living)
        for trace in traces:
            trace.renumber(mapping)
    if action == REBUILD and -1 not in traces[1]._ids.array[: traces[1].log.rows.n_rows]:
        numbers.ids = {}
        held = [replayed(trace.rebuild(numbers.of)) for trace in traces]
        assert held[0] == held[1]
    return traces


def test_what_fits_is_not_written(tmp_path: Path) -> None:
    arena = SpillArena(MemoryBudget(1 << 22, 1 << 21, 1 << 21, tmp_path))
    trace = Trace(SCHEMA, 1000, False, arena)
    for clock in range(0, 5000, 50):
        push(trace, clock, 50, 1000)
    assert (arena.counts.n_bytes_written, arena.counts.n_bytes_read, list(tmp_path.iterdir())) == (0, 0, [])


def push(trace: Trace, clock: int, n_rows: int, life_us: int) -> Events:
    """So many tuples in as many instants, up to and including `clock + n_rows - 1`."""
    ts = np.arange(clock, clock + n_rows)
    batch = pa.table(
        [ts % 7, ts, pa.array(["text"] * n_rows), ts, ts + life_us, np.ones(n_rows, np.int8)], schema=SCHEMA
    )
    events = trace.step(batch, ts % 7, clock + n_rows - 1)
    trace.evict()
    return events


@pytest.mark.slow
@pytest.mark.parametrize(("n_at_once", "n_rows"), [(1, 2_000), (64, 24_000), (2048, 24_000)])
def test_each_tuple_is_written_once_and_read_once(n_at_once: int, n_rows: int, tmp_path: Path) -> None:
    """Of the window about an eighth fits; all leave in the end, and so do all files."""
    life_us, state_bytes = n_rows * 5 // 6, 200_000 * n_rows // 24_000
    arena = SpillArena(MemoryBudget(state_bytes, state_bytes // 2, state_bytes // 2, tmp_path))
    trace, n_expired, row_bytes = Trace(SCHEMA, life_us, False, arena), 0, 8 + 8 + 4 + 4 + 8 + 8 + 1
    for clock in range(0, n_rows, n_at_once):
        n_expired += int((push(trace, clock, min(n_at_once, n_rows - clock), life_us).signs < 0).sum())
    assert len(trace.log.segments) > 3
    while trace.clock < n_rows + life_us:
        clock = trace.pace(n_rows + life_us, 1000)
        n_gone = len(trace.step(SCHEMA.empty_table(), np.empty(0, np.int64), clock))
        assert 0 < n_gone <= 2000
        n_expired += n_gone
        trace.evict()
    n_written, n_read = arena.counts.n_bytes_written, arena.counts.n_bytes_read
    assert n_expired == n_rows
    assert n_rows * row_bytes / 2 < n_written < 2 * n_rows * (row_bytes + 16)
    assert n_read < 1.5 * n_written
    assert (list(tmp_path.iterdir()), trace.log.n_rows) == ([], 0)


@pytest.mark.slow
def test_pace_counts_what_is_on_disk() -> None:
    with always_short() as arena:
        trace = Trace(SCHEMA, WINDOW_US, False, arena)
        push(trace, 0, 10, WINDOW_US)
        push(trace, 10, 1, WINDOW_US)
        assert trace.log.segments
        clock, n_gone = 0, []
        while clock < 40:
            clock = trace.pace(40, 3)
            n_gone.append(len(trace.step(SCHEMA.empty_table(), np.empty(0, np.int64), clock)))
            trace.evict()
        assert sum(n_gone) == 11
        assert max(n_gone) <= 6
        assert len(n_gone) < 11


@pytest.mark.slow
def test_a_restart_seals_as_it_goes(tmp_path: Path) -> None:
    """What is restored does not fit: it never takes more than its share, and happens once."""
    budget = MemoryBudget(100_000, 50_000, 50_000, tmp_path)
    arena = SpillArena(budget)
    still, fresh = Trace(SCHEMA, 50_000, False), Trace(SCHEMA, 50_000, False, arena)
    for clock in range(0, 10_000, 100):
        push(still, clock, 100, 50_000)
    most: list[int] = []

    def ids_of(tuples: pa.Table) -> np.ndarray:
        most.append(budget.n_state_bytes + arena.n_file_bytes)
        return int64_column(tuples, "k")

    n_back = 0
    for events in fresh.restore(still.log.entries(), still.log.next_number, still.clock, ids_of):
        assert len(events) <= 2000
        n_back += len(events)
    assert n_back == 10_000
    assert max(most) <= 1.5 * budget.state_bytes
    assert len(fresh.log.segments) > 2
    assert sums_of(fresh.step(SCHEMA.empty_table(), np.empty(0, np.int64), 60_000)) == sums_of(
        still.step(SCHEMA.empty_table(), np.empty(0, np.int64), 60_000)
    )


def test_another_process_goes_on_with_what_is_on_disk(tmp_path: Path) -> None:
    for name in ("here", "disk"):
        (tmp_path / name).mkdir()
    budget = MemoryBudget(20_000, 20_000, 20_000, tmp_path / "disk")
    arena = Directory(tmp_path / "here", tmp_path / "disk", budget=budget)
    trace, still = Trace(SCHEMA, 5000, False, arena), Trace(SCHEMA, 5000, False)
    for clock in range(0, 4000, 200):
        for each in (trace, still):
            push(each, clock, 200, 5000)
    assert len(trace.log.segments) > 1
    for clock in (5100, 5101, 7000, 9500):
        arena = Directory(tmp_path / "here", tmp_path / "disk", budget=MemoryBudget(20_000, 20_000, 20_000, tmp_path))
        trace = load(dump(trace, trace.log.arena), arena)
        happened = [sums_of(each.step(SCHEMA.empty_table(), np.empty(0, np.int64), clock)) for each in (trace, still)]
        assert happened[0] == happened[1]
        for each in (trace, still):
            each.evict()


@pytest.mark.slow
def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with always_short() as arena:
        trace = Trace(SCHEMA, WINDOW_US, False, arena)
        push(trace, 0, 10, WINDOW_US)

        def write(files: SpillFiles, parts: object) -> None:
            raise ResourceError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(SpillFiles, "write", write)
            push(trace, 10, 2, WINDOW_US)
        assert not trace.log.segments
        assert arena.budget is not None
        assert arena.budget.refused is not None
        push(trace, 12, 2, WINDOW_US)
        assert trace.log.segments
        assert len(trace.step(SCHEMA.empty_table(), np.empty(0, np.int64), 60)) == 14
