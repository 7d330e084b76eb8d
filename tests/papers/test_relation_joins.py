"""PartitionedJoin, MESHJOIN and the indexed nested-loop join find every pair once, in the memory they have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.errors import PlanError
from sash.papers.exact.exact_kernels.block_frames import COMPARED, INSERTED, PAIRED, REMOVED
from sash.papers.exact.inl_join import InlJoin
from sash.papers.exact.mesh_join import MeshJoin
from sash.papers.exact.partitioned_join import PartitionedJoin
from sash.papers.exact.relation_segments import RelationRows
from sash.papers.exact.relation_settings import InlSettings, MeshSettings, PartitionedSettings, RelationSettings
from sash.papers.exact.work_clock import WorkClock, WorkPrices
from support.profiles import volume
from support.relation_joins import (
    Keys,
    all_partners,
    any_relation_settings,
    as_relation,
    as_stream,
    count_pairs,
    make_relation_join,
    partitioned_settings,
    some_keys,
)

N_CASES = volume(dev=15, ci=60, deep=1000)
PRICES = st.sampled_from([None, WorkPrices(), WorkPrices(0.1, 0.1, 0.1, 0.1), WorkPrices(2.0, 1.0, 1.0, 3.0)])


@settings(max_examples=N_CASES)
@given(any_relation_settings(), some_keys(), some_keys(), PRICES, st.data())
@example(PartitionedSettings(memory=2, wait=1), [None], [0], None, None)
@example(PartitionedSettings(partitioning="hash", n_part=3, memory=2, wait=1), [], [0, None], None, None)
@example(MeshSettings(read=1, memory=2), [], [0], None, None)
@example(InlSettings(), [], [0], None, None)
def test_every_pair_is_found_once(
    chosen: RelationSettings, relation: Keys, stream: Keys, prices: WorkPrices | None, data: st.DataObject | None
) -> None:
    gaps = data.draw(st.lists(st.integers(0, 20), min_size=len(stream), max_size=len(stream))) if data else [0]
    stops = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3))) if data else []
    join = make_relation_join(chosen, relation, WorkClock(prices))
    times, chunks = np.cumsum(gaps[: len(stream)] or [0] * len(stream)), []
    for first, last in zip([0, *stops], [*stops, len(stream)]):
        chunks += join.feed(as_stream(stream[first:last], np.resize(times, len(stream))[first:last], first))
        assert join.n_memory_blocks <= chosen.memory
    chunks += join.finish()
    assert count_pairs(chunks) == all_partners(stream, relation)
    came = np.resize(times, len(stream))
    assert all((chunk.at_us >= came[chunk.left]).all() for chunk in chunks)
    n_tuples = sum(key is not None for key in stream)
    counters = join.clock.log.counters
    assert counters[INSERTED] == counters[REMOVED] == n_tuples
    assert counters[PAIRED] == all_partners(stream, relation).total()


@settings(max_examples=N_CASES)
@given(partitioned_settings(), some_keys(), some_keys(), PRICES)
def test_a_tuple_is_served_by_at_most_one_read(
    chosen: PartitionedSettings, relation: Keys, stream: Keys, prices: WorkPrices | None
) -> None:
    """A read is for those who wait, each of whom waits once; nothing is read that is in memory."""
    join = PartitionedJoin(chosen, as_relation(relation), clock=WorkClock(prices))
    reads: list[int] = []

    def load(segment: int) -> None:
        assert not join.memory.is_resident(segment)
        assert len(join.waiting.waiting_for(segment))
        reads.append(segment)
        type(join.memory).load(join.memory, segment)

    join.memory.load = load
    _ = [*join.feed(as_stream(stream)), *join.finish()]
    assert len(reads) == join.relation.n_reads.sum() <= len(stream)
    assert len(reads) == join.n_invoked + join.n_overflown + join.n_aged + join.n_flushed
    assert join.waiting.n_waiting == 0
    assert join.waiting.n_free == join.waiting.n_blocks


@settings(max_examples=N_CASES)
@given(partitioned_settings(), some_keys(), some_keys())
def test_memory_is_what_was_given(chosen: PartitionedSettings, relation: Keys, stream: Keys) -> None:
    join = PartitionedJoin(chosen, as_relation(relation))
    for at in range(len(stream)):
        _ = list(join.feed(as_stream(stream[at : at + 1], [at], at)))
        used = join.relation.n_blocks[join.memory.residents].sum()
        assert used + join.memory.n_free == join.memory.n_frames
        assert join.memory.n_frames + join.waiting.n_blocks + join.relation.n_largest <= chosen.memory
        assert join.waiting.n_free > 0, "the wait buffer is never left full"


@settings(max_examples=N_CASES)
@given(partitioned_settings(), some_keys(30), st.lists(st.tuples(some_keys(12), some_keys(6)), max_size=4), st.data())
def test_a_tuple_meets_the_relation_as_it_was_when_it_came(
    chosen: PartitionedSettings, relation: Keys, steps: list[tuple[Keys, Keys]], data: st.DataObject
) -> None:
    rows = as_relation(relation)
    join, wanted, chunks, n_fed = PartitionedJoin(_roomy(chosen), rows), {}, [], 0
    for step, (stream, added) in enumerate(steps, start=1):
        tuples = as_stream(stream, [10 * n_fed] * len(stream), n_fed)
        for number, key, _ in tuples.tolist():
            wanted |= {(number, row): 1 for row, each in zip(*rows) if each == key}
        chunks += join.feed(tuples)
        n_fed += len(stream)
        is_gone = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows.rows), max_size=len(rows.rows))), bool)
        inserted = as_relation(added)
        inserted = RelationRows(inserted.rows + 1000 * step, inserted.keys)
        chunks += join.update(RelationRows(rows.rows[is_gone], rows.keys[is_gone]), inserted)
        rows = RelationRows(*(np.concatenate([a[~is_gone], b]) for a, b in zip(rows, inserted)))
    chunks += join.finish()
    assert count_pairs(chunks) == wanted


def _roomy(chosen: PartitionedSettings) -> PartitionedSettings:
    """A key can become as frequent as all rows together."""
    return replace(chosen, memory=chosen.memory + 200)


@settings(max_examples=N_CASES)
@given(st.integers(1, 6), st.integers(1, 4), st.lists(st.integers(0, 9), max_size=60))
def test_a_queued_tuple_leaves_after_exactly_k_reads(read: int, block_rows: int, stream: list[int]) -> None:
    """E6.18: and in equilibrium every read lets one segment of the queue expire."""
    relation = as_relation([each % 10 for each in range(23)])
    join = MeshJoin(MeshSettings(read=read, memory=read + 30, stream_rows=1, block_rows=block_rows), relation)
    k, w = join.n_segments, join.segment_rows
    for at in range(len(stream)):
        n_reads = int(join.relation.n_reads.sum())
        _ = list(join.feed(as_stream(stream[at : at + 1], [at])))
        n_read = int(join.relation.n_reads.sum()) - n_reads
        assert n_read == ((at + 1) % w == 0)
        n_filled = (at + 1) // w
        assert join.clock.log.counters[REMOVED] == w * max(0, n_filled - k + 1)
    assert join.relation.n_reads.max() - join.relation.n_reads.min() <= 1
    _ = list(join.finish())
    assert join.n_queued == 0


def test_comparisons_are_those_of_nested_loops_and_of_buckets() -> None:
    """§1.6 of a reading of the thesis: MESHJOIN and hash partitions compare a tuple with as many rows."""
    relation, stream = as_relation(range(1000)), as_stream([5, 700, 5, 2000])
    hashed = PartitionedJoin(PartitionedSettings(partitioning="hash", n_part=10), relation)
    _ = [*hashed.feed(stream), *hashed.finish()]
    sizes = hashed.relation.n_rows[hashed.partitions.segments_of(stream[:, 1])]
    assert hashed.clock.log.counters[COMPARED] == sizes.sum()
    mesh = MeshJoin(MeshSettings(n_bucket=10, read=4), relation)
    _ = [*mesh.feed(stream), *mesh.finish()]
    assert mesh.clock.log.counters[COMPARED] == sizes.sum()


def test_an_index_is_read_page_by_page() -> None:
    relation = as_relation([*range(30), 7, 7, 7])
    join = InlJoin(InlSettings(fan_out=3, memory=1, block_rows=2), relation)
    assert join.n_levels == 3
    chunks = list(join.feed(as_stream([7])))
    assert count_pairs(chunks).total() == 4
    assert join.n_page_reads == 3 + 3, "a page of each level, and all blocks that may have the key"
    assert join.disk.counts.accesses - 4 == join.n_page_reads, "writing is an access for each level"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PartitionedJoin(PartitionedSettings(memory=1000), as_relation([1])), "`memory` is 1000 blocks; the"),
        (lambda: MeshJoin(MeshSettings(read=1, memory=2, stream_rows=1), as_relation(range(99))), "queue of 4"),
        (lambda: PartitionedSettings(partitioning="list"), "`partitioning` is list; it must be `hash` or `range`"),
        (lambda: PartitionedSettings(r_wb=1.0), "`r_wb` is 1.0; it must be at least 0 and less than 1"),
        (lambda: PartitionedSettings(alpha=0), "`alpha` is 0; it must be more than 0 and at most 1"),
        (lambda: PartitionedSettings(l_mark=101), "`l_mark` is 101; it must be not above `h_mark`, nor negative"),
        (lambda: PartitionedSettings(max_wait_us=-1), "`max_wait_us` is -1; it must be not negative"),
        (lambda: MeshSettings(read=10_240), "`read` is 10240; it must be less than `memory`"),
        (lambda: InlSettings(fan_out=1), "`fan_out` is 1; it must be 2 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_set(make, message) -> None:
    with pytest.raises(PlanError, match=message):
        make()
