"""What comes back from disk into a window finds no more room there than what comes in does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sash.store.batch import EXPIRES, NEVER, TS
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena
from sash.store.window import Window

IDENTITY = "_id.A"
SCHEMA = pa.schema([("k", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (IDENTITY, pa.int64())])
N_ROWS, N_BLOCKS = 4000, 40


def window_with_one_segment(arena: SpillArena) -> Window:
    """Many blocks, all of them sealed into one segment."""
    window = Window(SCHEMA, lambda tuples: tuples["k"].to_numpy(), None, arena, may_seal=True)
    for numbers in np.split(np.arange(N_ROWS), N_BLOCKS):
        window.insert(pa.table([numbers, numbers, np.full(len(numbers), NEVER), numbers], schema=SCHEMA), 0)
    window.seal(N_ROWS)
    (segment,) = window.log.segments
    assert segment.n_rows == N_ROWS
    return window


def take_back(window: Window, numbers: np.ndarray) -> None:
    times = np.full(len(numbers), N_ROWS)
    rows = window.find_sealed(numbers, numbers[:, None], times)
    window.end_early(rows, times)
    window.evict(N_ROWS, rows)


def living(window: Window) -> list[int]:
    blocks = [window.log.read(block).filter(pa.array(~window.log.is_dead(block))) for block in window.log.blocks]
    return sorted(number for block in blocks for number in block["k"].to_pylist())


@pytest.mark.parametrize("memory", [1 << 14, 1 << 16, 1 << 24], ids=["16k", "64k", "16m"])
def test_a_segment_that_is_mostly_dead_comes_back_within_the_limit(memory: int, tmp_path: Path) -> None:
    arena = SpillArena(MemoryBudget.of(memory, tmp_path))
    window = window_with_one_segment(arena)
    gone = np.flatnonzero(np.arange(N_ROWS) % 8 > 2)
    take_back(window, gone)
    left = np.setdiff1d(np.arange(N_ROWS), gone)
    assert living(window) == left.tolist()
    assert arena.n_file_bytes == 0
    assert arena.n_bytes <= arena.budget.state_bytes
    assert bool(window.log.segments) == (memory < 1 << 24)
    found = [left[pairs.tuples] for pairs in window.probe_sealed(left, left, np.full(len(left), NEVER))]
    sealed = np.concatenate(found) if found else np.empty(0, np.int64)
    in_memory = window.keys[window.floor - window.base : window.next_row - window.base]
    assert sorted([*sealed, *in_memory]) == left.tolist()
