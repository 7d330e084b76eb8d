"""Where the text of Exact, ch. 5, can be read in two ways, and what is at stake is which memory AH-EWJ gives to whom.

As in `test_exact_readings`, a misreading is a small change of what is under test. On the same rows it makes another
choice, and where it lets go of what was needed, it loses pairs.
"""

from __future__ import annotations

import numpy as np
import pytest

from sash.papers.exact.adaptive_window_join import AdaptiveWindowJoin
from sash.papers.exact.exact_kernels.block_frames import SEQ
from sash.papers.exact.exact_settings import AhEwjSettings
from sash.papers.exact.exact_store import ExactStore
from sash.papers.exact.recent_buckets import RecentBuckets
from sash.papers.exact.work_clock import WorkClock, WorkPrices
from support.exact_misreadings import AHEWJ, fast_disks, misread, wrong
from support.exact_traces import Row, as_fed, random_trace, rows_of

LOWEST = 30
"""The number of the first stale block in Fig. 5.3."""


class YieldsNothing(AdaptiveWindowJoin):
    """A10: Σ ≥ 0, so that a stream yields that has no block to give."""

    def _can_supply(self, side: int) -> bool:
        recent = self.recent[side]
        is_faster = self.arrivals[side] >= (1 + self.settings.rho) * self.arrivals[1 - side]
        return is_faster and len(recent) > self.settings.n_least


class YieldsByTheOther(AdaptiveWindowJoin):
    """A10: it is the other stream's segment that is above its least size."""

    def _can_supply(self, side: int) -> bool:
        recent = self.recent[side]
        is_faster = self.arrivals[side] >= (1 + self.settings.rho) * self.arrivals[1 - side]
        return (
            is_faster and len(self.recent[1 - side]) > self.settings.n_least and recent.n_flushed + recent.n_stale > 0
        )


@pytest.mark.parametrize(
    ("kind", "yields"),
    [
        (AdaptiveWindowJoin, [True, False, False, False]),
        (YieldsNothing, [True, False, False, True]),
        (YieldsByTheOther, [False, False, False, False]),
    ],
)
def test_a10_memory_is_yielded_by_the_faster_stream_that_has_some(
    kind: type[AdaptiveWindowJoin], yields: list[bool]
) -> None:
    """Eq. 5.1: C_v ≥ (1 + ρ) C_other; the yielding stream is above its least size; and it has a block to give."""
    least, seen = AHEWJ.n_least, []
    for arrivals, n_stale, n_fresh in (
        ([1.4, 1.0], 1, least),
        ([1.39, 1.0], 1, least),  # not faster by ρ
        ([1.4, 1.0], 1, least - 1),  # it has no more than its least size
        ([1.4, 1.0], 0, least + 1),  # all its blocks are fresh
    ):
        join = kind(AHEWJ)
        join.arrivals = arrivals
        join.recent[0].n_stale, join.recent[0].n_fresh = n_stale, n_fresh
        assert not join._can_supply(1)
        seen.append(join._can_supply(0))
    assert seen == yields


def test_a10_a_bucket_without_flushed_blocks_gives_none() -> None:
    """Alg. 6 takes the least productive bucket that has a stale block.

    bucket 0    flushed: on disk          bucket 1    stale: in memory alone; if its frame is taken, it is lost
    """

    class GivesStale(RecentBuckets):
        def with_flushed(self) -> np.ndarray:
            return np.array([bool(flushed or stale) for flushed, stale in zip(self.flushed, self.stale)])

        def pop_flushed(self, bucket: int) -> int:
            if self.flushed[bucket]:
                return super().pop_flushed(bucket)
            self.n_stale -= 1
            return self.stale[bucket].popleft()

    join = AdaptiveWindowJoin(AHEWJ)
    for recent in join.recent:
        misread(recent, GivesStale)
    lost, doubled = wrong(join)
    assert lost > 0
    assert doubled == 0


class DumpsTheLeast(RecentBuckets):
    """A11: min(B_rec^min, Σ stale) blocks, as in Alg. 6."""

    def flush(self, n_blocks: int, numbers: np.ndarray) -> list[int]:
        return super().flush(AHEWJ.n_least, numbers)


@pytest.mark.parametrize(("kind", "most"), [(RecentBuckets, AHEWJ.basic_window), (DumpsTheLeast, AHEWJ.n_least)])
def test_a11_a_dump_is_a_basic_window_or_all_that_is_stale(kind: type[RecentBuckets], most: int) -> None:
    written = []

    class Watched(ExactStore):
        def dump(self, side, blocks) -> None:
            written.append(len(blocks))
            assert self.memory.records(list(blocks))[:, : AHEWJ.block_rows, SEQ].max() < self.probed[side]
            super().dump(side, blocks)

    join = AdaptiveWindowJoin(AHEWJ)
    misread(join.store, Watched)
    for recent in join.recent:
        misread(recent, kind)
    assert wrong(join) == (0, 0)
    assert max(written) == most
    assert min(written) > 0


class DumpsFresh(AdaptiveWindowJoin):
    """A11: nothing is stale, so what is fresh is written as it is."""

    def _make_stale(self, side: int) -> None:
        self.recent[side].make_stale()


@pytest.mark.slow
def test_a11_if_nothing_is_stale_the_probe_comes_first() -> None:
    """A fresh block has not met the disk: once it is out of memory, nobody knows.

    five buckets    2 fresh blocks, 4 heads, and no frame is free: a probe needs 3 fresh ones
    """
    settings = AhEwjSettings(
        n_part=5,
        r=0.5,
        least_recent=0.49,
        recent=0.6,
        frequent=0.0,
        slide_us=0,
        basic_window=1,
        block_rows=2,
        memory=22,
    )
    assert (settings.n_recent, settings.n_least) == (13, 6)
    trace = random_trace(5, n_rows=900, n_keys=40, window=120)
    assert wrong(AdaptiveWindowJoin(settings), trace) == (0, 0)
    lost, doubled = wrong(DumpsFresh(settings), trace)
    assert lost > 0
    assert doubled == 0


class NeverIdle(AdaptiveWindowJoin):
    """A13: Alg. 7 alone."""

    def _use_idle_time(self, next_us: float) -> None:
        self._due[0] = np.inf


def found_while_idle(kind: type[AdaptiveWindowJoin], gap_us: int) -> tuple[list[float], int]:
    """When pairs of a burst of 80 rows are found after it, and before the next row comes; and how many probes it took.

    rows ││││││││││                          │
    time           ├── gap ──┤ probe         next row
    """
    settings = AhEwjSettings(1, recent=0.6, frequent=0.0, gap_us=gap_us, basic_window=2, block_rows=2, memory=20)
    join = kind(settings, fast_disks(), WorkClock(WorkPrices(0.001, 0.001, 0.001)))
    burst = [Row(at % 2, at, at // 40, 10**6) for at in range(80)]
    chunks = list(join.feed(*as_fed([*burst, Row(0, 10**5, 10**6, 10**6)])))
    return [at_us for chunk in chunks for at_us in chunk.at_us.tolist() if at_us > 80], join.store.n_probes


def test_a13_idle_time_is_used_after_a_gap() -> None:
    found, n_probes = found_while_idle(AdaptiveWindowJoin, gap_us=500)
    assert found
    assert 500 <= min(found) <= max(found) < 50_000
    assert not found_while_idle(NeverIdle, gap_us=500)[0], "these pairs wait for the next probe"
    assert found_while_idle(AdaptiveWindowJoin, gap_us=1)[1] > n_probes, "without a gap the disk is never at rest"


class ProbesTheOther(AdaptiveWindowJoin):
    """A13: the stream with fewer fresh blocks."""

    def _idle_side(self) -> int:
        return 1 - super()._idle_side()


@pytest.mark.parametrize(("kind", "n_left"), [(AdaptiveWindowJoin, 0), (ProbesTheOther, 3)])
def test_a13_the_stream_with_more_fresh_blocks_is_probed(kind: type[AdaptiveWindowJoin], n_left: int) -> None:
    """3 fresh blocks of left and 1 of right, then nothing for a while: right's disk is read, for left."""
    settings = AhEwjSettings(
        1, r=0.95, least_recent=0.45, recent=0.6, frequent=0.0, gap_us=500, basic_window=2, block_rows=2, memory=20
    )
    join = kind(settings, fast_disks(), WorkClock(WorkPrices(0.001, 0.001, 0.001)))
    for _ in join.feed(*as_fed([Row(at % 2, at, at, 10**6) for at in range(80)])):
        pass
    for side in (0, 1):
        join._probe(side, is_update=False)
    assert all(map(len, join.store.disks))
    last = [*rows_of(0, range(1000, 1006), 80), *rows_of(1, range(2000, 2002), 86)]
    records, sides = as_fed(sorted(last, key=lambda row: row.ts), (40, 40))
    for _ in join.feed(records, sides):
        pass
    assert [recent.n_fresh for recent in join.recent] == [3, 1]
    join._use_idle_time(next_us=10**5)
    assert join.recent[0].n_fresh == n_left


def dumps_of(kind: type[RecentBuckets], n_blocks: int, n_bypassed: int = 0) -> list[list[int]]:
    """The dumps of Fig. 5.3: 3 buckets, a train of 18, stale blocks from 30 on, of which some bypass the disk first."""
    buckets, numbers = kind(3, train=18), np.arange(200)
    buckets.train_limit = LOWEST
    for number in range(LOWEST, 70):
        buckets.open_head(number % 3, number)
        buckets.close_head(number % 3)
    buckets.make_stale()
    for _ in range(n_bypassed):
        buckets.pop_oldest_stale(numbers)
    return [buckets.flush(n_blocks, numbers) for _ in range(5)]


def disorder(dumps: list[list[int]]) -> int:
    """By how much a block's number is less than that of one before it, at most."""
    order = np.array([number for dump in dumps for number in dump])
    return int((np.maximum.accumulate(order) - order).max())


def test_a14_the_train_of_the_figure() -> None:
    """Flush 6, train 18, the lowest stale BN is 30: limits 48 and 66, three dumps per train."""
    dumps = dumps_of(RecentBuckets, 6)
    assert dumps[:3] == [[30, 33, 36, 39, 42, 45], [31, 34, 37, 40, 43, 46], [32, 35, 38, 41, 44, 47]]
    assert dumps[3:] == [[50, 53, 56, 59, 62, 65], [48, 51, 54, 57, 60, 63]], "the bucket that was last goes on"
    assert disorder(dumps) < 18


def test_a14_the_bucket_is_remembered_between_dumps() -> None:
    class BeginsAnew(RecentBuckets):
        def flush(self, n_blocks: int, numbers: np.ndarray) -> list[int]:
            self._bucket = 0
            return super().flush(n_blocks, numbers)

    assert dumps_of(BeginsAnew, 6)[3] == [48, 51, 54, 57, 60, 63], "a switch of buckets more"
    assert dumps_of(RecentBuckets, 6)[3][0] % 3 == dumps_of(RecentBuckets, 6)[2][-1] % 3


def test_a14_a_block_above_the_limit_waits_as_one_at_it_does() -> None:
    """ "BN equal trainLimit" is meant as `≥`: bucket 1 has 46 and 49, and none that is 48."""

    class StopsAtTheLimit(RecentBuckets):
        def _next_bucket(self, numbers: np.ndarray) -> int:
            while True:
                for bucket in self._circle():
                    if self.stale[bucket] and numbers[self.stale[bucket][0]] != self.train_limit:
                        self._bucket = bucket
                        return bucket
                self.train_limit += self._train

    assert disorder(dumps_of(StopsAtTheLimit, 6)) >= 18


def test_a14_a_train_can_end_within_a_dump() -> None:
    """Dumps of 4: the fifth has two blocks of the first train, and two of the next."""

    class EndsWithDumps(RecentBuckets):
        def flush(self, n_blocks: int, numbers: np.ndarray) -> list[int]:
            below = sum(int(numbers[block] < self.train_limit) for stale in self.stale for block in stale)
            if not below:
                self.train_limit += self._train
            return super().flush(min(n_blocks, below) if below else n_blocks, numbers)

    assert [len(dump) for dump in dumps_of(RecentBuckets, 4)] == [4, 4, 4, 4, 4]
    assert [len(dump) for dump in dumps_of(EndsWithDumps, 4)] == [4, 4, 4, 4, 2]


def test_a14_blocks_that_bypass_the_disk_are_of_the_train() -> None:
    """Two of its 18 do: the train is over when the other 16 are out. One that counts dumps waits for two more."""

    class CountsDumps(RecentBuckets):
        n_dumped = 0

        def _next_bucket(self, numbers: np.ndarray) -> int:
            before = self.train_limit
            bucket = super()._next_bucket(numbers)
            if LOWEST < before < self.train_limit and self.n_dumped < self._train:
                raise LookupError("no block is below the limit, and the train is not over")
            self.n_dumped += 1
            return bucket

    dumps = dumps_of(RecentBuckets, 4, n_bypassed=2)
    assert sorted(number for dump in dumps[:4] for number in dump) == list(range(32, 48))
    assert min(dumps[4]) >= 48
    assert dumps_of(CountsDumps, 4)
    with pytest.raises(LookupError, match="the train is not over"):
        dumps_of(CountsDumps, 4, n_bypassed=2)


class OnePool(AdaptiveWindowJoin):
    """A18: a segment is full when no frame of the pool is free."""

    def _is_full(self, side: int) -> bool:
        return sum(map(len, self.recent)) >= self.settings.n_recent


@pytest.mark.parametrize(("kind", "n_taken"), [(AdaptiveWindowJoin, 9), (OnePool, 18)])
def test_a18_a_stream_is_full_when_its_share_is(kind: type[AdaptiveWindowJoin], n_taken: int) -> None:
    """It evicts though the other one has frames to spare: half each at first."""
    join = kind(AHEWJ)
    assert join.shares == [9, 9]
    for _ in join.feed(*as_fed(rows_of(0, range(60)))):
        pass
    assert [len(recent) for recent in join.recent] == [n_taken, 0]
    assert (len(join.store.disks[0]) > 0) == (n_taken == 9)


def test_a18_shares_only_move() -> None:
    join = AdaptiveWindowJoin(AHEWJ)
    for _ in join.feed(*as_fed([*rows_of(0, range(60)), *rows_of(1, range(200), 100)])):
        pass
    assert sum(join.shares) == AHEWJ.n_recent
    assert min(join.shares) >= AHEWJ.n_least
