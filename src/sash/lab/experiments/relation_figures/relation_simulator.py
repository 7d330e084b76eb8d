"""A join with a relation on a virtual clock: what arrives waits until the join is free, which computes and reads.

    buffered    what has arrived less what the join has taken in; those in a wait buffer or queue are taken
    taken       tuples that the join has taken in; processed are those that have met all rows of their keys
    delay       of a pair: from the arrival of its tuple to when it is found, with the time in the input buffer

Nothing is measured before the warm-up is over, nor after the trace has ended.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sash.lab.experiments.exact_figures.exact_simulator import CPU, DISK, N_POINTS, N_SAMPLED, N_SAMPLES, SampledClock
from sash.lab.experiments.relation_figures.relation_cases import INL, MESH, MIB, RelationCase
from sash.lab.experiments.relation_figures.relation_trace import draw_relation, draw_stream
from sash.papers.exact.exact_kernels.block_frames import COMPARED, INSERTED, REMOVED, SCANNED, TS
from sash.papers.exact.inl_join import InlJoin
from sash.papers.exact.mesh_join import MeshJoin
from sash.papers.exact.partitioned_join import PartitionedJoin
from sash.papers.exact.relation_settings import InlSettings, MeshSettings, PartitionedSettings
from sash.papers.exact.work_clock import FoundPairs, WorkClock, WorkPrices
from sash.store.block_disk import BlockDisk
from sash.store.model_disk import DISK_9LZX, DiskModel, ModelDisk

BLOCK_BYTES, RELATION_ROW_BYTES, STREAM_ROW_BYTES = 4096, 128, 64
BASIC_WINDOW = 2 * MIB // BLOCK_BYTES
COUNTED = {"compared": COMPARED, "scanned": SCANNED}

RelationJoin = PartitionedJoin | MeshJoin | InlJoin


@cache
def simulate_relation(case: RelationCase, fraction: float = 1.0) -> dict[str, Any]:
    """What a run of a case has measured, in numbers of the full scale.

    Whoever asks again for the same gets the same, which nobody may change.
    """
    duration_us = round(1e6 * fraction * case.duration_s)
    stream = draw_stream(case.rate, duration_us, case.bias, case.is_even_stream, case.seed)
    clock = SampledClock(_prices(case, fraction), duration_us / N_SAMPLES)
    join = make_relation_join(case, fraction, clock)
    span_us = 1e6 * fraction * case.warm_s, 1e6 * fraction * case.duration_s
    n_pairs, delay_us = 0, 0.0
    for pairs in join.feed(stream):
        delays_us = _delays(pairs, stream, span_us)
        n_pairs, delay_us = n_pairs + len(delays_us), delay_us + float(delays_us.sum())
        clock.sample()
        if clock.now_us > span_us[1]:
            break
    clock.sample(is_last=True)
    delay_s = delay_us / max(1, n_pairs) / 1e6 / fraction
    facts = {"method": case.method, "rate": case.rate, "n_pairs": n_pairs, "delay_s": delay_s}
    return facts | _work(clock, span_us, fraction) | _probes(join) | _curves(stream, clock, span_us, fraction)


def make_relation_join(
    case: RelationCase, fraction: float, clock: WorkClock, disk: BlockDisk | None = None
) -> RelationJoin:
    """The join of a case, with a part of its relation, blocks and times. On a disk as modelled, or on another one."""
    block_bytes = round(BLOCK_BYTES * fraction)
    disk = disk or _model_disk(case, fraction)
    n_rows = round(case.relation_mb * fraction * MIB / RELATION_ROW_BYTES)
    relation = draw_relation(n_rows, case.is_even_relation, case.seed)
    shape = {
        "memory": _blocks(case.memory_mb),
        "basic_window": BASIC_WINDOW,
        "block_rows": block_bytes // RELATION_ROW_BYTES,
        "block_bytes": block_bytes,
    }
    if case.method == INL:
        return InlJoin(InlSettings(**shape, fan_out=max(2, block_bytes // 16)), relation, disk, clock)
    shape["stream_rows"] = block_bytes // STREAM_ROW_BYTES
    if case.method == MESH:
        return MeshJoin(MeshSettings(**shape, read=_blocks(case.read_mb)), relation, disk, clock)
    settings = PartitionedSettings(
        **shape,
        partitioning=case.method,
        theta=round(fraction * MIB / RELATION_ROW_BYTES),
        epoch=max(1, round(case.epoch * fraction)),
        n_invoke=max(1, round(case.n_invoke * fraction)),
        is_eager=case.is_eager,
        h_mark=case.h_mark,
        l_mark=case.l_mark,
        wait=_blocks(case.wait_mb),
    )
    return PartitionedJoin(settings, relation, disk, clock)


def _prices(case: RelationCase, fraction: float) -> WorkPrices:
    """Of work that a part of the relation makes less; what an index takes for a tuple is the same at every scale."""
    part = 1.0 if case.method == INL else fraction
    return WorkPrices(case.comparison_ns / 1000 / part, scanned_us=case.scanned_ns / 1000 / part)


def _model_disk(case: RelationCase, fraction: float) -> ModelDisk:
    part = 1.0 if case.method == INL else fraction
    model = DiskModel(DISK_9LZX.seek_s * part, DISK_9LZX.latency_s * part, 1e6 * case.mb_per_s)
    return ModelDisk(round(BLOCK_BYTES * part), model, BASIC_WINDOW)


def _blocks(megabytes: float) -> int:
    """As many as at full scale: a block is a part of one."""
    return round(megabytes * MIB / BLOCK_BYTES)


def _delays(pairs: FoundPairs, stream: np.ndarray, span_us: tuple[float, float]) -> np.ndarray:
    """Of the pairs that were found while it was measured."""
    is_measured = (pairs.at_us >= span_us[0]) & (pairs.at_us < span_us[1])
    return (pairs.at_us - stream[pairs.left, TS])[is_measured]


def _work(clock: SampledClock, span_us: tuple[float, float], fraction: float) -> dict[str, Any]:
    def done(column: int) -> float:
        return float(np.diff(clock.done_by(column, span_us))[0])

    to_full_s = 1e-6 / fraction
    cpu_us, disk_us = done(CPU), done(DISK)
    return {
        "cpu_s": cpu_us * to_full_s,
        "disk_s": disk_us * to_full_s,
        "total_s": (cpu_us + disk_us) * to_full_s,
        "busy": (cpu_us + disk_us) / (span_us[1] - span_us[0]),
        "taken": done(N_SAMPLED + INSERTED) / fraction,
        "processed": done(N_SAMPLED + REMOVED) / fraction,
        **{name: done(N_SAMPLED + each) / fraction**2 for name, each in COUNTED.items()},
    }


def _probes(join: RelationJoin) -> dict[str, Any]:
    """Over all of the run: why the disk was probed, and for which part of the tuples it was."""
    counters = join.clock.log.counters
    facts: dict[str, Any] = {"n_invoked": 0, "n_overflown": 0, "n_switches": 0, "from_disk": 1.0, "n_segments": 0}
    facts |= {"queue_rows": join.segment_rows if isinstance(join, MeshJoin) else 0}
    facts |= {"all_processed": int(counters[REMOVED])}
    if isinstance(join, PartitionedJoin):
        facts |= {"n_invoked": join.n_invoked, "n_overflown": join.n_overflown, "n_switches": join.n_switches}
        facts |= {"from_disk": join.n_served / max(1, int(counters[REMOVED]))}
    if not isinstance(join, InlJoin):
        facts |= {"n_reads": int(join.relation.n_reads.sum()), "n_segments": len(join.relation)}
    else:
        facts |= {"n_reads": join.n_page_reads}
    return facts


def _curves(stream: np.ndarray, clock: SampledClock, span_us: tuple[float, float], fraction: float) -> dict[str, Any]:
    """Over time: tuples that are buffered."""
    points = np.linspace(0, span_us[1], N_SAMPLES + 1)[1:]
    taken = clock.done_by(N_SAMPLED + INSERTED, points)
    buffered = np.maximum(np.searchsorted(stream[:, TS], points, side="right") - taken, 0) / fraction
    parts = np.array_split(buffered, N_POINTS)
    last = np.array([each[-1] for each in np.array_split(np.arange(len(points)), N_POINTS)])
    return {
        "buffered_peak": float(buffered.max()),
        "buffered_end": float(buffered[-1]),
        "times_s": (points[last] / 1e6 / fraction).round(3).tolist(),
        "buffered": [float(each.max()) for each in parts],
    }
