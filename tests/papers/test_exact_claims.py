"""What Exact says of its joins that can be held against counts: bypass, trains, pools, and where memory goes."""

from __future__ import annotations

import numpy as np
import pytest

from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_kernels import block_frames
from sash.papers.exact.exact_settings import AhEwjSettings, RpwjSettings
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.reactive_tasks import TaskPool
from sash.store.model_disk import DISK_9LZX
from support.exact_traces import Row, all_pairs, as_fed, random_trace, run

SETTINGS = AhEwjSettings(
    n_part=4, r=0.5, slide_us=0, basic_window=8, train=24, block_rows=4, memory=120, epoch_us=200, frequent=0.1
)


@pytest.mark.slow
def test_while_windows_fit_nothing_is_written() -> None:
    """E5.27: blocks bypass the disk, for exactly 0 bytes; and some do, as memory has been full."""
    trace = random_trace(3, n_rows=4000, n_keys=9, window=100)
    join = AdaptiveWindowJoin(SETTINGS)
    assert run(join, trace) == all_pairs(trace)
    assert [disk.counts.bytes_written for disk in join.disks] == [0, 0]
    assert [disk.counts.accesses for disk in join.disks] == [0, 0]
    assert join.n_bypassed > 100


@pytest.mark.slow
def test_windows_that_do_not_fit_are_written() -> None:
    trace = random_trace(3, n_rows=2000, n_keys=9, window=600)
    join = AdaptiveWindowJoin(SETTINGS)
    assert run(join, trace) == all_pairs(trace)
    assert all(disk.counts.bytes_written for disk in join.disks)


@pytest.mark.parametrize("train", [8, 24, 64])
def test_trains_keep_buckets_together_and_numbers_in_order(train: int) -> None:
    """E5.29: no block comes before one whose number is less by a train or more; neighbours are of one bucket."""
    settings = AhEwjSettings(**{**{name: getattr(SETTINGS, name) for name in SETTINGS.__slots__}, "train": train})
    join = AdaptiveWindowJoin(settings)
    for _ in join.feed(*as_fed([Row(at % 2, at, at * 7919 % 1009, 10**9) for at in range(6000)])):
        pass
    memory, blocks = join.store.memory, join.store.disks[0].blocks
    numbers, buckets = memory.numbers[blocks], memory.heads.buckets[blocks]
    assert len(numbers) > 500
    assert (np.maximum.accumulate(numbers) - numbers).max() < train
    in_order = buckets[np.argsort(numbers)]
    n_switches, n_in_order = (np.count_nonzero(np.diff(each)) for each in (buckets, in_order))
    assert n_switches < n_in_order * (0.8 if train == 8 else 0.5)


@pytest.mark.slow
def test_memory_goes_to_the_slower_stream() -> None:
    """Eq. 5.1: the output is the greatest if the window that many tuples probe is in memory."""
    join = AdaptiveWindowJoin(SETTINGS)
    trace = random_trace(4, n_rows=6000, n_keys=40, window=900, share=0.85)
    assert run(join, trace) == all_pairs(trace)
    fast, slow = join.shares
    assert fast == SETTINGS.n_least
    assert slow == SETTINGS.n_recent - SETTINGS.n_least
    assert join.n_moved > 0


def test_recent_memory_is_full_once_it_has_been() -> None:
    """E5.28: flushed blocks leave one by one, when a frame is needed: nothing lies empty."""
    join = AdaptiveWindowJoin(SETTINGS)
    for _ in join.feed(*as_fed(random_trace(3, n_rows=3000, n_keys=9, window=600))):
        pass
    assert sum(map(len, join.recent)) >= SETTINGS.n_recent - 2 * SETTINGS.n_part


@pytest.mark.parametrize("n_part", [1, 7])
def test_a_pool_has_three_tasks_per_partition(n_part: int) -> None:
    """E4.6; and no task repeats a pair: `test_exact_joins` counts them."""
    tasks = TaskPool(n_part, DISK_9LZX, 1024).tasks()
    assert len(tasks) == len(set(tasks)) == 3 * n_part


@pytest.mark.slow
def test_small_slides_make_many_accesses() -> None:
    """E4.1: an access per partition and slide, or more, however few tuples there are."""
    trace = random_trace(6, n_rows=2000, n_keys=50, window=400)
    accesses = []
    for slide_us in (20, 400):
        settings = RpwjSettings(n_part=5, slide_us=slide_us, m_read=8, h_mark=10**6, block_rows=4, memory=30)
        join = ProgressiveWindowJoin(settings)
        assert run(join, trace) == all_pairs(trace)
        accesses.append(join.disk.counts.accesses)
    assert accesses[0] > 5 * accesses[1]


def test_a_flush_takes_partitions_whose_partners_come_least() -> None:
    """§4.3: the least C_i[p] says that partition p of the other stream is flushed, whole."""
    join = ProgressiveWindowJoin(RpwjSettings(n_part=3, block_rows=1, memory=6, flush=0.3, h_mark=10**6))
    join.partitions.arrivals[:] = [[5, 1, 9], [7, 8, 6]]
    join._decay_us = 0.0
    for side, partition in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 1)):
        join._open(side, partition)
        frame = int(join.partitions.open[side, partition])
        join.memory.frames.n_rows[frame] = 1
        join.memory.heads.sizes[join.memory.frames.blocks[frame]] = 1
        join.memory.frames.records[frame, 0] = 0, 0, 0, 9, join._tick()
        block_frames.link_rows(join.memory.frames, join.memory.heads, frame, 0, 1)
        join._close(side, partition)
    join._flush()
    assert [len(part) for part in join.parts[1]] == [1, 0, 0], "the partners of left 1 come least"
    assert [len(part) for part in join.parts[0]] == [1, 1, 1], "two blocks are a third of memory: enough"
