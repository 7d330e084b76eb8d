"""What a join of many streams under a limit is expected to read, write and keep, against what one has counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sash.cost.multiway_spill import ManyInput, ManyLoad, estimate_multiway_spill
from sash.cost.spill_cost import MemoryShares
from sash.index.probe_order import probe_orders, probed_keys
from sash.operators.multiway_join import MultiwayJoin, MultiwayJoinSpec
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS
from sash.store.bites import Bite, Bites
from sash.store.memory_budget import MemoryBudget
from sash.store.spill_arena import SpillArena

ROW_BYTES = 33.0
LIMIT = 1 << 20
SHARES = MemoryShares(LIMIT / 2, LIMIT / 4, LIMIT / 4)
WINDOW_US = 1_000_000
ONE_KEY = ((("0.k",), ("1.k",), ("2.k",)),)
TWO_KEYS = ((("0.k",), ("1.k",), ()), ((), ("1.j",), ("2.j",)))


def rows_of(number: int, times: np.ndarray, n_distinct: int, rng: np.random.Generator) -> pa.Table:
    keys = {f"{number}.{name}": rng.integers(0, n_distinct, len(times)) for name in "kj"}
    return pa.table({**keys, TS: times, EXPIRES: times + WINDOW_US, OP: np.ones(len(times), np.int8)})


def count_run(join: MultiwayJoin, rates: list[int], n_distinct: int, spill: Path) -> tuple[float, float, float]:
    """Bytes on disk in the mean, and read and written in a second, once windows are full; a tenth of one at a time."""
    budget = MemoryBudget.of(LIMIT, spill)
    arena, rng, held, begun = SpillArena(budget), np.random.default_rng(1), [], (0, 0)
    join.reset(arena)
    for tenth in range(20):
        counts = arena.spill_files.counts
        begun = (counts.n_bytes_read, counts.n_bytes_written) if tenth == 12 else begun
        first, last = tenth * WINDOW_US // 10, (tenth + 1) * WINDOW_US // 10
        times = [np.linspace(first + 1, last, rate // 10).astype(np.int64) for rate in rates]
        batches = {number: rows_of(number, own, n_distinct, rng) for number, own in enumerate(times)}
        bites = Bites(Bite(batches, last, {}), budget)
        for bite in bites:
            bites.see(sum(part.nbytes for part in join.parts([bite.arrivals[n] for n in range(3)], bite.clock)))
        held += [sum(log.n_disk_bytes for log in join.logs().values())] if tenth >= 12 else []
    counts = arena.spill_files.counts
    return float(np.mean(held)), (counts.n_bytes_read - begun[0]) / 0.8, (counts.n_bytes_written - begun[1]) / 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "rates", "n_distinct"),
    [(ONE_KEY, [10_000] * 3, 10_000), (TWO_KEYS, [10_000] * 3, 100_000), (ONE_KEY, [20_000, 1_000, 1_000], 10_000)],
    ids=["one key", "two keys", "two stay in memory"],
)
def test_bytes_are_right_within_a_factor_of_two(keys, rates: list[int], n_distinct: int, tmp_path: Path) -> None:
    """On disk and written; read within three."""
    has_key = np.array([[bool(key[number]) for key in keys] for number in range(3)])
    fanouts = tuple(
        tuple(None if i == j else rates[j] / (n_distinct if (has_key[i] & has_key[j]).any() else 1) for j in range(3))
        for i in range(3)
    )
    reach = tuple(tuple(0 if i == j else WINDOW_US - 1 for j in range(3)) for i in range(3))
    spec = MultiwayJoinSpec(("0", "1", "2"), keys, reach, fanouts=fanouts)
    schemas = [pa.schema([(f"{n}.k", pa.int64()), (f"{n}.j", pa.int64()), *SIGNED_FIELDS]) for n in range(3)]
    seen = count_run(MultiwayJoin(spec, *schemas), rates, n_distinct, tmp_path)
    probed = probed_keys(has_key)
    inputs = [ManyInput(rate, 1.0, ROW_BYTES, int(own.sum()), len(by)) for rate, own, by in zip(rates, has_key, probed)]
    load = ManyLoad(inputs, fanouts, probe_orders(has_key, fanouts), 0.1)
    found = estimate_multiway_spill(load, SHARES)
    told = [each / counted for each, counted in zip((found.disk_bytes, found.bytes_read, found.bytes_written), seen)]
    assert 1 / 2 < told[0] < 2, told
    assert 1 / 3 < told[1] < 3, told
    assert 1 / 2 < told[2] < 2, told


def test_nothing_is_read_or_written_if_windows_fit() -> None:
    inputs = [ManyInput(100, 1.0, ROW_BYTES, 1, 1)] * 3
    found = estimate_multiway_spill(ManyLoad(inputs, ((1.0,) * 3,) * 3, [[1, 2], [0, 2], [0, 1]], 0.1), SHARES)
    assert found.fits
    assert (found.bytes_read, found.bytes_written) == (0, 0)
