"""Where the text of Exact, ch. 6, can be read in two ways: what the reading is, and what another one would do.

Most relations here have the keys 0 to 3, a segment each of one row, which is one block, and none is kept in memory.
Tuples take no time and the disk takes a second, where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sash.papers.exact.exact_kernels.block_frames import COMPARED, SCANNED
from sash.papers.exact.join_memory import JoinMemory
from sash.papers.exact.partitioned_join import PartitionedJoin
from sash.papers.exact.relation_segments import RelationRows, RelationSegments
from sash.papers.exact.relation_settings import PartitionedSettings
from sash.papers.exact.work_clock import WorkClock, WorkPrices
from sash.store.model_disk import DiskModel, ModelDisk
from support.relation_joins import Keys, as_relation, as_stream, count_pairs, times_of

SECOND = 1_000_000
FOUR = PartitionedSettings(
    theta=1, block_rows=1, stream_rows=2, wait=8, memory=9, n_invoke=3, r_wb=0.4, epoch=1000, h_mark=100, l_mark=2
)


def make(settings: PartitionedSettings, relation: Keys = (0, 1, 2, 3), prices: WorkPrices | None = None):
    disk = ModelDisk(settings.block_bytes, DiskModel(0.5, 0.5, 1e30), settings.basic_window)
    return PartitionedJoin(settings, as_relation(relation), disk, WorkClock(prices or WorkPrices()))


def feed(join: PartitionedJoin, keys: Keys, times_s: Sequence[float]) -> dict[tuple[int, int], float]:
    """When pairs are found, in seconds; tuples are numbered from 0 on in every call."""
    found = times_of(join.feed(as_stream(keys, [round(SECOND * each) for each in times_s])))
    return {pair: at_us / SECOND for pair, at_us in found.items()}


def reads(join: PartitionedJoin) -> list[int]:
    return join.relation.n_reads.tolist()


def test_a1_a_long_list_is_probed_when_there_is_nothing_else_to_do() -> None:
    """Alg. 8, not §6.3.1.    0 s: key 0 three times, key 1; 5 s: key 2        the probe is at 0 s, after key 1."""
    keys, times = [0, 0, 0, 1, 2], [0, 0, 0, 0, 5]
    join = make(FOUR)
    assert feed(join, keys, times) == {(0, 0): 1, (1, 0): 1, (2, 0): 1}
    assert (join.n_invoked, join.waiting.n_waiting) == (1, 2)
    busy = make(FOUR)
    assert not feed(busy, keys[:4], times[:4]), "somebody was in the input buffer until the end"
    assert busy.waiting.n_waiting == 4


def test_a1_eager_is_the_other_reading() -> None:
    join = make(replace(FOUR, is_eager=True))
    assert feed(join, [0, 0, 0, 1], [0, 0, 0, 0]) == {(0, 0): 1, (1, 0): 1, (2, 0): 1}
    assert join.n_invoked == 1


def test_a1_idle_time_is_for_all_lists_that_are_long_enough() -> None:
    join = make(FOUR)
    feed(join, [0, 1, 0, 1, 0, 1, 2], [0, 0, 0, 0, 0, 0, 5])
    assert reads(join) == [1, 1, 0, 0]


def test_a2_the_threshold_is_in_tuples_and_is_reached_not_exceeded() -> None:
    below, at = make(FOUR), make(FOUR)
    feed(below, [0, 0, 1], [0, 0, 5])
    feed(at, [0, 0, 0, 1], [0, 0, 0, 5])
    assert (below.n_invoked, at.n_invoked) == (0, 1)


def test_a2_the_longest_list_is_by_tuples_and_of_equals_the_lower() -> None:
    """Both have two blocks: key 2 with three tuples, key 3 with four, of which one block more is taken for the next."""
    by_tuples = make(replace(FOUR, wait=6, memory=7, n_invoke=100, r_wb=0.0))
    feed(by_tuples, [2, 3, 2, 3, 2, 3, 3, 0], [0] * 8)
    assert reads(by_tuples) == [0, 0, 0, 1]
    equals = make(replace(FOUR, wait=2, memory=3, n_invoke=100, r_wb=0.0))
    feed(equals, [2, 1], [0] * 2)
    assert reads(equals) == [0, 1, 0, 0]


def test_a2_marks_are_in_blocks() -> None:
    """Two tuples are a block: more than four of them waiting make it work block by block, less than two end that."""
    settings = replace(FOUR, h_mark=2, l_mark=1, n_invoke=100, wait=20, memory=21)
    six, five = make(settings), make(settings)
    feed(six, [0] * 6, [0] * 6)
    feed(five, [0] * 5, [0] * 5)
    assert (six.n_switches, five.n_switches) == (2, 0)


def test_a3_a_full_head_is_followed_by_a_free_block_also_tuple_by_tuple() -> None:
    """Three blocks of two tuples: the fourth tuple fills the second block, takes the third, and none is free."""
    join = make(replace(FOUR, wait=3, memory=4, n_invoke=100, r_wb=0.0))
    feed(join, [0, 0, 0], [0] * 3)
    assert (join.waiting.n_free, join.n_overflown) == (1, 0)
    assert feed(join, [0], [0]), "all four are joined, by one read"
    assert (join.waiting.n_free, join.n_overflown, join.waiting.n_waiting) == (3, 1, 0)


def _memory(sizes: list[int], n_frames: int, rho: float = 0.25) -> JoinMemory:
    """A join memory for segments of so many blocks."""
    relation = RelationSegments(ModelDisk(4096), 1, lambda seconds: None)
    for size in sizes:
        relation.append(RelationRows(np.arange(size), np.arange(size)))
    return JoinMemory(PartitionedSettings(block_rows=1, wait=1, memory=1 + max(sizes) + n_frames, rho=rho), relation)


def _admit(memory: JoinMemory, *segments: int) -> list[int]:
    for segment in segments:
        memory.load(segment)
        memory.admit(segment)
    return memory.residents.tolist()


def test_a4_what_fits_is_kept_however_rare() -> None:
    memory = _memory([2, 2, 3], 5)
    memory.frequencies[:] = 9, 9, 0
    assert _admit(memory, 0, 2) == [0, 2]
    assert memory.n_free == 0


def test_a4_the_victim_has_the_fewest_arrivals_for_its_size() -> None:
    """Of C / |P| = 8 / 4, 3 / 1 and 5 / 2 the first is the least, though its C is the greatest."""
    memory = _memory([4, 1, 2, 2], 7)
    memory.frequencies[:] = 8, 3, 5, 100
    assert _admit(memory, 0, 1, 2, 3) == [1, 2, 3]


def test_a4_one_victim_or_none() -> None:
    """(6.2): two segments of one block would make room for one of two blocks, but one does not."""
    memory = _memory([1, 1, 2], 2)
    memory.frequencies[:] = 0, 0, 100
    assert _admit(memory, 0, 1, 2) == [0, 1]


@pytest.mark.parametrize(("arrivals", "is_kept"), [(24, False), (25, True), (26, True)])
def test_6_1_is_by_size_and_with_rho(arrivals: int, is_kept: bool) -> None:
    """|P_i| / |P_m| = 2, C_m = 10 and ρ = 0.25: from 25 on."""
    memory = _memory([1, 2, 1], 2)
    memory.frequencies[:] = 10, arrivals, 1000
    _admit(memory, 0, 2)
    memory.drop(2)
    assert (_admit(memory, 1) == [1]) == is_kept
    assert memory.n_evicted == is_kept


def test_a5_frequencies_decay_after_so_many_tuples() -> None:
    """C^e = α (c_e + C^{e−1}): the arrivals of an epoch that ends are decayed with it."""
    join = make(replace(FOUR, epoch=4, alpha=0.5, n_invoke=100))
    feed(join, [0, 0, 0, 1], [0, 0, 0, 9999])
    assert join.memory.frequencies.tolist() == [1.5, 0.5, 0, 0]
    feed(join, [0, 1, 1], [10000] * 3)
    assert join.memory.frequencies.tolist() == [2.5, 2.5, 0, 0]
    feed(join, [1], [10000])
    assert join.memory.frequencies.tolist() == [1.25, 1.75, 0, 0]


def test_a6_the_part_is_what_is_freed_not_when() -> None:
    """Ten blocks: nothing is read while one is free, though that is less than 0.4 of them; then until five are free."""
    join = make(replace(FOUR, wait=10, memory=11, n_invoke=100))
    feed(join, [0, 0, 0, 0, 1, 1, 2, 2, 3], [0] * 9)
    assert (join.waiting.n_free, join.n_overflown) == (2, 0)
    feed(join, [3], [0])
    assert (join.waiting.n_free, join.n_overflown) == (1, 0)
    feed(join, [0, 0], [0] * 2)
    assert (join.waiting.n_free, join.n_overflown) == (6, 2)


def test_a7_there_are_89_hash_segments_and_one_may_be_longer_than_a_basic_window() -> None:
    settings = PartitionedSettings(partitioning="hash", basic_window=2, block_rows=1)
    join = make(settings, relation=[5, 5, 5])
    assert join.partitions.n_parts == len(join.relation) == 89
    n_before = join.disk.counts.accesses
    _ = [*join.feed(as_stream([5])), *join.finish()]
    assert join.disk.counts.accesses - n_before == 2


def test_a8_a_cold_list_waits_for_ever_unless_there_is_a_limit() -> None:
    cold, limited = make(FOUR), make(replace(FOUR, max_wait_us=10 * SECOND))
    assert not feed(cold, [0, None, 1], [0, 1, 1000])
    assert feed(limited, [0, None, 1], [0, 1, 1000]) == {(0, 0): 11}
    assert limited.n_aged == 1
    assert count_pairs(cold.finish()).total() == 2


def test_a8_block_by_block_those_whose_segment_is_in_memory_wait_too_and_are_cleaned_up() -> None:
    """Key 0 is in memory, and 7 tuples of it come at once, more than two blocks.

    tuple by tuple   1                      6  7         6, alone in its block, is joined when only 7 is left
    block by block      2 3   4 5    6
    """
    settings = replace(FOUR, memory=13, h_mark=2, l_mark=1, n_invoke=1)
    join = make(settings, prices=WorkPrices(comparison_us=1.0))
    feed(join, [0, 1], [0, 5])
    assert join.memory.is_resident(0)
    n_scanned = int(join.clock.log.counters[SCANNED])
    found = [pair for pair in feed(join, [0] * 7, [10] * 7) if pair[1] == 0]
    assert (len(found), join.n_switches, join.waiting.waiting_for(0).tolist()) == (7, 2, [])
    assert join.clock.log.counters[SCANNED] - n_scanned == 1 + 5, "of key 1 before, and a block shares a scan"


def test_a9_a_delay_is_from_arrival_with_the_time_in_the_input_buffer() -> None:
    """Three tuples at once, each compared with a segment of one row in 1 s: found after 1, 2 and 3 s."""
    join = make(replace(FOUR, memory=13, n_invoke=1), prices=WorkPrices(comparison_us=SECOND))
    feed(join, [0, 1], [0, 10])
    found = feed(join, [0, 0, 0], [20] * 3)
    assert {pair: at for pair, at in found.items() if pair[1] == 0} == {(0, 0): 21, (1, 0): 22, (2, 0): 23}


def test_a12_time_is_counts_times_prices_and_the_disk_s() -> None:
    join = make(replace(FOUR, n_invoke=1), prices=WorkPrices(comparison_us=7.0, scanned_us=3.0))
    feed(join, [0, 0, 1, 2], [0, 0, 0, 100])
    counters = join.clock.log.counters
    assert join.clock.cpu_us == 7 * counters[COMPARED] + 3 * counters[SCANNED]
    assert join.clock.disk_us == SECOND * join.relation.n_reads.sum()


def test_a13_who_waits_meets_the_relation_as_it_was() -> None:
    """tuple of key 1 | key 1 leaves, key 2 comes | tuples of keys 1 and 2"""
    join = make(replace(FOUR, block_rows=2))
    feed(join, [1], [0])
    update = join.update(as_relation([None, 1]), RelationRows(np.array([9]), np.array([2])))
    assert count_pairs(update) == {(0, 1): 1}
    assert reads(join)[1] == 2, "for the tuple that waited, and for what is left of the segment"
    assert not feed(join, [1, 2], [1, 1])
    assert count_pairs(join.finish()) == {(1, 2): 1, (1, 9): 1}


def test_a13_what_is_in_memory_of_a_segment_that_changes_is_out_of_date() -> None:
    join = make(replace(FOUR, memory=13, n_invoke=1))
    feed(join, [1, 0], [0, 5])
    assert join.memory.is_resident(1)
    assert not count_pairs(join.update(as_relation([None, 1]), as_relation([])))
    feed(join, [1], [10])
    assert (0, 1) not in count_pairs(join.finish())
