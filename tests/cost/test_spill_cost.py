"""What a join under a limit is expected to read, write and keep, against what one has counted."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from sash.cost.disk_prices import SHIPPED_DISK, DiskPrices
from sash.cost.exact_cost import estimate_exact
from sash.cost.join_cost import AHEWJ, EWJ, RPWJ, JoinLoad, JoinMethod
from sash.cost.spill_cost import MemoryShares, SpillEstimate, estimate_spill
from sash.embedded.join_load import LoadStreams, load_schema, load_spec
from sash.operators.window_join import WindowJoin
from sash.store.bites import Bite, Bites, Spent, Use
from sash.store.memory_budget import MemoryBudget
from sash.store.model_disk import DISK_9LZX
from sash.store.spill_arena import SpillArena

ROW_BYTES = 33.0
"""Two integers, two times and a sign."""
LIMIT = 1 << 20
SHARES = MemoryShares(LIMIT / 2, LIMIT / 4, LIMIT / 4)


class Counted(NamedTuple):
    disk_bytes: float
    n_segments: float
    bytes_read: float
    bytes_written: float


def count_run(load: JoinLoad, n_step: int, spill: Path) -> Counted:
    """A window fills, then another one goes by: what the disk does per second, and has in the mean."""
    budget = MemoryBudget.of(LIMIT, spill)
    arena = SpillArena(budget)
    join = WindowJoin(load_spec(load), load_schema(0), load_schema(1))
    join.reset(arena)
    streams, full_us, held = LoadStreams(load), 1e6 * max(load.windows_s), []
    begun: tuple[int, int, int] | None = None
    while streams.clock_us < 2.2 * full_us:
        counts = arena.spill_files.counts
        if begun is None and streams.clock_us > 1.2 * full_us:
            begun = counts.n_bytes_read, counts.n_bytes_written, streams.clock_us
        batches, clock = streams.step(n_step)
        spent = Spent(Use.KEPT_IN_PIECES, join.n_file_bytes)
        bites = Bites(Bite(dict(enumerate(batches)), clock, {}), budget, spent)
        for bite in bites:
            bites.see(join.process([bite.arrivals[0], bite.arrivals[1]], bite.clock).nbytes)
        if begun is not None:
            logs = join.logs().values()
            held.append((sum(log.n_disk_bytes for log in logs), sum(len(log.segments) for log in logs)))
    assert begun is not None
    counts, seconds = arena.spill_files.counts, (streams.clock_us - begun[2]) / 1e6
    disk_bytes, n_segments = np.mean(held, axis=0)
    read, written = counts.n_bytes_read - begun[0], counts.n_bytes_written - begun[1]
    return Counted(float(disk_bytes), float(n_segments), read / seconds, written / seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "n_step"),
    [
        (JoinLoad((10_000, 10_000), (1, 1), 5_000), 2_000),
        (JoinLoad((16_000, 2_000), (1, 1), 5_000), 2_000),
        (JoinLoad((10_000, 1_000), (2, 0.25), 5_000), 1_000),
        (JoinLoad((10_000, 10_000), (1, 1), 1e6), 500),
    ],
    ids=["even", "uneven", "one stays in memory", "hardly any pairs"],
)
def test_bytes_are_right_within_a_factor_of_two(load: JoinLoad, n_step: int, tmp_path: Path) -> None:
    """Bytes on disk, read and written; segments within three."""
    seen = count_run(load, n_step, tmp_path)
    expected = estimate_spill(load, (ROW_BYTES, ROW_BYTES), n_step / sum(load.rates), SHARES)
    for name in ("disk_bytes", "bytes_read", "bytes_written"):
        assert 1 / 2 < getattr(expected, name) / getattr(seen, name) < 2, name
    assert 1 / 3 < expected.n_segments / seen.n_segments < 3


def test_nothing_is_read_or_written_if_windows_fit(tmp_path: Path) -> None:
    load = JoinLoad((1_000, 1_000), (0.5, 0.5), 500)
    expected = estimate_spill(load, (ROW_BYTES, ROW_BYTES), 0.1, SHARES)
    assert expected.fits
    assert expected.disk_s(SHIPPED_DISK) == expected.cpu_s == 0
    assert count_run(load, 200, tmp_path) == (0, 0, 0, 0)


def test_larger_steps_read_less() -> None:
    load = JoinLoad((10_000, 10_000), (600, 600), 1e6)
    shares = MemoryShares(1 << 27, 1 << 26, 1 << 26)
    read = [estimate_spill(load, (100.0, 100.0), step_s, shares).bytes_read for step_s in (1, 4, 16)]
    assert read[0] > read[1] > read[2]


def test_a_disk_takes_what_its_prices_say() -> None:
    estimate = SpillEstimate(9.0, 1.0, 8.0, 2.0, bytes_read=1e6, bytes_written=1e5, n_accesses=10)
    assert estimate.disk_s(DiskPrices(write=3e-9, read=2e-9, access=1e-4)) == pytest.approx(3e-4 + 2e-3 + 1e-3)


LOAD = JoinLoad((200, 200), (3600, 3600), 1000)


@pytest.mark.parametrize(("algorithm", "n_part"), [(EWJ, 1), (RPWJ, 60), (AHEWJ, 60)])
def test_methods_of_the_thesis_by_its_equations(algorithm: str, n_part: int) -> None:
    method = JoinMethod(algorithm, n_part)
    slow, fast = (estimate_exact(method, LOAD, step_s, DISK_9LZX) for step_s in (1.0, 60.0))
    assert slow.disk_bytes == fast.disk_bytes > 0
    assert slow.bytes_read > fast.bytes_read
    assert slow.disk_s > fast.disk_s > 0
    assert slow.expected_results == fast.expected_results < 2 * 200 * 200 * 3600 / 1000
    fitting = estimate_exact(method, JoinLoad((1, 1), (60, 60), 10), 1.0, DISK_9LZX)
    assert (fitting.disk_bytes, fitting.bytes_read, fitting.bytes_written) == (0, 0, 0)


def test_ewj_reads_the_other_disk_at_each_probe() -> None:
    """Equation 3.1: a step of a minute is a probe; what is read is the other window, less what memory has."""
    found = estimate_exact(JoinMethod(EWJ), LOAD, 60.0, DISK_9LZX)
    n_disk = 200 * 3600 / 32 - 5120
    assert found.bytes_read == pytest.approx(2 * 4096 * (n_disk / 60 + 200 / 32))
    assert found.bytes_written == pytest.approx(2 * 4096 * 200 / 32)


def test_rows_without_columns_are_keys_alone() -> None:
    load, shares = JoinLoad((10_000, 10_000), (600, 600), 1e6), MemoryShares(1 << 27, 1 << 26, 1 << 26)
    bare, wide = (estimate_spill(load, (n_bytes, n_bytes), 1, shares) for n_bytes in (17.0, 18.0))
    assert 0 < bare.disk_bytes < wide.disk_bytes
    assert 0 < bare.bytes_read < wide.bytes_read
