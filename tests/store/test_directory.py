"""What a directory says of its files and mappings is what is there; and nobody adds it up when a vector grows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.store.directory import Directory
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget
from sash.store.vector import Vector

STEPS = st.lists(st.tuples(st.sampled_from(("grow", "shrink", "free")), st.integers(0, 2), st.integers(1, 2000)))


class Counted(dict):
    """A dictionary that counts how often somebody goes through all of it."""

    n_passes = 0

    def values(self):
        self.n_passes += 1
        return super().values()


@given(STEPS)
def test_the_sums_are_those_of_the_files_and_mappings(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as path:
        here = Path(path) / "here"
        here.mkdir()
        arena = Directory(here, Path(path) / "disk", budget=MemoryBudget.of(LEAST_BYTES, Path(path) / "disk"))
        vectors: dict[int, Vector] = {}
        for what, number, n_items in steps:
            vector = vectors.pop(number, None) or Vector(np.int64, arena)
            if what == "free":
                vector.free()
            else:
                vector.resize(n_items * (100 if what == "grow" else 1))
                vectors[number] = vector
            del vector
            assert arena.n_bytes == sum(each.stat().st_size for each in here.iterdir() if each.is_file())
            assert arena.n_mapped_bytes == sum(each.array.nbytes for each in vectors.values())


def test_a_directory_that_is_found_again_counts_what_lies_there(tmp_path: Path) -> None:
    vector = Vector(np.int64, Directory(tmp_path), capacity=1000)
    assert Directory(tmp_path).n_bytes == vector.array.nbytes


@pytest.mark.parametrize("n_others", [1, 100])
def test_a_vector_grows_without_a_look_at_the_others(tmp_path: Path, n_others: int) -> None:
    budget = MemoryBudget.of(LEAST_BYTES, tmp_path / "disk")
    (tmp_path / "here").mkdir()
    arena = Directory(tmp_path / "here", tmp_path / "disk", resident_bytes=LEAST_BYTES, budget=budget)
    vectors = [Vector(np.int64, arena) for _ in range(n_others + 1)]
    arena._sizes, rooms = Counted(arena._sizes), Counted(arena._maps._rooms)
    arena._maps._rooms = rooms
    for n_items in (1000, 2000, 4000):
        vectors[0].write(0, np.arange(n_items))
        assert arena.rows_per_call
    assert (arena._sizes.n_passes, rooms.n_passes) == (0, 0)
    assert arena.n_mapped_bytes == sum(each.array.nbytes for each in vectors)
