"""Where the text of Exact, ch. 3 to 5, can be read in two ways, and what is at stake is what is counted or expected.

As in `test_exact_readings`, a misreading is a small change of what is under test. On the same rows it counts wrong, or
expects too much of something, and chooses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from sash.cost import disk_cost
from sash.cost.disk_cost import DiskPart, ExactLoad, refill_seconds, transfer_seconds
from sash.lab.experiments.exact_figures import fig3_5_backlog
from sash.papers.exact import reactive_tasks
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.block_memory import BlockMemory
from sash.papers.exact.exact_kernels.block_frames import COMPARED, KEY, LATE, SCANNED
from sash.papers.exact.exact_kernels.progressive_runs import HIGH_MARK, IS_STEP, LEVEL, LOW_MARK, PERIODIC_US
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, RpwjSettings
from sash.papers.exact.exact_store import ExactStore
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.reactive_tasks import DISKS, MEMORY, ReactiveTask, TaskPool, dd_seconds, scan_seconds
from sash.papers.exact.work_clock import FoundPairs, WorkClock, WorkPrices
from sash.store.model_disk import DISK_9LZX, DiskModel, ModelDisk
from support.exact_misreadings import EWJ, TRACE, fast_disks, misread
from support.exact_traces import Row, all_pairs, as_fed, random_trace, rows_of, run

TRANSFER_ONLY = DiskModel(0.0, 0.0, 20e6)


class Resets(BlockMemory):
    """A6: nothing is left of productivities after an update, as the prose of ch. 3 says."""

    def decay(self, side: int, blocks: np.ndarray, alpha: float) -> None:
        super().decay(side, blocks, 0.0)


@pytest.mark.parametrize(("kind", "frequent"), [(BlockMemory, "hot"), (Resets, "warm")])
def test_a6_productivities_decay(kind: type[BlockMemory], frequent: str) -> None:
    """Ch. 3 says that they are reset, and has an α of 0.5: so much is left after an update.

    disk of left     hot hot │ warm warm │ …                    2 rows a block
    right            hot hot hot hot   probe: hot has 8, is frequent, and keeps 4
                     warm …            probe: warm has 2, which is not more than 4; it is more than 0
    """
    hot, warm, settings = 1, 2, EwjSettings(0.5, 0, 0.5, 1, 2, memory=8, recent=0.5, frequent=0.125, basic_window=2)
    join, others = ExactWindowJoin(settings), iter(range(100, 200))
    misread(join.store.memory, kind)
    left = [next(others) for _ in range(4)] + [hot, hot, warm, warm] + [next(others) for _ in range(10)]
    right = [hot] * 4 + [warm] + [next(others) for _ in range(3)]
    for _ in join.feed(*as_fed([*rows_of(0, left), *rows_of(1, right, 100)])):
        pass
    (block,) = join.store.frequent[0]
    memory = join.store.memory
    assert memory.frames.records[memory.frame_of[block], 0, KEY] == {"hot": hot, "warm": warm}[frequent]


def test_a7_refills_divide_by_what_is_refilled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equation 3.3 is printed with |W_rec| below the line. Two blocks are refilled at a time, of 2 rows each:

    rows      1 2 3 4 | 5 6 7 8 | …    a refill for every 4 rows; |W_rec|, 4 blocks, says every 8
    """
    settings = EwjSettings(r=0.5, block_rows=2, memory=6, recent=0.67, frequent=0.0, basic_window=2)
    assert (settings.n_recent, settings.n_invalidation) == (4, 2)
    took: list[float] = []

    class Timed(ExactStore):
        def invalidate(self, side, n_blocks, fresh, grace_us=0) -> np.ndarray:
            before = self.disks[side].disk.counts.seconds
            blocks = super().invalidate(side, n_blocks, fresh, grace_us)
            took.append(self.disks[side].disk.counts.seconds - before)
            return blocks

    join = ExactWindowJoin(settings)
    misread(join.store, Timed)
    records, sides = as_fed([Row(0, at, at, at + 40) for at in range(400)])
    for part in (slice(200), slice(200, 400)):
        took.clear()
        for _ in join.feed(records[part], sides[part]):
            pass
    load = ExactLoad(1, 2, settings.block_bytes, 2, settings.r * settings.n_recent, settings.n_invalidation)
    assert len(took) == 50
    assert sum(took) == pytest.approx(refill_seconds(load, seconds=200))
    monkeypatch.setattr(disk_cost, "_n_refills", lambda load, seconds: math.ceil(seconds / 2 / settings.n_recent))
    assert refill_seconds(load, seconds=200) == pytest.approx(sum(took) / 2), "as printed: half of what it takes"


def test_a7_bandwidth_is_in_bytes() -> None:
    """ "mbps" are megabytes: a probe of ch. 5 reads about 44 MB in 2.5 s, every 42 s; as bits it would not keep up."""
    load = ExactLoad(1400, 16, 1024, 1024, 0.9 * AhEwjSettings().n_least, 1)
    n_blocks = 44e6 / 1024
    assert transfer_seconds(n_blocks, load) == pytest.approx(2.5, rel=0.05)
    bits = DiskModel(DISK_9LZX.seek_s, DISK_9LZX.latency_s, DISK_9LZX.bytes_per_s / 8)
    assert transfer_seconds(n_blocks, load, bits) > 17


def by_inner(outer: DiskPart, inner: DiskPart, read_bytes: float, model: DiskModel) -> float:
    """A8: Equation 4.3 as printed."""
    scans = [scan_seconds(each, read_bytes, model) for each in (outer, inner)]
    return scans[0] + 2 * inner.n_bytes / read_bytes * scans[1]


def test_a8_the_inner_part_is_scanned_for_each_cluster_of_the_outer_one() -> None:
    """8 blocks of left and 2 of right, of which 4 are read at once, in clusters of 2:

    left     bb bb bb bb       right    bb  bb  bb  bb      16 blocks in all; the inner part as the factor says 10
    """
    settings = RpwjSettings(n_part=1, block_rows=1, memory=20, m_read=4, h_mark=10**6)
    join = ProgressiveWindowJoin(settings, ModelDisk(settings.block_bytes, TRANSFER_ONLY))
    for _ in join.feed(*as_fed([*rows_of(0, range(8)), *rows_of(1, range(2), 10)])):
        pass
    for side in (0, 1):
        join._flush_part(side, 0)
    parts = join.runs[0][0].part, join.runs[1][0].part
    before = join.disk.counts.seconds
    join._run(ReactiveTask(DISKS, 0, 0))
    took, block_s = join.disk.counts.seconds - before, settings.block_bytes / 20e6
    read_bytes = settings.m_read * settings.block_bytes
    assert took == pytest.approx(16 * block_s)
    assert dd_seconds(*parts, read_bytes, TRANSFER_ONLY) == pytest.approx(took)
    assert by_inner(*parts, read_bytes, TRANSFER_ONLY) == pytest.approx(10 * block_s)
    assert dd_seconds(*parts, settings.m_read, TRANSFER_ONLY) > 100 * took, "M_read is in bytes, not in blocks"


def test_a8_the_task_that_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two partitions that promise as much, the one that takes less time: 40 blocks to be read, not 64."""
    parts = [[DiskPart(1, n_blocks * 1024) for n_blocks in each] for each in ((32, 8), (2, 8))]
    pool = TaskPool(2, TRANSFER_ONLY, 4 * 1024)
    pool.expected_dd[:] = 100
    assert pool.best(parts) == ReactiveTask(DISKS, 0, 1)
    monkeypatch.setattr(reactive_tasks, "dd_seconds", by_inner)
    assert pool.best(parts) == ReactiveTask(DISKS, 0, 0)


def late_outputs(trace: Sequence[Row], chunks: Sequence[FoundPairs]) -> int:
    """A15: pairs that are found after one of their rows has ended, as ch. 4 counts."""
    ends = [[row.end for row in trace if row.side == side] for side in (0, 1)]
    return sum(
        at_us > min(ends[0][left], ends[1][right])
        for chunk in chunks
        for left, right, at_us in zip(*(each.tolist() for each in chunk))
    )


@pytest.mark.parametrize(("price_us", "is_late"), [(0.0, False), (5.0, True)])
def test_a15_a_row_is_late_that_is_removed_late(price_us: float, is_late: bool) -> None:
    """Input rows count that leave after they have ended, also if they join none; pairs that come late do not."""
    trace = [row._replace(key=at) for at, row in enumerate(TRACE)]
    join = ExactWindowJoin(EWJ, fast_disks(), WorkClock(WorkPrices(price_us, price_us, price_us)))
    chunks = list(join.feed(*as_fed(trace)))
    assert (0 < int(join.clock.log.counters[LATE]) <= len(trace)) == is_late
    assert late_outputs(trace, chunks) == 0


@pytest.mark.slow
def test_a15_within_a_slide_nobody_is_late() -> None:
    """ts + W + τ: windows slide every τ, so rows leave as much later."""

    class NoGrace(ExactStore):
        def invalidate(self, side, n_blocks, fresh, grace_us=0) -> np.ndarray:
            return super().invalidate(side, n_blocks, fresh)

    settings = AhEwjSettings(2, r=0.5, recent=0.6, frequent=0.0, slide_us=60, basic_window=1, block_rows=2, memory=24)
    n_late = []
    for kind in (ExactStore, NoGrace):
        join = AdaptiveWindowJoin(settings, fast_disks(), WorkClock(WorkPrices()))
        misread(join.store, kind)
        for _ in join.feed(*as_fed(TRACE)):
            pass
        n_late.append(int(join.clock.log.counters[LATE]))
    assert n_late[0] < n_late[1]


def test_a16_the_backlog_is_bounded_up_to_250(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says "even up to 300" in one place, and overload at 300 in the next."""
    rows = [
        {"rate": rate, "buffered_peak": peak, "buffered_end": end}
        for rate, peak, end in ((200, 9_000, 0), (250, 60_000, 900), (300, 2_000_000, 1_900_000))
    ]
    assert fig3_5_backlog._bounded(rows).holds
    assert fig3_5_backlog._overload(rows).holds
    monkeypatch.setattr(fig3_5_backlog, "SUSTAINED", 300)
    assert not fig3_5_backlog._bounded(rows).holds


class KeepsExpecting(TaskPool):
    """A17: Er of both disks stays after their task, and after rows have ended."""

    def done(self, task: ReactiveTask) -> None:
        if task.kind == MEMORY:
            super().done(task)

    def shrink(self, side: int, partition: int, memory_left: float, disk_left: float) -> None:
        pass


@pytest.mark.parametrize(("kind", "again"), [(TaskPool, None), (KeepsExpecting, ReactiveTask(DISKS, 0, 0))])
def test_a17_a_task_of_both_disks_expects_nothing_afterwards(kind: type[TaskPool], again: ReactiveTask | None) -> None:
    pool, parts = kind(1, TRANSFER_ONLY, 4096), [[DiskPart(1, 8192)], [DiskPart(1, 8192)]]
    pool.expected_dd[0] = 50
    assert pool.best(parts) == ReactiveTask(DISKS, 0, 0)
    pool.done(ReactiveTask(DISKS, 0, 0))
    assert pool.best(parts) == again


@pytest.mark.parametrize(("kind", "partition"), [(TaskPool, 1), (KeepsExpecting, 0)])
def test_a17_rows_that_have_ended_are_not_expected(kind: type[TaskPool], partition: int) -> None:
    """Partition 0 was to find 60 and partition 1 50; then three of four rows of the first have ended."""
    pool, parts = kind(2, TRANSFER_ONLY, 4096), [[DiskPart(1, 8192)] * 2] * 2
    pool.expected_md[0] = 60, 50
    pool.shrink(0, 0, memory_left=0.25, disk_left=1.0)
    assert pool.best(parts) == ReactiveTask(MEMORY, 0, partition)


class MarksInRows(ProgressiveWindowJoin):
    """A17: H_mark and L_mark are rows."""

    def _begin(self, first_us: float) -> None:
        super()._begin(first_us)
        self._limits[[HIGH_MARK, LOW_MARK]] = self.settings.h_mark, self.settings.l_mark


@pytest.mark.parametrize(
    ("kind", "n_rows", "level"), [(ProgressiveWindowJoin, 3, 0), (ProgressiveWindowJoin, 5, 1), (MarksInRows, 3, 1)]
)
def test_a17_marks_are_blocks_of_pending_rows(kind: type[ProgressiveWindowJoin], n_rows: int, level: int) -> None:
    """One block of 4 rows is the mark: with 3 pending it works tuple by tuple, with 5 block by block."""
    assert (RpwjSettings().h_mark, RpwjSettings().l_mark) == (100, 2)
    join = kind(RpwjSettings(n_part=1, h_mark=1, l_mark=0, block_rows=4, memory=40))
    for _ in join.feed(*as_fed(rows_of(0, range(n_rows)))):
        pass
    assert join.partitions.state[LEVEL] == level


def test_a17_block_by_block_less_is_noted() -> None:
    """One time for a block instead of one for each row."""
    n_events = []
    for h_mark in (1, 10**6):
        join = ProgressiveWindowJoin(RpwjSettings(n_part=1, h_mark=h_mark, l_mark=0, block_rows=4, memory=40))
        assert run(join, TRACE[:200]) == all_pairs(TRACE[:200])
        n_events.append(int(join.partitions.state[0]))
    assert n_events[0] < n_events[1] / 2


class SlidesEverySecond(ProgressiveWindowJoin):
    """A17: τ′ is twice τ."""

    def _run_period(self) -> None:
        super()._run_period()
        self._limits[PERIODIC_US] += self.settings.slide_us


@pytest.mark.parametrize(("kind", "n_periods"), [(ProgressiveWindowJoin, 4), (SlidesEverySecond, 2)])
def test_a17_periods_are_slides(kind: type[ProgressiveWindowJoin], n_periods: int) -> None:
    """A row each microsecond for 200, slides of 40: at 40, 80, 120 and 160."""
    join = kind(RpwjSettings(n_part=1, slide_us=40, h_mark=10**6, block_rows=4, memory=100))
    for _ in join.feed(*as_fed(rows_of(0, range(200)))):
        pass
    assert join.n_periods == n_periods


class CountsRows(BlockMemory):
    """A19: memory is what rows take, as the thesis counts."""

    @property
    def n_bytes(self) -> int:
        return self.frames.records.nbytes


@pytest.mark.parametrize(("kind", "is_seen"), [(BlockMemory, True), (CountsRows, False)])
def test_a19_all_memory_is_counted(kind: type[BlockMemory], is_seen: bool) -> None:
    """Headers, chains and the productivity table grow with what is on disk."""
    join = ExactWindowJoin(EWJ)
    misread(join.store.memory, kind)
    before = join.store.memory.n_bytes
    for _ in join.feed(*as_fed(rows_of(0, range(900)))):
        pass
    assert len(join.store.disks[0]) > 200
    assert (join.store.memory.n_bytes > before) == is_seen
    assert (before > join.store.memory.frames.records.nbytes) == is_seen


@pytest.mark.parametrize(("h_mark", "n_scanned"), [(10**6, 16), (0, 4)])
def test_a_block_shares_a_scan(h_mark: int, n_scanned: int) -> None:
    """§4.2: tuple by tuple, each of four goes over the four of the other stream; as a block, all in one scan."""
    settings = RpwjSettings(n_part=1, h_mark=h_mark, l_mark=0, block_rows=4, memory=40)
    join = ProgressiveWindowJoin(settings, clock=WorkClock(WorkPrices(scanned_us=1.0)))
    join.clock.is_virtual = False
    join.partitions.state[IS_STEP] = 1
    for _ in join.feed(*as_fed([*rows_of(0, range(4)), *rows_of(1, range(4), 4)])):
        pass
    assert join.clock.log.counters[COMPARED] == 16
    assert join.clock.log.counters[SCANNED] == join.clock.cpu_us == n_scanned


@pytest.mark.slow
@pytest.mark.parametrize("is_gap_of_partition", [False, True])
def test_the_gap_between_reactive_stages(is_gap_of_partition: bool) -> None:
    """§5.4.1: stages "occur at a partition level". Within a gap there is one of all partitions, or one of each."""
    settings = RpwjSettings(n_part=4, slide_us=10**6, gap_us=100, block_rows=2, memory=16, m_read=2, h_mark=4, l_mark=1)
    clock, trace = WorkClock(WorkPrices()), random_trace(5, n_rows=1200, n_keys=30, window=400)
    disk = ModelDisk(settings.block_bytes, DiskModel(0.0, 0.0, 1e15))
    join = ProgressiveWindowJoin(settings, disk, clock, DISK_9LZX, is_gap_of_partition)
    assert run(join, trace) == all_pairs(trace)
    n_gaps = (trace[-1].ts - trace[0].ts) / settings.gap_us
    n_stages = join.n_reactions / n_gaps
    assert (n_stages > 1.5) if is_gap_of_partition else (0 < n_stages <= 1.5)
    assert n_stages <= settings.n_part + 1
