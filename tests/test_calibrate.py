"""`sash calibrate` finds the prices with which work explains time, and keeps them for the planner."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from sash.cli.main import main
from sash.cost.choose_join import SHIPPED
from sash.cost.disk_prices import SHIPPED_DISK
from sash.cost.join_cost import HASH, WHJ, WNL, JoinMethod, JoinWork, total_work
from sash.cost.prices import load_prices
from sash.embedded import calibration, disk_calibration, multiway_calibration
from sash.embedded.calibration import UNITS, JoinBed, Sample, fit, least_squares
from sash.embedded.disk_calibration import measure_disk
from sash.embedded.join_load import even_load
from sash.embedded.multiway_calibration import ManySample, fit_multiway
from sash.embedded.multiway_load import even_many_load
from sash.store.spill_files import PAGE_BYTES, SpillFiles

PRICES = np.array([20.0, 100.0, 30.0, 50.0, 40.0, 80.0, 30.0, 50.0, 20.0])
"""In the order of the units."""


def made_up(n_samples: int, noise: float) -> list[Sample]:
    """Samples whose time follows from the prices; a third of them was taken at a busy moment."""
    rng = np.random.default_rng(7)
    samples = []
    for number in range(n_samples):
        work = rng.integers(1, 10_000, len(UNITS)).astype(float)
        slowdown = 1 + noise * (number % 3 == 0)
        samples.append(Sample(JoinMethod(HASH), 1000, tuple(work), float(work @ PRICES) * slowdown))
    return samples


def test_prices_are_found_again() -> None:
    found = fit(made_up(60, noise=0.0))
    assert found.unit_prices == pytest.approx(PRICES, rel=1e-6)
    assert found.worst_error < 1e-6


def test_busy_moments_count_little() -> None:
    found = fit(made_up(90, noise=0.5))
    assert found.prices.costs.insert == pytest.approx(100, rel=0.1)
    assert found.worst_error == pytest.approx(1 / 3, abs=0.05)


def test_no_price_is_negative() -> None:
    matrix = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    assert least_squares(matrix, np.array([3.0, 2.0, 1.0])).min() >= 0


@pytest.mark.parametrize("method", [JoinMethod(HASH), JoinMethod(WHJ, 8), JoinMethod(WNL)])
def test_a_bed_does_the_work_that_the_model_expects(method: JoinMethod) -> None:
    load = even_load(1000, 4, 500, 50)
    sample = JoinBed(load).measure(method, 400)
    expected = total_work(method, load).times(sample.n_tuples / sum(load.rates))
    seen = JoinWork(*sample.work[:5])
    assert sample.n_tuples == pytest.approx(400, abs=2)
    assert seen.insertions == sample.n_tuples
    assert seen.outputs == pytest.approx(expected.outputs, rel=0.2)
    if method.algorithm != HASH:
        assert seen.scans == pytest.approx(expected.scans, rel=0.2)


def test_prices_of_joins_of_many_are_found_again() -> None:
    rng, wanted = np.random.default_rng(3), SHIPPED.multiway.merge
    samples = []
    for number in range(60):
        work = rng.integers(1, 1_000, 9).astype(float)
        ns = float(work @ np.array(astuple(wanted))) + 700 * (number % 4)
        samples.append(ManySample("merge", tuple(work), 0.0, number % 4, ns))
    found = fit_multiway(samples)
    assert astuple(found.merge) == pytest.approx(astuple(wanted), rel=1e-3, abs=0.05)
    assert found.probes == SHIPPED.multiway.probes, "nothing was measured of them"


@pytest.mark.slow
def test_the_command_keeps_what_it_finds(tmp_path: Path, monkeypatch, capsys) -> None:
    load = even_load(1000, 1, 50, 10)
    methods = [JoinMethod(HASH), JoinMethod(WNL), JoinMethod(WHJ, 4)]
    monkeypatch.setattr(calibration, "_beds", lambda: iter([(load, True, methods)]))
    monkeypatch.setattr(calibration, "STEP_TUPLES", 256)
    monkeypatch.setattr(multiway_calibration, "_loads", lambda: iter([even_many_load(3, 1_000, 0.05, 50)]))
    monkeypatch.setattr(multiway_calibration, "STEP_ROWS", 512)
    monkeypatch.setenv("SASH_SPILL", str(tmp_path / "spill"))
    monkeypatch.setenv("SASH_COSTS", str(tmp_path / "costs.json"))
    monkeypatch.setattr(sys, "argv", ["sash", "calibrate"])
    main()
    printed = capsys.readouterr().out.replace("\n", "")
    assert f"kept in {tmp_path / 'costs.json'}" in printed
    assert "directory" in printed
    assert str(tmp_path) in load_prices().origin
    assert load_prices().disk != SHIPPED_DISK
    assert load_prices().multiway != SHIPPED.multiway
    monkeypatch.setattr(sys, "argv", ["sash", "calibrate", "--json"])
    main()
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "costs.json").read_text())
    assert set(told) == {"format", "sash", "fit", "nanoseconds", "disk_seconds", "multiway_nanoseconds"}


class _Ticks:
    """Half a second goes by between one look at the clock and the next."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


def test_what_a_disk_takes_is_shared_among_bytes_and_accesses(tmp_path: Path) -> None:
    """64 pages in order take as long as the 8 far ones: what those take beyond their share are accesses."""
    prices = measure_disk(tmp_path, 64, _Ticks())
    assert prices.write == prices.read == 0.5 / (64 * PAGE_BYTES)
    assert prices.access == pytest.approx(0.5 / 8 - 0.5 / 64)
    assert list(tmp_path.iterdir()) == []


def test_pages_far_from_each_other_are_accesses_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SpillFiles] = []
    monkeypatch.setattr(SpillFiles, "close", lambda files: made.append(files))
    measure_disk(tmp_path, 64)
    (files,) = made
    n_in_order = 64 // files.settings.most_pages
    assert files.counts.n_reads == disk_calibration.N_ROUNDS * (n_in_order + 8)
    assert files.counts.n_bytes_written == disk_calibration.N_ROUNDS * 64 * PAGE_BYTES
