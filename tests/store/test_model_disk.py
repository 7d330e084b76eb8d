"""A disk that counts: accesses, bytes, and the seconds of Equation 3.2."""

from __future__ import annotations

import numpy as np
import pytest

from sash.errors import PlanError
from sash.store.block_disk import BlockDisk, DiskCounts
from sash.store.model_disk import DiskModel, ModelDisk

SLOW = DiskModel(seek_s=0.5, latency_s=0.25, bytes_per_s=100.0)


def _blocks(*values: int) -> np.ndarray:
    return np.array(values).reshape(-1, 1)


def test_what_is_written_is_read() -> None:
    disk: BlockDisk = ModelDisk(10)
    blocks = _blocks(1, 2, 3)
    extent = disk.append(blocks)
    blocks[:] = 0
    assert [each[:, 0].tolist() for each in disk.read(extent, [(0, 2), (2, 3)])] == [[1, 2], [3]]


def test_each_span_is_an_access() -> None:
    disk = ModelDisk(10, SLOW)
    one, other = disk.append(_blocks(1, 2)), disk.append(_blocks(3, 4))
    assert disk.counts == DiskCounts(2, 1, 1, 0, 40, 1.5 + 0.4)
    disk.read(one, [(0, 1)])
    disk.read(one, [(1, 2)])
    disk.read(other, [(0, 1), (0, 1)])
    assert disk.counts == DiskCounts(6, 3, 3, 40, 40, 6 * 0.75 + 0.8)
    disk.read(one, [(1, 1)])
    assert disk.counts.accesses == 6, "nothing is read of nothing"


def test_blocks_of_two_basic_windows_are_not_adjacent() -> None:
    disk = ModelDisk(10, SLOW, adjacent_blocks=2)
    extent = disk.append(_blocks(1, 2, 3, 4, 5))
    assert disk.counts.accesses == 3
    disk.read(extent, [(0, 5)])
    assert disk.counts.seconds == pytest.approx(6 * 0.75 + 1.0)


def test_what_is_freed_is_gone() -> None:
    disk = ModelDisk(10)
    extent = disk.append(_blocks(1))
    disk.free(extent)
    assert disk.n_blocks == 0
    with pytest.raises(KeyError):
        disk.read(extent, [(0, 1)])
    assert disk.append(_blocks(2)).number != extent.number


def test_a_disk_takes_time() -> None:
    with pytest.raises(PlanError, match="takes time"):
        DiskModel(0, 0, 0)
