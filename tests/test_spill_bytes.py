"""What a limit on memory costs in bytes: counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.kernels.hash_join import RECORD_WIDTH
from sash.operators.multiway_join import MultiwayJoin
from sash.operators.window_join import WindowJoin
from sash.store.memory_budget import MemoryBudget
from sash.store.ordered_window import OrderedWindow
from sash.store.spill_arena import SpillArena
from sash.store.timed_log import TimedLog
from sash.store.window import Window
from support.allowances import Tally
from support.profiles import everyday

N_ROWS, ROWS_PER_PUSH = 12_000, 120
MEMORY = 512 << 10
TEXT = "SELECT A.k, A.s, B.s AS other FROM a A, b B WHERE A.k = B.k WINDOW 8 SECONDS"
BESIDE_BYTES = 8 * (1 + RECORD_WIDTH)
"""Of a row in memory, beside its columns: key and record."""


def rows_of(seed: int) -> pa.Table:
    times = pa.array(1000 * np.arange(N_ROWS), pa.timestamp("us"))
    keys = np.random.default_rng(seed).integers(0, 10 * N_ROWS, N_ROWS)
    return pa.table({"k": keys, "s": pa.array([f"{key:0100}" for key in keys]), "ts": times})


ROWS = {"a": rows_of(1), "b": rows_of(2)}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    yield
    sash.configure()


def pushes(frames: dict[str, pa.Table] = ROWS) -> Iterator[tuple[str, pa.Table]]:
    for first in range(0, N_ROWS, ROWS_PER_PUSH):
        yield from ((name, rows.slice(first, ROWS_PER_PUSH)) for name, rows in frames.items())


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of rows that waited for the other stream, and left memory for it."""
    sealed, seal = list[int](), TimedLog._seal

    def count(log: TimedLog, budget: MemoryBudget) -> None:
        n_bytes = [block.n_bytes for block in log.log.head]
        seal(log, budget)
        sealed.extend(n_bytes)

    monkeypatch.setattr(TimedLog, "_seal", count)
    return sealed


def arena_of(running: sash.Query) -> SpillArena:
    (join,) = (one for _, one in running.operators() if isinstance(one, WindowJoin | MultiwayJoin))
    arena = next(iter(join.logs().values())).arena
    assert isinstance(arena, SpillArena)
    return arena


@pytest.mark.slow
@pytest.mark.parametrize("memory", everyday([MEMORY // 2, MEMORY // 4], [MEMORY // 2, MEMORY // 4, MEMORY // 8]))
def test_hardly_more_is_written_than_leaves_memory(
    memory: int, waiting: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when guides are put away, and segments are a few pages; nothing is written twice."""
    sealed, seal, n_guides = [], Window.seal, []

    def count(window: Window, n_rows: int) -> None:
        before = {block.first for block in window.log.blocks if block.segment is not None}
        seal(window, n_rows)
        sealed.extend(
            block.n_bytes + BESIDE_BYTES * block.n_rows
            for block in window.log.blocks
            if block.segment is not None and block.first not in before
        )
        n_guides.append(sum(segment.guide.n_bytes == 0 for segment in window.log.segments))

    monkeypatch.setattr(Window, "seal", count)
    sash.configure(memory=memory, spill=tmp_path)
    running = sash.query(TEXT, **ROWS)
    for name, rows in pushes():
        running.push(name, rows)
    counts = arena_of(running).spill_files.counts
    assert sum(sealed) > 15 * memory
    assert counts.n_bytes_written <= 1.1 * (sum(sealed) + sum(waiting))
    assert max(n_guides) > 0


def test_nothing_is_read_or_written_while_windows_fit(tmp_path: Path) -> None:
    sash.configure(memory="64 MiB", spill=tmp_path / "not there")
    running = sash.query(TEXT, **ROWS)
    for name, rows in pushes():
        running.push(name, rows)
    running.finish()
    assert not (tmp_path / "not there").exists()
    counts = arena_of(running).spill_files.counts
    assert (counts.n_bytes_read, counts.n_bytes_written, arena_of(running).n_file_bytes) == (0, 0, 0)


def bytes_put(memory: int | None, spill: Path) -> list[int]:
    """Of a checkpoint, batch by batch. A batch is a bite: each of these is a block of its own."""
    sash.configure(memory=memory, spill=spill)
    running, n_bytes = sash.query(TEXT, **ROWS), []
    for name, rows in pushes():
        running.push(name, rows)
        puts, deletes = running._job.pipeline.take_changes()
        n_bytes.append(sum(map(len, puts.values())) + sum(map(len, [*puts, *deletes])))
    if memory is not None:
        assert arena_of(running).spill_files.counts.n_bytes_written > 5 * memory
    return n_bytes


@pytest.mark.slow
def test_checkpoints_are_not_larger_when_rows_are_on_disk(tmp_path: Path) -> None:
    with_limit, without = bytes_put(MEMORY, tmp_path), bytes_put(None, tmp_path)
    assert len(with_limit) == len(without)
    for one, other in zip(with_limit, without):
        assert abs(one - other) <= 0.01 * other


MANY = {
    "one key": "SELECT A.s, B.s AS t, C.s AS u FROM a A, b B, c C WHERE A.k = B.k AND B.k = C.k WINDOW 8 SECONDS",
    "two keys": "SELECT A.s, B.s AS t, C.s AS u FROM a A, b B, c C WHERE A.k = B.k AND B.k = C.k"
    " AND A.j = B.j WINDOW 8 SECONDS",
}


def many_rows() -> dict[str, pa.Table]:
    every = {"a": rows_of(1), "b": rows_of(2), "c": rows_of(3)}
    return {name: rows.append_column("j", rows["k"]) for name, rows in every.items()}


@pytest.mark.slow
@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_of_joins_of_many_hardly_more_is_written_than_leaves_memory(
    text: str, waiting: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a file goes when its rows have left."""
    sealed, seal = [], OrderedWindow.seal

    def count(window: OrderedWindow, n_rows: int) -> None:
        before, beside = {id(block) for block in window.log.head}, 8 * (3 + 2 * window.keys.shape[1])
        seal(window, n_rows)
        kept = {id(block) for block in window.log.head}
        sealed.extend(
            block.n_bytes + beside * block.n_rows for block in window.log.blocks if id(block) in before - kept
        )

    monkeypatch.setattr(OrderedWindow, "seal", count)
    sash.configure(memory=MEMORY, spill=tmp_path)
    frames = many_rows()
    running = sash.query(text, **frames)
    for name, rows in pushes(frames):
        running.push(name, rows)
    counts = arena_of(running).spill_files.counts
    assert sum(sealed) > 10 * MEMORY
    assert counts.n_bytes_written <= 1.1 * (sum(sealed) + sum(waiting))
    held = sum(log.n_disk_bytes for _, operator in running.operators() for log in operator.logs().values())
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1.1 * held
    running.advance(datetime(2000, 1, 1))
    assert not list(tmp_path.iterdir())


def test_inputs_that_are_read_one_within_the_other_share_what_is_for_disk(tmp_path: Path) -> None:
    """A combination of six grows by five inputs, each of which has its frames in memory until all have been met."""
    names, n_rows = "abcdef", 120
    numbers, times = np.arange(n_rows), pa.array(1000 * np.arange(n_rows), pa.timestamp("us"))
    rows = pa.table({"k": numbers, "s": [f"{n:0100}" for n in numbers], "ts": times})
    keys = " AND ".join(f"{one}.k = {other}.k" for one, other in pairwise(names.upper()))
    streams = ", ".join(f"{name} {name.upper()}" for name in names)
    sash.configure(memory=64 << 10, spill=tmp_path)
    running = sash.query(f"SELECT A.s FROM {streams} WHERE {keys} WINDOW 8 SECONDS", **dict.fromkeys(names, rows))
    arena = arena_of(running)
    arena.spill_files.allowance = tally = Tally()
    n_found = sum(running.push(name, rows).num_rows for name in names)
    assert n_found + running.finish().num_rows == n_rows
    assert arena.counts.n_bytes_read > 16 << 10
    settings, n_nested = arena.spill_files.settings, len(names) - 1
    assert 2 * n_nested * settings.n_buffers * settings.frame_bytes <= arena.budget.disk_bytes
    assert tally.most <= arena.budget.disk_bytes


@pytest.mark.slow
def test_of_joins_of_many_nothing_is_written_while_windows_fit(tmp_path: Path) -> None:
    sash.configure(memory="128 MiB", spill=tmp_path / "not there")
    frames = many_rows()
    running = sash.query(MANY["two keys"], **frames)
    for name, rows in pushes(frames):
        running.push(name, rows)
    running.finish()
    assert not (tmp_path / "not there").exists()
    counts = arena_of(running).spill_files.counts
    assert (counts.n_bytes_read, counts.n_bytes_written, arena_of(running).n_file_bytes) == (0, 0, 0)
