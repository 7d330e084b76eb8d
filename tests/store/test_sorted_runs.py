"""What is sorted in runs on disk is what would have been sorted at once, and only a part of it is in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store import sorted_runs
from sash.store.batch import EXPIRES, OP, TS, concat, sorted_by_time
from sash.store.memory_budget import MemoryBudget
from sash.store.sorted_runs import SortedRuns
from sash.store.spill_arena import SpillArena
from sash.store.spill_files import SpillFiles

ROWS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abc"), st.sampled_from([-1, 1])), max_size=30)
STEP_BYTES = 800


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_runs, "LEAST_RUN_BYTES", 1)


def table_of(rows: list[tuple[int, str, int]]) -> pa.Table:
    ts, texts, signs = zip(*rows) if rows else ((), (), ())
    return pa.table(
        {
            "s": pa.array(texts, pa.string()),
            TS: pa.array(ts, pa.int64()),
            EXPIRES: pa.array(np.array(ts, np.int64) + 9),
            OP: pa.array(signs, pa.int8()),
        }
    )


def runs_in(
    directory: str | Path, step_bytes: int = STEP_BYTES, with_ties: bool = True, leaving_first: bool = False
) -> SortedRuns:
    arena = SpillArena(MemoryBudget(1 << 20, step_bytes, 1 << 16, Path(directory)))
    return SortedRuns(arena, with_ties, leaving_first=leaving_first)


def given_out(runs: SortedRuns, parts: list[pa.Table]) -> pa.Table:
    for part in parts:
        runs.add(part)
    return concat([table_of([]), *runs.give()])


@pytest.mark.slow
@given(st.lists(ROWS, max_size=12), st.sampled_from([40, 200, 800, 10**6]), st.sampled_from([2, 3, 32]))
@example([[(1, "a", 1)] * 30] * 12, 200, 2).via("one instant is larger than memory")
def test_runs_are_merged_to_what_is_sorted_at_once(rows: list, step_bytes: int, n_at_once: int) -> None:
    parts = [table_of(each) for each in rows]
    expected = sorted_by_time(concat([table_of([]), *parts]))
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "RUNS_AT_ONCE", n_at_once)
        runs = runs_in(directory, step_bytes)
        found = given_out(runs, parts)
        assert (found if runs.is_large else sorted_by_time(found)).to_pylist() == expected.to_pylist()
        assert not list(Path(directory).glob("sash-*")), "runs that have been read"


@given(st.lists(ROWS, max_size=12))
def test_without_ties_they_are_in_order_of_time_alone(rows: list) -> None:
    parts = [table_of(each) for each in rows]
    with TemporaryDirectory() as directory:
        found = given_out(runs_in(directory, 200, with_ties=False), parts)
    if sum(map(len, rows)) > 20:
        assert found[TS].to_pylist() == sorted(found[TS].to_pylist())
    assert sorted(map(str, found.to_pylist())) == sorted(str(row) for part in parts for row in part.to_pylist())


@given(st.lists(ROWS, max_size=12))
def test_what_leaves_may_come_first(rows: list) -> None:
    parts = [table_of(each) for each in rows]
    with TemporaryDirectory() as directory:
        runs = runs_in(directory, 200, with_ties=False, leaving_first=True)
        found = given_out(runs, parts)
        keys = list(zip(found[TS].to_pylist(), found[OP].to_pylist()))
        assert not runs.is_large or keys == sorted(keys)
    assert sorted(map(str, found.to_pylist())) == sorted(str(row) for part in parts for row in part.to_pylist())


def test_what_fits_is_not_written(tmp_path: Path) -> None:
    runs = runs_in(tmp_path / "not there", 10**6)
    found = given_out(runs, [table_of([(2, "b", 1)]), table_of([(1, "a", 1)])])
    assert not runs.is_large
    assert found[TS].to_pylist() == [2, 1]
    assert not (tmp_path / "not there").exists()


@pytest.mark.slow
@pytest.mark.parametrize("n_instants", [1, 1000])
def test_no_more_than_a_part_is_given_at_once(tmp_path: Path, n_instants: int) -> None:
    rng, step_bytes = np.random.default_rng(1), 20_000
    runs = runs_in(tmp_path, step_bytes)
    for _ in range(200):
        runs.add(table_of([(int(ts), f"row {ts}", 1) for ts in rng.integers(0, n_instants, 60)]))
    sizes = [part.nbytes for part in runs.give()]
    assert sum(sizes) > 10 * step_bytes
    assert max(sizes) <= step_bytes


@pytest.mark.slow
@pytest.mark.parametrize("n_before", [0, 3, 40])
def test_without_room_on_disk_they_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    runs, n_written, write = runs_in(tmp_path), 0, SpillFiles.write

    def fill_up(files: SpillFiles, parts) -> object:
        nonlocal n_written
        n_written += 1
        if n_written > n_before:
            raise sorted_runs.ResourceError(os.strerror(errno.ENOSPC))
        return write(files, parts)

    monkeypatch.setattr(SpillFiles, "write", fill_up)
    parts = [table_of([(ts % 7, "x" * ts, 1) for ts in range(first, first + 20)]) for first in range(0, 1000, 20)]
    assert given_out(runs, parts).to_pylist() == sorted_by_time(concat(parts)).to_pylist()
    assert "No space" in str(runs._budget.refused)
