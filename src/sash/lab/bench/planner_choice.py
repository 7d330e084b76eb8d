"""`sash bench planner`: is the method that the planner chooses for a window join the best one?

Fifty loads, from a few tuples in the window to hundreds of thousands. Under each of them the real operator runs by
every method that the planner considers and that has a chance, one after the other, with full windows. What counts is
processor time per tuple of the whole operator, the least of several rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from sash.cost.choose_join import MARGIN, JoinPrices, candidates, choose_method, estimate
from sash.cost.join_cost import JoinLoad, JoinMethod
from sash.embedded.calibration import JoinBed
from sash.embedded.join_load import even_load
from sash.lab.bench.stages import Stages
from sash.plan.explain.describe_join import method_name

RATES = (10, 100, 1_000, 10_000, 100_000)
WINDOWS_S = (1, 10)
RATIOS = (1, 20)
DISTINCT = (10, 1_000, 100_000)
MOST_MATCHES = 500
"""Loads with more pairs per tuple are left out: whoever finds them, putting them out is all the work."""
STEP_TUPLES = 4096
BUDGET_NS = 20_000_000
"""How long a round of a method takes, by its estimate; a method that would take longer gets fewer tuples."""
HOPELESS = 8
"""A method that should take so many times as long as the best one is not run."""
N_ROUNDS = 2
N_FINALISTS = 3
N_FINAL_ROUNDS = 8
"""The best ones and the planner's choice run again, so that luck does not make the best."""
QUICK = 10
"""Of how many loads `--quick` takes one."""


@dataclass(frozen=True, slots=True)
class GridLoad:
    """A load of the grid."""

    rate: float
    """Tuples per second of a side, in the mean of both."""
    ratio: float
    window_s: float
    n_distinct: int

    @property
    def load(self) -> JoinLoad:
        return even_load(self.rate, self.ratio, self.rate * self.window_s, self.n_distinct)


@dataclass(frozen=True, slots=True)
class Cell:
    """What was chosen for a load and what would have been best, in nanoseconds per tuple."""

    workload: GridLoad
    chosen: JoinMethod
    best: JoinMethod
    measured: dict[JoinMethod, float]

    @property
    def ratio(self) -> float:
        """How many times longer than the best method the chosen one takes."""
        return self.measured[self.chosen] / self.measured[self.best]

    @property
    def is_good(self) -> bool:
        return self.ratio <= MARGIN

    def facts(self) -> dict[str, Any]:
        return {
            "workload": asdict(self.workload),
            "chosen": method_name(self.chosen),
            "chosen_ns": self.measured[self.chosen],
            "best": method_name(self.best),
            "best_ns": self.measured[self.best],
            "ratio": self.ratio,
            "ns_per_tuple": {method_name(method): ns for method, ns in self.measured.items()},
        }


def grid() -> list[GridLoad]:
    """The loads, from small to large."""
    found = (
        GridLoad(rate, ratio, window_s, n_distinct)
        for rate, window_s, ratio, n_distinct in product(RATES, WINDOWS_S, RATIOS, DISTINCT)
    )
    bounded = [each for each in found if each.rate * each.window_s / each.n_distinct <= MOST_MATCHES]
    return [GridLoad(1, 1, 1, 10), *bounded, GridLoad(100_000, 1, 10, 10_000_000)]


def bench_planner(workloads: Sequence[GridLoad], prices: JoinPrices, stages: Stages) -> list[Cell]:
    """Measures all methods under every load."""
    cells = []
    with stages.stage("measuring every method", len(workloads)) as note:
        for number, workload in enumerate(workloads):
            cells.append(measure_cell(workload, prices))
            note(number + 1)
    return cells


def measure_cell(workload: GridLoad, prices: JoinPrices) -> Cell:
    """What the planner chooses for a load, and what every method takes."""
    load = workload.load
    step_s = STEP_TUPLES / sum(load.rates)
    chosen = choose_method(load, True, prices=prices, step_s=step_s).method
    estimates = {method: estimate(method, load, prices, step_s).ns / sum(load.rates) for method in methods_of(load)}
    race = _Race(JoinBed(load), estimates)
    race.run([method for method, ns in estimates.items() if ns <= HOPELESS * min(estimates.values())], N_ROUNDS)
    race.run({chosen, *race.first(N_FINALISTS)}, N_FINAL_ROUNDS)
    return Cell(workload, chosen, race.first(1)[0], race.measured)


def methods_of(load: JoinLoad) -> list[JoinMethod]:
    """All that the planner considers."""
    return list(candidates(load, True))


def planner_facts(cells: Sequence[Cell], prices: JoinPrices) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "benchmark": "planner",
        "prices": prices.origin,
        "within": MARGIN,
        "good": sum(cell.is_good for cell in cells),
        "cells": [cell.facts() for cell in cells],
    }


class _Race:
    """Methods under one load. Rounds alternate, so that a busy moment of the machine spoils one of them only."""

    def __init__(self, bed: JoinBed, estimates: Mapping[JoinMethod, float]):
        self.measured: dict[JoinMethod, float] = {}
        """The least nanoseconds per tuple so far."""
        self._bed = bed
        self._estimates = estimates

    def run(self, methods: Collection[JoinMethod], n_rounds: int) -> None:
        for _ in range(n_rounds):
            for method in methods:
                n_tuples = int(min(STEP_TUPLES, max(256, BUDGET_NS / self._estimates[method])))
                ns = self._bed.measure(method, n_tuples).ns_per_tuple
                self.measured[method] = min(ns, self.measured.get(method, ns))

    def first(self, n_methods: int) -> list[JoinMethod]:
        """The fastest ones."""
        return sorted(self.measured, key=lambda method: self.measured[method])[:n_methods]
