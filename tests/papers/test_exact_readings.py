"""Where the text of Exact, ch. 3 to 5, can be read in two ways: what the reading is, and what another one would lose.

A misreading is a small change of the join under test. On the same rows it loses pairs or finds some twice. Readings
that are about what is chosen or counted are in `test_exact_choices` and `test_exact_counts`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_index import DiskJoin
from sash.papers.exact.exact_kernels import block_frames, progressive_runs
from sash.papers.exact.exact_kernels.block_frames import COMPARED, SEQ
from sash.papers.exact.exact_kernels.progressive_runs import DiskTimes
from sash.papers.exact.exact_settings import EwjSettings
from sash.papers.exact.exact_store import ExactStore
from sash.papers.exact.exact_window_join import ExactWindowJoin
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.reactive_tasks import MEMORY
from sash.papers.exact.residence import Residence
from support.exact_misreadings import AHEWJ, EWJ, RPWJ, TRACE, misread, wrong
from support.exact_traces import all_pairs, as_fed, run


class Lenient(Residence):
    """A block may leave that is not there."""

    def leave(self, block: int, seq: int) -> None:
        if self.is_in(block):
            super().leave(block, seq)


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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_comparisons_are_those_of_nested_loops() -> None:
    """Memory of 2 blocks per stream is never full: each row is compared with all of the other stream before it."""
    join = ExactWindowJoin(EwjSettings(block_rows=100, memory=40))
    trace = TRACE[:150]
    assert run(join, trace) == all_pairs(trace)
    n_before = [sum(row.side != other.side for other in trace[:at]) for at, row in enumerate(trace)]
    assert int(join.clock.log.counters[COMPARED]) == sum(n_before)
