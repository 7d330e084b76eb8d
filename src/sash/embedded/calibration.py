"""`sash calibrate`: what the units of the join cost model cost on this machine.

The real operator runs under synthetic loads by every method, and counts its work. Prices are those with which the work
explains the processor time best: least squares of relative errors, no price below zero. A step's own cost, which is the
same for all methods, is fitted beside them and left out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from time import process_time_ns
from typing import Any

import numpy as np

from sash.cost.choose_join import SHIPPED, AlgorithmPrices, JoinPrices, estimate, far_touches
from sash.cost.disk_prices import DiskPrices
from sash.cost.join_cost import HASH, OPTIMAL, PROBE, PROBE_INSERT, WHJ, WNL, JoinCosts, JoinLoad, JoinMethod, JoinWork
from sash.cost.multiway_prices import MultiwayPrices
from sash.embedded.join_load import LoadStreams, even_load, load_schema, load_spec, n_window_tuples
from sash.operators.window_join import WindowJoin
from sash.store.block_window import CUTS, MAX_CUTS_PER_BATCH

UNITS = ("scan", "insert", "invalidate", "check", "output", "far insert", "far output", "step", "block")
"""What prices are fitted for. The last two, a step and a block of its log, are the same for all methods."""
STEP_TUPLES = 16_384
N_REPEATS = 2
N_ROUNDS = 2
"""Rounds alternate between methods, so that a busy moment of the machine spoils one of them only."""
N_FITS = 10
LITTLE_ERROR = 0.05
NS_PER_SAMPLE = 30_000_000

Note = Callable[[int, int], None]
"""Called with how many of how many measurements are done."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The work of a step, in units of the model, and the nanoseconds that it took."""

    method: JoinMethod
    n_tuples: int
    work: tuple[float, ...]
    ns: float

    @property
    def ns_per_tuple(self) -> float:
        return self.ns / max(1, self.n_tuples)


@dataclass(frozen=True, slots=True)
class Fit:
    """Prices of an algorithm's units, and by how much they miss what was measured."""

    prices: AlgorithmPrices
    step_ns: float
    block_ns: float
    n_samples: int
    mean_error: float
    worst_error: float

    @property
    def unit_prices(self) -> tuple[float, ...]:
        """In the order of `UNITS`."""
        return (
            *astuple(self.prices.costs),
            self.prices.far_insert,
            self.prices.far_output,
            self.step_ns,
            self.block_ns,
        )


class JoinBed:
    """A join under a load, its windows full, that can be measured by one method after the other."""

    def __init__(self, load: JoinLoad, is_full: bool = True):
        self.load = load
        self.join = WindowJoin(load_spec(load), load_schema(0), load_schema(1))
        self._streams = LoadStreams(load)
        while is_full and self._streams.clock_us < 1e6 * max(load.windows_s):
            self.join.process(*self._streams.step(min(4 * STEP_TUPLES, n_window_tuples(load) // 4 + 1)))

    def measure(self, method: JoinMethod, n_tuples: int) -> Sample:
        """A step of about so many tuples by a method: of several, the quickest for its size."""
        self.join.adopt(method)
        self.join.process(*self._streams.step(n_tuples))
        return min((self._sample(method, n_tuples) for _ in range(N_REPEATS)), key=lambda sample: sample.ns_per_tuple)

    def _sample(self, method: JoinMethod, n_tuples: int) -> Sample:
        batches, clock = self._streams.step(n_tuples)
        before = self.join.counts
        gc.disable()
        started = process_time_ns()
        self.join.process(batches, clock)
        ns = process_time_ns() - started
        gc.enable()
        done = [after - was for after, was in zip(self.join.counts, before)]
        n_held = sum(log.n_rows for log in self.join.logs().values())
        far = far_touches(method, n_held, JoinWork(*done))
        n_tuples = sum(batch.num_rows for batch in batches)
        return Sample(method, n_tuples, (*done, *far, 1.0, _n_blocks(self.load, n_tuples)), ns)


def calibrate(note: Note = lambda done, total: None) -> dict[str, Fit]:
    """Measures every algorithm, and fits the prices of both kinds of index."""
    planned = list(_beds())
    n_done, n_total = 0, N_ROUNDS * sum(len(methods) for _, _, methods in planned)
    samples: list[Sample] = []
    for load, is_full, methods in planned:
        found: list[list[Sample]] = []
        bed = JoinBed(load, is_full)
        for _ in range(N_ROUNDS):
            found.append([])
            for method in methods:
                found[-1] += [bed.measure(method, n_tuples) for n_tuples in _step_sizes(method, load)]
                n_done += 1
                note(n_done, n_total)
        samples += [min(rounds, key=lambda sample: sample.ns_per_tuple) for rounds in zip(*found)]
    return {
        "hash": fit([each for each in samples if each.method.algorithm == HASH]),
        "buckets": fit([each for each in samples if each.method.algorithm != HASH]),
    }


def fitted_prices(fits: dict[str, Fit], disk: DiskPrices, multiway: MultiwayPrices) -> JoinPrices:
    """The prices of all algorithms, and of the disk."""
    return JoinPrices(fits["hash"].prices, fits["buckets"].prices, "measured on this machine", disk, multiway)


def fit_facts(fits: dict[str, Fit]) -> dict[str, Any]:
    """How the prices were found, to be kept beside them."""
    return {
        "fit": {
            name: {"samples": each.n_samples, "mean_error": each.mean_error, "worst_error": each.worst_error}
            for name, each in fits.items()
        }
    }


def fit(samples: Sequence[Sample]) -> Fit:
    """Prices that are not negative, and that miss the measured times by as little as possible, relatively."""
    work = np.array([each.work for each in samples], float)
    ns = np.array([each.ns for each in samples], float)
    relative = work / ns[:, None]
    found = least_squares(relative, np.ones(len(ns)))
    for _ in range(N_FITS):
        # A moment at which the machine was busy must not count as much as all the others.
        weights = 1 / np.sqrt(np.maximum(np.abs(relative @ found - 1), LITTLE_ERROR))
        found = least_squares(relative * weights[:, None], weights)
    errors = np.abs(relative @ found - 1)
    *costs, far_insert, far_output, step_ns, block_ns = found.tolist()
    prices = AlgorithmPrices(JoinCosts(*costs), far_insert, far_output)
    return Fit(prices, step_ns, block_ns, len(samples), float(errors.mean()), float(errors.max()))


def least_squares(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The x ≥ 0 for which matrix · x is near the target: the worst negative is held at 0, until there is none."""
    kept = [column for column in range(matrix.shape[1]) if matrix[:, column].any()]
    while True:
        scale = np.linalg.norm(matrix[:, kept], axis=0)
        found = np.linalg.lstsq(matrix[:, kept] / scale, target, rcond=None)[0] / scale
        if found.min(initial=0.0) >= 0:
            break
        del kept[int(np.argmin(found * scale))]
    prices = np.zeros(matrix.shape[1])
    prices[kept] = found
    return prices


def _beds() -> Iterator[tuple[JoinLoad, bool, list[JoinMethod]]]:
    """Loads, whether windows are full, and the methods that are measured under them.

    Windows that fill tell insertions from invalidations, small keys tell outputs, and `optimal` tells checks.
    """
    hash_, wnl = JoinMethod(HASH), JoinMethod(WNL, 1, PROBE_INSERT)
    few, some, many = (JoinMethod(WHJ, n_buckets, PROBE_INSERT) for n_buckets in (64, 1024, 16384))
    lazy, greedy = JoinMethod(WHJ, 64, PROBE), JoinMethod(WHJ, 16, OPTIMAL)
    yield even_load(100_000, 1, 50, 10_000), True, [hash_, few, some, wnl]
    yield even_load(100_000, 1, 1_000, 10_000), True, [hash_, few, many, lazy, greedy, wnl]
    yield even_load(100_000, 1, 10_000, 10_000), True, [hash_, some, many, lazy, wnl]
    yield even_load(100_000, 1, 100_000, 100_000), True, [hash_, some, many]
    yield even_load(100_000, 1, 2_000, 100), True, [hash_, few, many, wnl]
    yield even_load(100_000, 1, 200, 10), True, [hash_, few, wnl]
    yield even_load(100_000, 1, 5, 20), True, [hash_, few, wnl]
    yield even_load(100_000, 1, 20_000, 1_000), True, [hash_, few, some]
    yield even_load(100_000, 1, 100_000, 10_000), True, [hash_, many]
    yield even_load(100_000, 20, 5_000, 1_000), True, [hash_, some, wnl]
    yield even_load(100_000, 1, 10_000_000, 10_000_000), False, [hash_, some, many, wnl]


def _n_blocks(load: JoinLoad, n_tuples: int) -> float:
    """Into how many blocks the tuples of a step are cut, of both sides."""
    step_s = n_tuples / sum(load.rates)
    return sum(min(MAX_CUTS_PER_BATCH, 1 + CUTS * step_s / window_s) for window_s in load.windows_s)


def _step_sizes(method: JoinMethod, load: JoinLoad) -> list[int]:
    """Steps of some thousand tuples, shorter where nested loops would take for ever; two sizes tell a step's cost."""
    ns_per_tuple = estimate(method, load, SHIPPED, STEP_TUPLES / sum(load.rates)).ns / sum(load.rates)
    n_most = int(min(STEP_TUPLES, max(64, NS_PER_SAMPLE / ns_per_tuple)))
    return [n_most, max(16, n_most // 4)]
