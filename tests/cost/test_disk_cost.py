"""The equations of Exact, ch. 3 and 4, against what the joins' disks have counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sash.cost.disk_cost import (
    DiskPart,
    ExactLoad,
    best_recent_share,
    dd_seconds,
    md_seconds,
    probe_seconds,
    refill_seconds,
    scan_seconds,
    transfer_seconds,
)
from sash.errors import PlanError
from sash.papers.exact.exact_settings import EwjSettings, RpwjSettings
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.partition_runs import PartitionRuns
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.reactive_tasks import DISKS, MEMORY, ReactiveTask, TaskPool
from sash.store.model_disk import DISK_9LZX, DiskModel, ModelDisk
from support.exact_traces import Row, as_fed

LOAD = ExactLoad(rate=200, block_rows=32, block_bytes=4096, basic_window=256, probed_at=3405, n_invalidation=256)


def test_a_transfer_is_an_access_per_basic_window() -> None:
    """Equation 3.2."""
    assert transfer_seconds(256, LOAD) == pytest.approx(0.00789 + 256 * 4096 / 20e6)
    assert transfer_seconds(257, LOAD) == pytest.approx(2 * 0.00789 + 257 * 4096 / 20e6)
    disk = ModelDisk(4096, adjacent_blocks=256)
    disk.append(np.zeros((257, 1), np.int64))
    assert disk.counts.seconds == pytest.approx(transfer_seconds(257, LOAD))


@pytest.mark.slow
def test_probes_of_a_run() -> None:
    """Equation 3.1 with what a run of EWJ has on disk when it probes: a steady window, twice over."""
    settings = EwjSettings(r=0.5, block_rows=4, memory=60, recent=0.8, frequent=0.0, basic_window=6)
    join = ExactWindowJoin(settings)
    trace = [Row(at % 2, at, 10**6 + at, at + 2000) for at in range(8000)]  # no two keys are equal
    for _ in join.feed(*as_fed(trace)):
        pass
    load = ExactLoad(1, 4, settings.block_bytes, 6, settings.r * settings.n_recent, settings.n_invalidation)
    seconds = sum(disk.counts.seconds for disk in join.disks)
    n_disk = (1000 - settings.n_recent * 4) / 4
    expected = 2 * (probe_seconds(load, n_disk, 4000) + refill_seconds(load, 4000))
    assert seconds == pytest.approx(expected, rel=0.35)


def test_refills_divide_by_what_is_refilled() -> None:
    """A7: Equation 3.3 with |W_rec| below the line would say that a longer recent segment is refilled less often."""
    assert refill_seconds(LOAD, 3600) == pytest.approx(math.ceil(200 * 3600 / 32 / 256) * transfer_seconds(256, LOAD))
    with pytest.raises(PlanError, match="give it a block"):
        refill_seconds(ExactLoad(1, 1, 1, 1, 1, 0), 1)
    with pytest.raises(PlanError, match="more than 0"):
        ExactLoad(0, 1, 1, 1, 1, 1)


def test_the_best_share_is_the_best() -> None:
    n_blocks, r, n_opposite, seconds = 3000, 0.9, 20_000, 10**7

    def total(share: float) -> float:
        load = ExactLoad(200, 32, 4096, 10**6, r * share * n_blocks, round((1 - share) * n_blocks))
        return probe_seconds(load, n_opposite, seconds) + refill_seconds(load, seconds)

    best = best_recent_share(ExactLoad(200, 32, 4096, 10**6, 1, 1), r, n_opposite)
    assert all(total(best) < total(best + change) for change in (-0.02, 0.02))


def _runs(sizes: list[int], disk: ModelDisk) -> PartitionRuns:
    runs, first = PartitionRuns(disk, 1024, lambda seconds: None), 0
    for number, size in enumerate(sizes):
        runs.append(list(range(first, first + size)), np.zeros((size, 2, 5), np.int64), number + 1)
        first += size
    return runs


def test_tasks_take_what_the_equations_say() -> None:
    """Equations 4.1 to 4.3, where runs and clusters meet: then they are exact."""
    disk = ModelDisk(1024)
    parts = _runs([8, 8, 8, 8], disk), _runs([8] * 6, disk)
    written = disk.counts.seconds
    assert len(list(parts[0].clusters(16))) == 2
    # A cluster of two runs is two accesses: x, and no more, while the equation counts those of clusters on top.
    read = disk.counts.seconds - written
    assert read <= md_seconds(parts[0].part, 16 * 1024, DISK_9LZX)
    assert read == pytest.approx(DISK_9LZX.seconds(4, 32 * 1024))
    before = disk.counts.seconds
    for _ in parts[0].clusters(8):
        list(parts[1].clusters(8))
    took = disk.counts.seconds - before
    assert took == pytest.approx(DISK_9LZX.seconds(4 + 4 * 6, (32 + 4 * 48) * 1024))
    assert took <= dd_seconds(parts[0].part, parts[1].part, 16 * 1024, DISK_9LZX)


def test_the_outer_part_says_how_often_the_inner_one_is_scanned() -> None:
    """A8: with the inner one as the factor, a small outer part would cost as much as a large one."""
    model = DiskModel(0.005, 0.003, 20e6)
    small, large = DiskPart(1, 16 * 1024), DiskPart(1, 320 * 1024)
    inner = scan_seconds(large, 16 * 1024, model)
    assert dd_seconds(small, large, 16 * 1024, model) == pytest.approx(
        scan_seconds(small, 16 * 1024, model) + 2 * inner
    )


def test_clusters_of_one_half_are_the_best_split() -> None:
    """E4.5: of what is read at once, half for the outer part and half for the inner one."""

    def seconds(outer_share: float) -> float:
        n_outer, n_inner = 1000 / (100 * outer_share), 1000 / (100 * (1 - outer_share))
        return DISK_9LZX.seconds(n_outer + n_outer * n_inner, 1000 * 1024 * (1 + n_outer))

    transfer_free = [1 / (share * (1 - share)) for share in (0.3, 0.5, 0.7)]
    assert min(transfer_free) == transfer_free[1]
    assert seconds(0.5) < seconds(0.3)


def test_expected_results_follow_the_rows() -> None:
    """Er (§4.5.2) and A17: md at arrivals, to dd by a flush, none when done, less when rows have ended."""
    pool = TaskPool(2, DISK_9LZX, 16 * 1024)
    pool.expected_md[0, 1] += 3 * 40
    pool.expected_md[1, 1] += 7
    pool.flush(0, 1)
    assert (pool.expected_md[0, 1], pool.expected_dd[1]) == (0, 120)
    pool.shrink(0, 1, memory_left=1.0, disk_left=0.5)
    assert (pool.expected_md[1, 1], pool.expected_dd[1]) == (3.5, 60)
    pool.shrink(1, 1, memory_left=0.0, disk_left=1.0)
    assert pool.expected_md[1, 1] == 0
    pool.done(ReactiveTask(DISKS, 0, 1))
    assert pool.expected_dd[1] == 0


def test_the_best_task_is_that_of_the_most_results_per_second() -> None:
    pool = TaskPool(2, DISK_9LZX, 16 * 1024)
    parts = [[DiskPart(1, 1024), DiskPart(9, 90 * 1024)], [DiskPart(1, 1024), DiskPart(1, 1024)]]
    assert pool.best(parts) is None
    pool.expected_md[1, 1], pool.expected_md[1, 0] = 200, 100
    assert pool.best(parts) == ReactiveTask(MEMORY, 1, 0)
    pool.expected_dd[0] = 10_000
    assert pool.best(parts) == ReactiveTask(DISKS, 0, 0)


def test_expected_results_of_a_run_are_the_comparisons_of_its_tasks() -> None:
    """What a task was expected to compare, it compares: no more than it has not met."""
    join = ProgressiveWindowJoin(
        RpwjSettings(n_part=1, block_rows=1, memory=4, flush=0.5, slide_us=10**9, h_mark=10**6)
    )
    trace = [Row(0, at, 1, 100) for at in range(4)] + [Row(1, 4 + at, 2, 100) for at in range(3)]
    for _ in join.feed(*as_fed(trace)):
        pass
    expected = float(join.pool.expected_md.sum() + join.pool.expected_dd.sum())
    before = join.clock.log.counters[0]
    list(join.settle())
    assert join.clock.log.counters[0] - before == expected > 0
