"""Guides of segments: the same wherever they are, and in memory never more than there is room for."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from sash.errors import ResourceError
from sash.store.batch import EXPIRES, TS
from sash.store.memory_budget import MemoryBudget
from sash.store.segment_probe import ProbeKeys, probe
from sash.store.spill_arena import SpillArena
from sash.store.spill_files import SpillFiles, SpillSettings
from sash.store.window import Window
from support.allowances import Tally
from support.segments import SHORT_PAGES, Lives, lives, seal, spilling

N_SEGMENTS, N_ROWS = 200, 100
LIFE_US = 10**9


@pytest.mark.slow
@given(settings=SHORT_PAGES, rows=lives(min_size=1), tuples=lives())
def test_a_guide_is_the_same_in_a_file(settings: SpillSettings, rows: Lives, tuples: Lives) -> None:
    tally = Tally()
    with spilling(settings, tally) as files:
        segment = seal(files, rows)
        before = segment.guide.read()
        assert tally.n_held == segment.guide.n_bytes > 0
        found = [[each.tolist() for each in chunk] for chunk in probe(segment, ProbeKeys(*tuples))]
        segment.guide.put_away()
        segment.guide.put_away()
        assert tally.n_held == segment.guide.n_bytes == 0
        for one, other in zip(segment.guide.read(), before, strict=True):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
        assert [[each.tolist() for each in chunk] for chunk in probe(segment, ProbeKeys(*tuples))] == found
        segment.free()
        assert tally.n_held == 0
        assert not os.listdir(files.directory)


def test_a_guide_that_cannot_be_written_stays(tmp_path: Path) -> None:
    is_full = False

    def fill_up(operation: str, path: str) -> None:
        if is_full and operation == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    segment = seal(SpillFiles(tmp_path, SpillSettings(64, 128, 0), hear=fill_up), Lives(*np.arange(90).reshape(3, 30)))
    n_bytes, is_full = segment.guide.n_bytes, True
    with pytest.raises(ResourceError):
        segment.guide.put_away()
    assert segment.guide.n_bytes == n_bytes
    assert os.listdir(tmp_path) == [segment.name]


def window_of(arena: SpillArena) -> Window:
    schema = pa.schema([("k", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64())])
    return Window(schema, lambda tuples: tuples["k"].to_numpy(), LIFE_US, arena, may_seal=True)


@pytest.mark.slow
def test_guides_of_very_many_segments_take_what_is_for_them(tmp_path: Path) -> None:
    """All windows of a budget together, and each of them finds its rows."""
    budget = MemoryBudget.of(1 << 16, tmp_path)
    arena = SpillArena(budget)
    windows, most = [window_of(arena), window_of(arena)], 0
    for number in range(N_SEGMENTS):
        for window in windows:
            ts = number * N_ROWS + np.arange(N_ROWS)
            window.insert(pa.table({"k": ts, TS: ts, EXPIRES: ts + LIFE_US}), 0)
            window.seal(N_ROWS)
            most = max(most, sum(each.log.n_guide_bytes for each in windows))
    assert [len(window.log.segments) for window in windows] == [N_SEGMENTS] * 2
    all_guides = sum(each.guide.read().n_bytes for window in windows for each in window.log.segments)
    assert most <= budget.disk_bytes // 2 < all_guides // 10
    keys = np.arange(0, N_SEGMENTS * N_ROWS, 7)
    for window in windows:
        found = window.probe_sealed(keys, keys, keys + LIFE_US)
        assert sorted(np.concatenate([keys[pairs.tuples] for pairs in found]).tolist()) == keys.tolist()
        window.evict(3 * LIFE_US)
    assert not os.listdir(tmp_path)
