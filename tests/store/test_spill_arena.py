"""Vectors under a budget: the same content, in memory while there is room, and in files without names beyond it."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import LEAST_FILE_BYTES, SpillArena
from sash.store.vector import Vector

STATE_BYTES = 4 * LEAST_FILE_BYTES


def make_arena(path: Path) -> SpillArena:
    return SpillArena(MemoryBudget(STATE_BYTES, 1, 1, path))


def test_what_fits_is_in_memory(tmp_path: Path) -> None:
    arena = make_arena(tmp_path)
    vector = Vector(np.int64, arena)
    vector.write(0, np.arange(STATE_BYTES // 16))
    assert arena.n_bytes >= STATE_BYTES // 2
    assert arena.n_file_bytes == 0


def test_what_does_not_fit_is_in_a_file_without_a_name(tmp_path: Path) -> None:
    arena = make_arena(tmp_path)
    vectors = [Vector(np.int64, arena) for _ in range(3)]
    for vector in vectors:
        vector.write(0, np.arange(STATE_BYTES // 8))
    assert arena.n_bytes <= STATE_BYTES
    assert arena.n_file_bytes >= 2 * STATE_BYTES
    assert list(tmp_path.iterdir()) == []
    arena.release_pages()
    for vector in vectors:
        assert np.array_equal(vector.array[: STATE_BYTES // 8], np.arange(STATE_BYTES // 8))


@pytest.mark.slow
def test_a_vector_that_fits_again_comes_back(tmp_path: Path) -> None:
    arena = make_arena(tmp_path)
    vector = Vector(np.int64, arena)
    vector.write(0, np.arange(STATE_BYTES))
    assert arena.n_file_bytes
    vector.drop(STATE_BYTES - 100, STATE_BYTES)
    gc.collect()
    assert arena.n_file_bytes == 0
    assert np.array_equal(vector.array[:100], np.arange(STATE_BYTES - 100, STATE_BYTES))


@pytest.mark.slow
def test_what_is_forgotten_counts_no_more(tmp_path: Path) -> None:
    arena = make_arena(tmp_path)
    vector = Vector(np.int64, arena, capacity=1000)
    assert arena.n_bytes == 8000
    del vector
    gc.collect()
    assert arena.n_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "drop"]), st.integers(1, 3000)), max_size=25))
def test_the_content_does_not_depend_on_where_it_is(tmp_path_factory: pytest.TempPathFactory, steps) -> None:
    arena = make_arena(tmp_path_factory.mktemp("spill"))
    vectors = [Vector(np.int64, arena) for _ in range(3)]
    expected = [np.empty(0, np.int64) for _ in vectors]
    for number, (which, what, n_items) in enumerate(steps):
        if what == "write":
            vectors[which].write(len(expected[which]), np.full(n_items, number))
            expected[which] = np.append(expected[which], np.full(n_items, number))
        else:
            n_gone = min(n_items, len(expected[which]))
            vectors[which].drop(n_gone, len(expected[which]))
            expected[which] = expected[which][n_gone:]
        assert arena.n_bytes <= STATE_BYTES + 3 * LEAST_FILE_BYTES
        for vector, items in zip(vectors, expected):
            assert np.array_equal(vector.array[: len(items)], items)


def test_a_full_disk_is_told_with_its_directory_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, offset: int, n_bytes: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    arena = make_arena(tmp_path)
    vector = Vector(np.int64, arena, capacity=STATE_BYTES)
    vector.write(0, np.arange(STATE_BYTES))
    assert np.array_equal(vector.array, np.arange(STATE_BYTES)), "the step at hand is not given up"
    assert re.search(f"no room for .* of a window in `{tmp_path}`: No space .*SASH_SPILL", str(arena.budget.refused))
