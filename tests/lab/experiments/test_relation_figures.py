"""Simulated joins with a relation, at a small scale. Time is virtual, so that everything repeats exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sash.lab.bench.exact_engine import FileDisk
from sash.lab.experiments.relation_figures.relation_cases import (
    ALL_NS,
    COMPARED_METHODS,
    HASHED,
    INL,
    MESH,
    QUICK,
    RANGED,
    SCANNED_NS,
    RelationCase,
)
from sash.lab.experiments.relation_figures.relation_simulator import make_relation_join, simulate_relation
from sash.lab.experiments.relation_figures.relation_trace import draw_relation, draw_stream
from sash.papers.exact.exact_kernels.block_frames import REMOVED, TS
from sash.papers.exact.inl_join import InlJoin
from sash.papers.exact.mesh_join import MeshJoin
from sash.papers.exact.partitioned_join import PartitionedJoin
from sash.papers.exact.work_clock import WorkClock, WorkPrices
from sash.store.model_disk import DiskModel, ModelDisk
from support.relation_joins import count_pairs

FRACTION = QUICK.fraction
SHORT = RelationCase(MESH, 500, duration_s=96, warm_s=12, relation_mb=50, memory_mb=24, wait_mb=1)
"""A minute and a half, in which the wait buffer is full some times."""


def test_settings_are_those_of_table_6_2() -> None:
    join = make_relation_join(RelationCase(HASHED, relation_mb=1), 1.0, WorkClock())
    assert isinstance(join, PartitionedJoin)
    assert (join.settings.n_part, join.settings.memory, join.settings.wait) == (89, 10_240, 1024)
    assert (join.settings.stream_rows, join.settings.block_rows, join.settings.block_bytes) == (64, 32, 4096)
    assert (join.settings.n_invoke, join.settings.theta, join.settings.basic_window) == (3000, 8192, 512)
    assert (join.settings.rho, join.settings.alpha, join.settings.r_wb) == (0.25, 0.3, 0.4)
    assert (join.settings.h_mark, join.settings.l_mark, join.settings.epoch) == (100, 2, 10_000)


@pytest.mark.slow
def test_the_queue_of_meshjoin_is_as_in_the_text() -> None:
    """k = |R| / d = 200, w = (M − d) / k: 39 MB of tuples of 64 bytes."""
    join = make_relation_join(RelationCase(MESH), 1.0, WorkClock())
    assert isinstance(join, MeshJoin)
    assert (join.n_segments, join.segment_rows) == (200, 39 * 2**20 // 64 // 200)


def test_range_segments_have_1_to_2_mb_and_hash_segments_2_25() -> None:
    hashed, ranged = (make_relation_join(RelationCase(each), 1 / 8, WorkClock()) for each in (HASHED, RANGED))
    assert isinstance(hashed, PartitionedJoin)
    assert isinstance(ranged, PartitionedJoin)
    assert hashed.relation.n_rows.mean() * 8 * 128 / 2**20 == pytest.approx(200 / 89)
    sizes = ranged.relation.n_rows * 8 * 128 / 2**20
    assert 1 <= sizes.min() <= sizes[:-1].max() < 2
    assert 100 <= len(sizes) <= 200


def test_a_part_has_as_many_blocks_and_lists() -> None:
    whole, part = (make_relation_join(RelationCase(HASHED), each, WorkClock()) for each in (1 / 4, 1 / 8))
    assert isinstance(whole, PartitionedJoin)
    assert isinstance(part, PartitionedJoin)
    assert whole.settings.memory == part.settings.memory
    assert whole.relation.n_blocks.sum() == pytest.approx(part.relation.n_blocks.sum(), rel=0.01)
    assert whole.settings.n_invoke == 2 * part.settings.n_invoke


def test_a11_the_relation_has_the_stream_s_law_and_another_seed() -> None:
    relation, other = (draw_relation(20_000, False, seed) for seed in (1, 2))
    stream = draw_stream(1000, 20_000_000, 0.6, False, 1)
    halves = [np.mean(keys < 500_000) for keys in (relation.keys, other.keys, stream[:, 1])]
    assert halves == pytest.approx([0.6] * 3, abs=0.02)
    assert not np.array_equal(relation.keys, stream[: len(relation.keys), 1])
    assert np.mean(draw_relation(20_000, True, 1).keys < 500_000) == pytest.approx(0.5, abs=0.02)


def test_a12_prices_make_meshjoin_saturated_at_1200() -> None:
    """18,409 rows a tuple at 45 ns, however that is shared between comparing and scanning."""
    for is_priced in (True, False):
        case = RelationCase(MESH, is_scan_priced=is_priced)
        assert case.comparison_ns + case.scanned_ns == ALL_NS
    n_compared = 200 * 2**20 / 128 / 89
    assert n_compared * ALL_NS == pytest.approx(1e9 / 1207, rel=0.001)
    assert RelationCase(HASHED).scanned_ns == 2 * SCANNED_NS, "a row has 128 bytes"


@pytest.mark.slow
@pytest.mark.parametrize("method", COMPARED_METHODS)
def test_what_a_run_measures(method: str) -> None:
    row = simulate_relation(RelationCase(method), FRACTION)
    assert row["total_s"] == pytest.approx(row["cpu_s"] + row["disk_s"])
    assert 0 < row["busy"] < 1.01
    assert row["n_pairs"] > 0
    assert 0 < row["delay_s"] < 2880
    assert row["taken"] == pytest.approx(1000 * 2520, rel=0.1)
    assert max(row["buffered"]) == row["buffered_peak"]


@pytest.mark.slow
def test_runs_repeat_exactly() -> None:
    case = RelationCase(RANGED)
    first = simulate_relation(case, FRACTION)
    simulate_relation.cache_clear()
    assert simulate_relation(case, FRACTION) == first


@pytest.mark.slow
def test_an_index_keeps_up_with_few_tuples() -> None:
    """A tuple costs a read of 8 ms and more, unless its block is in memory."""
    row = simulate_relation(RelationCase(INL, 1000), FRACTION)
    assert row["taken"] < 400 * 2520
    assert row["disk_s"] > 0.9 * 2520


@pytest.mark.slow
@pytest.mark.parametrize("method", [*COMPARED_METHODS, INL])
def test_on_files_pairs_and_reads_are_the_same(method: str, tmp_path) -> None:
    """Neither disk takes time of the clock, from which decisions follow."""
    case = replace(SHORT, method=method)
    stream = draw_stream(case.rate, round(1e6 * case.duration_s * FRACTION), case.bias, False, case.seed)
    found = []
    for disk in (ModelDisk(128, DiskModel(0, 0, 1e30)), FileDisk(tmp_path / "disk")):
        clock = WorkClock(WorkPrices(1e-3))
        join = make_relation_join(case, FRACTION, clock, disk)
        pairs = count_pairs([*join.feed(stream), *join.finish()])
        reads = [join.n_page_reads] if isinstance(join, InlJoin) else join.relation.n_reads.tolist()
        found.append((pairs, reads, int(clock.log.counters[REMOVED])))
    assert found[0] == found[1]
    assert found[0][2] == len(stream) > 0
    relation = draw_relation(round(case.relation_mb * FRACTION * 2**20 / 128), False, case.seed)
    keys, counts = np.unique(relation.keys, return_counts=True)
    at = np.minimum(np.searchsorted(keys, stream[:, 1]), len(keys) - 1)
    assert found[0][0].total() == counts[at][keys[at] == stream[:, 1]].sum()
    assert (np.diff(stream[:, TS]) >= 0).all()
