"""What EWJ, RPWJ and AH-EWJ ask of their disk under a load, by the equations of Exact, per second of stream.

    EWJ, AH-EWJ   Equations 3.1 to 3.3, with both streams' disks as large as what memory does not hold
    RPWJ          Equations 4.1 to 4.3: all tasks of all partitions, once in every stage
    Er            the results that only the disk can give: rows that come, times rows on the other one's disk

Within a query nothing is pending after a step: each ends with a probe, or with a stage, however few rows it brought.
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.cost.disk_cost import (
    DiskPart,
    ExactLoad,
    dd_seconds,
    md_seconds,
    probe_seconds,
    refill_seconds,
)
from sash.cost.join_cost import JoinLoad, JoinMethod, exact_settings
from sash.papers.exact.exact_settings import SECOND_US, EwjSettings, RpwjSettings
from sash.store.model_disk import DiskModel

SPAN_S = 86_400.0
"""Equations count whole probes; over a day the rest of one does not matter."""


@dataclass(frozen=True, slots=True)
class ExactEstimate:
    """Bytes on the disks of both streams; and in a second of stream, what is read and written, how long that takes,
    and how many results are expected of it.
    """

    disk_bytes: float
    bytes_read: float
    bytes_written: float
    disk_s: float
    expected_results: float


def estimate_exact(method: JoinMethod, load: JoinLoad, step_s: float, model: DiskModel) -> ExactEstimate:
    """Of a method that keeps windows on disk; a step brings `step_s` seconds at once."""
    settings = exact_settings(method)
    if isinstance(settings, RpwjSettings):
        return _estimate_rpwj(settings, load, step_s, model)
    is_ewj = isinstance(settings, EwjSettings)
    n_memory = settings.memory if is_ewj else settings.memory / 2
    fresh = settings.r * (settings.n_recent if is_ewj else settings.n_least)
    n_blocks = [max(0.0, load.window_tuples(side) / settings.block_rows - n_memory) for side in (0, 1)]
    read = written = seconds = 0.0
    for side, rate in enumerate(load.rates):
        if not n_blocks[side]:
            continue  # what has room in memory is not dumped, and nothing has to come back
        arriving = rate / settings.block_rows
        each = ExactLoad(
            rate,
            settings.block_rows,
            settings.block_bytes,
            settings.basic_window,
            max(min(fresh, arriving * step_s), 1 / settings.block_rows),
            settings.n_invalidation,
        )
        read += arriving / each.probed_at * n_blocks[1 - side] + arriving
        written += arriving
        seconds += probe_seconds(each, n_blocks[1 - side], SPAN_S, model) + refill_seconds(each, SPAN_S, model)
    size = settings.block_bytes
    results = _expected_results(load, settings.block_rows, n_blocks)
    return ExactEstimate(sum(n_blocks) * size, read * size, written * size, seconds / SPAN_S, results)


def _estimate_rpwj(settings: RpwjSettings, load: JoinLoad, step_s: float, model: DiskModel) -> ExactEstimate:
    """Memory is both streams' by how much they bring; what is flushed at once of a partition is a run."""
    n_window = [load.window_tuples(side) / settings.block_rows for side in (0, 1)]
    on_disk = max(0.0, 1 - settings.memory / sum(n_window))
    n_blocks = [on_disk * each for each in n_window]
    stages = 1 / min(settings.slide_us / SECOND_US, max(step_s, 1e-6))
    run = max(1.0, settings.flush * settings.memory / settings.n_part)
    outer, inner = (
        DiskPart(round(each / settings.n_part / run), each / settings.n_part * settings.block_bytes)
        for each in n_blocks
    )
    read_bytes = settings.m_read * settings.block_bytes
    tasks = md_seconds(outer, read_bytes, model) + md_seconds(inner, read_bytes, model)
    tasks += dd_seconds(outer, inner, read_bytes, model)
    read = 2 * outer.n_bytes + inner.n_bytes * (1 + 2 * outer.n_bytes / read_bytes)
    written = sum(load.rates) / settings.block_rows * settings.block_bytes if on_disk else 0.0
    flushes = written / (settings.flush * settings.memory * settings.block_bytes)
    seconds = stages * settings.n_part * tasks + model.seconds(flushes * settings.n_part, written)
    return ExactEstimate(
        sum(n_blocks) * settings.block_bytes,
        stages * settings.n_part * read,
        written,
        seconds,
        _expected_results(load, settings.block_rows, n_blocks),
    )


def _expected_results(load: JoinLoad, block_rows: int, n_blocks: list[float]) -> float:
    """Er (§4.5.2): a product of sizes, as selectivities are taken to be equal."""
    return sum(load.rates[side] * n_blocks[1 - side] * block_rows * load.match_rate for side in (0, 1))
