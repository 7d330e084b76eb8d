"""Where the text of Exact, ch. 3 to 5, can be read in two ways: what the reading is, and what another one would lose.

A misreading is a small change of the join under test. On the same rows it loses pairs or finds some twice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.kernels import block_frames, progressive_runs
from sash.kernels.block_frames import COMPARED, LATE, SEQ
from sash.kernels.progressive_runs import LEVEL, DiskTimes
from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_index import DiskJoin
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, RpwjSettings
from sash.papers.exact.exact_store import ExactStore
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.reactive_tasks import MEMORY
from sash.papers.exact.recent_buckets import RecentBuckets
from sash.papers.exact.residence import Residence
from sash.papers.exact.work_clock import WorkClock, WorkPrices
from sash.store.model_disk import DiskModel, ModelDisk
from support.exact_traces import Row, all_pairs, as_fed, random_trace, run

EWJ = EwjSettings(r=0.5, delta=0, epoch=1, block_rows=3, memory=12, recent=0.5, frequent=0.25, basic_window=2)
AHEWJ = AhEwjSettings(
    n_part=2, r=0.5, recent=0.6, frequent=0.2, epoch=1, epoch_us=50, slide_us=0, basic_window=2, train=4, block_rows=3,
    memory=30,
)  # fmt: skip
RPWJ = RpwjSettings(n_part=2, slide_us=40, epoch_us=20, m_read=4, h_mark=10**6, block_rows=3, memory=6)
TRACE = random_trace(5, n_rows=900, n_keys=4, window=120)
PAIRS = all_pairs(TRACE)


class Lenient(Residence):
    """A block may leave that is not there."""

    def leave(self, block: int, seq: int) -> None:
        if self.is_in(block):
            super().leave(block, seq)


def fast_disks() -> list[ModelDisk]:
    """Disks that take next to no time."""
    return [ModelDisk(1024, DiskModel(0.0, 0.0, 1e18)) for _ in range(2)]


def misread(part: Any, kind: type) -> None:
    """Changes how a part of a join works."""
    part.__class__ = kind


def wrong(join: DiskJoin) -> tuple[int, int]:
    """How many pairs a join loses, and how many it finds more than once, or that are none."""
    got = run(join, TRACE)
    return (PAIRS - got).total(), (got - PAIRS).total()


@pytest.mark.parametrize(
    "join", [ExactWindowJoin(EWJ), AdaptiveWindowJoin(AHEWJ), ProgressiveWindowJoin(RPWJ)], ids=["ewj", "ahewj", "rpwj"]
)
def test_as_they_are_read_no_pair_is_wrong(join: DiskJoin) -> None:
    assert wrong(join) == (0, 0)


def test_a1_frequent_blocks_and_those_just_thrown_out_are_skipped() -> None:
    """`∉ freq or ∉ E` is meant as `and`: skip a disk block that is in either.

    block m     disk ────── freq ───────────── disk
    rows of i               x x x x     probe      x have met m in memory; the probe would join them again
    """

    class SaysNothingOfFrequent(Lenient):
        def enter(self, block: int, seq: int, probed: int) -> None:
            pass

    join = ExactWindowJoin(EWJ)
    misread(join.store.memory.residence, SaysNothingOfFrequent)
    lost, doubled = wrong(join)
    assert lost == 0
    assert doubled > 0


def test_a2_a_disk_block_is_decided_on_once() -> None:
    """A block becomes frequent after it has met all fresh blocks.

    fresh n1 n2 n3,  m from disk:   m ⋈ n1 → m frequent → n2, n3 see a frequent block and skip it: lost
    """

    class UpdatesInTheLoop(ExactStore):
        def _pass(self, side, blocks, records, fresh, is_update) -> None:
            first, last = fresh.bounds.tolist()
            for at, block in enumerate(blocks.tolist()):
                for low in range(first, last, EWJ.block_rows):
                    if not (is_update and self.memory.is_frequent(block)):
                        part = fresh._replace(bounds=np.array([low, min(last, low + EWJ.block_rows)]))
                        super()._pass(side, blocks[at : at + 1], records[at : at + 1], part, is_update)

    join = ExactWindowJoin(EWJ)
    misread(join.store, UpdatesInTheLoop)
    lost, doubled = wrong(join)
    assert lost > 0
    assert doubled == 0


def test_a3_what_was_met_is_kept_by_row() -> None:
    """The other stream drops a block while the head fills: of one block, some rows have met it and some have not.

    head of i     x1 x2 │ x3         minBN of the block says that all three have met p: (x3, p) is lost
    block p       ──────┘ dropped
    """

    class ByBlock(Residence):
        def leave(self, block: int, seq: int) -> None:
            super().leave(block, -(-seq // EWJ.block_rows) * EWJ.block_rows)

    join = ExactWindowJoin(EWJ)
    misread(join.store.memory.residence, ByBlock)
    lost, doubled = wrong(join)
    assert lost > 0
    assert doubled == 0


def test_a4_only_full_blocks_are_joined() -> None:
    """The open head of the other stream is not met: its own join, when it is full, finds those pairs.

    i      x x x full: joined                     with the open head of the other: (x, y)
    other  y y . . . . . . . . y full: joined     and again (y, x)
    """

    class MeetsHeads(AdaptiveWindowJoin):
        def _join(self, side: int, bucket: int) -> None:
            memory, frame = self.store.memory, int(self._open_frames[1 - side, bucket])
            span = (int(self._joined[1 - side, bucket]), int(memory.frames.n_rows[frame])) if frame >= 0 else (0, 0)
            block_frames.link_rows(memory.frames, memory.heads, max(frame, 0), *span)
            super()._join(side, bucket)
            block_frames.unlink_rows(memory.frames, memory.heads, max(frame, 0), *span)

    lost, doubled = wrong(MeetsHeads(AHEWJ))
    assert lost == 0
    assert doubled > 0


def test_a4_an_open_head_is_not_stale_after_a_probe() -> None:
    """Rows that come into it after the probe have not met the disk.

    head   x x │ x x full         if the head were stale from the probe on, all of it would never be probed
             probe
    """

    class MakesHeadsStale(AdaptiveWindowJoin):
        seen = frozenset()

        def _probe(self, side: int, is_update: bool) -> None:
            super()._probe(side, is_update)
            self.seen = self.seen | {int(block) for block in self.recent[side].heads if block >= 0}

        def _join(self, side: int, bucket: int) -> None:
            super()._join(side, bucket)
            frame = int(self._open_frames[side, bucket])
            if int(self.recent[side].heads[bucket]) in self.seen:
                self.store.memory.frames.records[frame, :, SEQ] = self.store.probed[side] - 1

    lost, _ = wrong(MakesHeadsStale(AHEWJ))
    assert lost > 0


@pytest.mark.parametrize("join", [ExactWindowJoin(EWJ), AdaptiveWindowJoin(AHEWJ)], ids=["ewj", "ahewj"])
def test_a5_a_block_meets_fresh_rows_on_its_way_from_disk_to_memory(join: ExactWindowJoin | AdaptiveWindowJoin) -> None:
    """Between a row's arrival and its probe, p leaves the disk.

    p     disk ─────────────┐ invalidation ────
    x            arrives         probe: p is not on disk any more, and was not in memory when x came: lost
    """

    class MovesOnly(ExactStore):
        def invalidate(self, side, n_blocks, fresh, grace_us=0) -> np.ndarray:
            self.is_silent = True
            blocks = super().invalidate(side, n_blocks, fresh, grace_us)
            self.is_silent = False
            return blocks

    misread(join.store, MovesOnly)
    lost, doubled = wrong(join)
    assert lost > 0
    assert doubled == 0


def test_a5_a_block_that_is_to_be_invalidated_is_no_frequent_one() -> None:
    """Its copy becomes the block: no block is in two segments of memory, where it would be met twice."""
    join = ExactWindowJoin(EWJ)
    records, sides = as_fed(TRACE)
    n_seen = 0
    for at in range(len(TRACE)):
        list(join.feed(records[at : at + 1], sides[at : at + 1]))
        for side in (0, 1):
            start, count, _ = join._segments.ring_at[side]
            ring = [join._segments.ring[side, (start + each) % EWJ.n_invalidation] for each in range(count)]
            leaving = {int(join.store.memory.frames.blocks[frame]) for frame in ring}
            n_seen += len(leaving) and len(join.store.frequent[side])
            assert not leaving & set(join.store.frequent[side])
            assert not leaving & set(join.recent[side])
    assert n_seen


def test_a6_productivities_decay() -> None:
    """Ch. 3 says they are reset, and has an α of 0.5: so much is left after an update, on disk and of frequent ones."""
    join = ExactWindowJoin(EWJ)
    seen = []

    class Watched(ExactStore):
        def probe(self, side, fresh, is_update) -> None:
            before = self.memory.productivity.copy()
            super().probe(side, fresh._replace(bounds=np.zeros(2, np.int64)), is_update)
            blocks = self.disks[1 - side].blocks
            seen.extend(zip(before[blocks].tolist(), self.memory.productivity[blocks].tolist()))

    misread(join.store, Watched)
    for _ in join.feed(*as_fed(TRACE)):
        pass
    assert any(before for before, _ in seen)
    assert all(after == pytest.approx(EWJ.alpha * before) for before, after in seen)


def test_a9_what_the_last_task_of_both_disks_has_seen_is_seen() -> None:
    """lastDD is compared with `≤`: the last run that was scanned has been scanned.

    run of event 40 ── dd: last = 40 ── dd again: 40 < 40 is false, so its pairs come again
    """

    class SeenBelow(ProgressiveWindowJoin):
        def _note(self, task) -> None:
            super()._note(task)
            if task.kind != MEMORY:
                self.last_dd[:, task.partition] -= 1

    lost, doubled = wrong(SeenBelow(RPWJ))
    assert lost == 0
    assert doubled > 0


def test_a9_all_times_are_of_one_count() -> None:
    """Arrivals, departures and tasks that share a time cannot be told apart: pairs are lost, or come twice."""

    class Clockwise(ProgressiveWindowJoin):
        def _tick(self) -> int:
            return int(self.partitions.state[0])

    assert wrong(Clockwise(RPWJ)) != (0, 0)


def test_all_times_of_tasks_are_needed() -> None:
    """The last one is not enough: a block that left memory before it may have met another by an earlier one.

    b_i       in memory ──────── flushed
    tasks         T1                        T2         b_i has met the disk at T1
    """

    class LastAlone(ProgressiveWindowJoin):
        def _note(self, task) -> None:
            super()._note(task)
            times = self.task_times[task.side][task.partition]
            self.task_times[task.side][task.partition] = times[-1:]

    lost, doubled = wrong(LastAlone(RPWJ))
    assert lost == 0
    assert doubled > 0


NUMBERS = st.permutations(range(1, 9)).map(lambda numbers: (sorted(numbers[:2]), sorted(numbers[2:4])))


@given(NUMBERS)
def test_intervals_of_rpwj_agree_with_residence(intervals: tuple[list[int], list[int]]) -> None:
    """Two rows were in memory together iff the later one found the block of the other there: one rule in two forms."""
    residence, (one, other) = Residence(2), intervals
    for block, (ats, dts) in enumerate(intervals):
        residence.begin(block, ats)
        residence.leave(block, dts)
    owner, earlier = (one, 1) if one[0] > other[0] else (other, 0)
    nothing = np.empty(0, np.int64)
    times = DiskTimes(np.array(one[1:]), np.array(other[1:]), nothing, nothing, np.zeros(2, np.int64))
    assert progressive_runs.have_met(one[0], one[1], other[0], other[1], times) == residence.found(earlier, owner[0])


def test_a10_memory_is_yielded_by_the_faster_stream_that_has_some() -> None:
    """Eq. 5.1: C_v ≥ (1 + ρ) C_other; the yielding stream is above its least size; and it has a block to give."""
    join = AdaptiveWindowJoin(AHEWJ)
    recent = join.recent[0]
    recent.n_stale, recent.n_fresh = 1, AHEWJ.n_least
    join.arrivals = [1.4, 1.0]
    assert join._can_supply(0)
    assert not join._can_supply(1)
    join.arrivals = [1.39, 1.0]
    assert not join._can_supply(0), "not faster by ρ"
    join.arrivals = [1.4, 1.0]
    recent.n_fresh -= 1
    assert not join._can_supply(0), "it has no more than its least size"
    recent.n_fresh, recent.n_stale = AHEWJ.n_least + 1, 0
    assert not join._can_supply(0), "all its blocks are fresh"


def test_a10_a_bucket_without_flushed_blocks_gives_none() -> None:
    """Alg. 6 takes the least productive bucket that has a stale block; its tail would not be on disk: lost."""

    class Watched(AdaptiveWindowJoin):
        n_evicted = 0

        def _evict(self, side: int) -> None:
            before = [[set(each) for each in recent.flushed] for recent in self.recent]
            super()._evict(side)
            for recent, flushed in zip(self.recent, before):
                for bucket, blocks in enumerate(flushed):
                    gone = blocks - set(recent.flushed[bucket])
                    self.n_evicted += len(gone)

    join = Watched(AHEWJ)
    assert wrong(join) == (0, 0)
    assert join.n_evicted > 0


def test_a11_a_dump_is_a_basic_window_or_all_that_is_stale() -> None:
    """And if nothing is stale, the probe comes first: a fresh block has not met the disk, and must not be written."""
    written = []

    class Watched(ExactStore):
        def dump(self, side, blocks) -> None:
            written.append(len(blocks))
            rows = self.memory.records(list(blocks))[:, : AHEWJ.block_rows, SEQ]
            assert rows.max() < self.probed[side]
            super().dump(side, blocks)

    join = AdaptiveWindowJoin(AHEWJ)
    misread(join.store, Watched)
    assert wrong(join) == (0, 0)
    assert max(written) == AHEWJ.basic_window
    assert min(written) > 0


def test_a12_a_block_that_becomes_frequent_when_it_is_evicted_is_in_memory_all_the_time() -> None:
    """minBN knows the recent blocks that were met, and E the frequent ones of one probe; neither knows of this.

    block p   recent ──────── evicted, frequent ───── thrown out
    x                 comes                 probe: p is on disk, below minBN, not in E: joined again
    """

    class ForgetsTheMove(ExactStore):
        def make_frequent(self, side: int, block: int) -> None:
            super().make_frequent(side, block)
            self.memory.residence.leave(block, int(self.seqs[1 - side]))

    join = AdaptiveWindowJoin(AHEWJ)
    misread(join.store.memory.residence, Lenient)
    misread(join.store, ForgetsTheMove)
    lost, doubled = wrong(join)
    assert lost == 0
    assert doubled > 0


def test_a13_idle_time_is_used_after_a_gap() -> None:
    """Nothing is pending for a long time: the disk is probed, at least `gap_us` after the last time.

    rows ││││││││││                          │
    time           ├── gap ──┤ probe         next row
    """

    def delays(gap_us: int) -> list[float]:
        join = AdaptiveWindowJoin(
            AhEwjSettings(1, recent=0.6, frequent=0.0, gap_us=gap_us, basic_window=2, block_rows=2, memory=20),
            fast_disks(),
            WorkClock(WorkPrices(0.001, 0.001, 0.001)),
        )
        burst = [Row(at % 2, at, at // 40, 10**6) for at in range(80)]
        late = [Row(0, 10**5, 10**6, 10**6)]
        chunks = list(join.feed(*as_fed([*burst, *late])))
        return [at_us for chunk in chunks for at_us in chunk.at_us.tolist() if at_us > 80]

    assert delays(500)
    assert all(at_us < 50_000 for at_us in delays(500))
    assert min(delays(500), default=0) >= 500
    assert not delays(10**9), "without an idle probe these pairs wait for the next one"


def test_a14_the_train_of_the_figure() -> None:
    """Fig. 5.3: flush 6, train 18, the lowest stale BN is 30: limits 48 and 66, three dumps per train.

    Buckets go on where the last dump has ended, in a circle, and a block at the limit or above waits.
    """
    buckets = RecentBuckets(3, train=18)
    numbers = np.arange(200)
    buckets.train_limit = 30
    for number in range(30, 70):
        buckets.open_head(number % 3, number)
        buckets.close_head(number % 3)
    buckets.make_stale()
    dumps = [buckets.flush(6, numbers) for _ in range(6)]
    assert dumps[:3] == [[30, 33, 36, 39, 42, 45], [31, 34, 37, 40, 43, 46], [32, 35, 38, 41, 44, 47]]
    assert buckets.train_limit == 66
    assert dumps[3] == [50, 53, 56, 59, 62, 65], "the bucket that was last goes on"
    assert dumps[4] == [48, 51, 54, 57, 60, 63]


def test_a15_a_row_is_late_that_ends_before_it_is_brought_from_disk() -> None:
    """Late rows are counted, of those that are removed; pairs that are found late are in the times of pairs."""
    on_time, late = [], []
    for price_us, counts in ((0.0, on_time), (5.0, late)):
        join = ExactWindowJoin(EWJ, fast_disks(), WorkClock(WorkPrices(price_us, price_us, price_us)))
        for _ in join.feed(*as_fed(TRACE)):
            pass
        counts.append(int(join.clock.log.counters[LATE]))
    assert on_time[0] < late[0] <= len(TRACE)


def test_a17_marks_choose_between_tuples_and_blocks() -> None:
    """Above H_mark blocks of pending tuples it works block by block, below L_mark tuple by tuple, and so scans less."""
    assert (RpwjSettings().h_mark, RpwjSettings().l_mark) == (100, 2)
    levels: list[Counter] = []
    for h_mark in (1, 10**6):
        join = ProgressiveWindowJoin(RpwjSettings(n_part=1, h_mark=h_mark, l_mark=0, block_rows=4, memory=40))
        events_before = int(join.partitions.state[0])
        assert run(join, TRACE[:200]) == all_pairs(TRACE[:200])
        levels.append(
            Counter(level=int(join.partitions.state[LEVEL]), events=int(join.partitions.state[0]) - events_before)
        )
    assert levels[0]["level"] == 1
    assert levels[1]["level"] == 0
    assert levels[0]["events"] < levels[1]["events"] / 2, "one time for a block instead of one for each row"


def test_a18_memory_is_one_pool_half_each_at_first() -> None:
    """A stream evicts when its own share is full, though the other one has frames to spare; shares only move."""
    join = AdaptiveWindowJoin(AHEWJ)
    assert join.shares == [9, 9]
    assert sum(join.shares) == AHEWJ.n_recent
    for _ in join.feed(*as_fed([Row(0, at, at, 10**6) for at in range(60)])):
        pass
    assert len(join.recent[0]) == join.shares[0] == 9
    assert len(join.recent[1]) == 0
    assert len(join.store.disks[0]) > 0
    for _ in join.feed(*as_fed([Row(1, 100 + at, at, 10**6) for at in range(200)], (60, 0))):
        pass
    assert sum(join.shares) == AHEWJ.n_recent
    assert min(join.shares) >= AHEWJ.n_least


def test_a19_all_memory_is_counted() -> None:
    """Headers, chains and the productivity table, which the thesis leaves out, grow with what is on disk."""
    join = ExactWindowJoin(EWJ)
    before = join.store.memory.n_bytes
    for _ in join.feed(*as_fed([Row(0, at, at, 10**6) for at in range(900)])):
        pass
    assert join.store.memory.n_bytes > before > join.store.memory.frames.records.nbytes


def test_comparisons_are_those_of_nested_loops() -> None:
    """Memory of 2 blocks per stream is never full: each row is compared with all of the other stream before it."""
    join = ExactWindowJoin(EwjSettings(block_rows=100, memory=40))
    trace = TRACE[:150]
    assert run(join, trace) == all_pairs(trace)
    n_before = [sum(row.side != other.side for other in trace[:at]) for at, row in enumerate(trace)]
    assert int(join.clock.log.counters[COMPARED]) == sum(n_before)
