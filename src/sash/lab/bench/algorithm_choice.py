"""`sash bench algorithms`: is the algorithm that the planner chooses for a join of many streams the best one?

Sixty loads over joins of three and four streams, with and without keys and conditions, with streams that are equally
fast and with one that is slow, within windows of 10 milliseconds to 10 seconds. Under each of them the real operator
runs by every algorithm that has a chance, one after the other, with full windows. What counts is processor time per
tuple of the whole operator; the work that is counted stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sash.cost.choose_join import MARGIN, JoinPrices
from sash.cost.choose_multiway import choose_algorithm
from sash.cost.multiway_cost import PROBE, MultiwayLoad, combinations_per_s
from sash.embedded.multiway_calibration import ManyBed, algorithms_for, step_size
from sash.embedded.multiway_load import even_many_load
from sash.index.multiway_index import MultiwayCounts
from sash.lab.bench.stages import Stages

STREAMS = (3, 4)
SLOWER = (1, 1000)
"""How many times slower the last stream is."""
KEYS = (None, 100, 10_000)
WINDOWS_S = (0.01, 0.1, 1.0, 10.0)
RATES = (10_000, 500, 50, 5, 1)
MOST_HELD = 60_000
MOST_OUT = 40
"""Loads that put out more per tuple are left out: whoever finds them, putting them out is all the work."""
SHARES = (None, 0.1)
"""What passes a condition between neighbours, if there is one."""
N_ROUNDS = 2
QUICK = 10
"""Of how many loads `--quick` takes one."""


@dataclass(frozen=True, slots=True)
class ManyCell:
    """What was chosen for a load and what would have been best, in nanoseconds per tuple."""

    load: MultiwayLoad
    chosen: str
    best: str
    measured: dict[str, float]
    counted: dict[str, tuple[float, ...]]
    """The work per tuple, in the order of `MultiwayCounts`."""

    @property
    def ratio(self) -> float:
        """How many times longer than the best algorithm the chosen one takes."""
        return self.measured[self.chosen] / self.measured[self.best]

    @property
    def gain(self) -> float:
        """How many times longer probes take than the chosen one."""
        return self.measured.get(PROBE, 0.0) / self.measured[self.chosen]

    def facts(self) -> dict[str, Any]:
        return {
            "rates": list(self.load.rates),
            "window_s": max(map(max, self.load.reach_s)),
            "is_local": not self.load.has_one_window,
            "keys": round(1 / self.load.matches[0]) if self.load.matches else None,
            "has_conditions": bool(self.load.conditions),
            "chosen": self.chosen,
            "best": self.best,
            "ratio": self.ratio,
            "gain": self.gain,
            "ns_per_tuple": self.measured,
            "work_per_tuple": {
                name: dict(zip(MultiwayCounts._fields, counts, strict=True)) for name, counts in self.counted.items()
            },
        }


def many_grid() -> list[MultiwayLoad]:
    """The loads: of each combination of streams, slowness, keys and window the fastest that is not too much. Every
    other one has conditions; without keys there are both. Every third has windows of pairs.
    """
    found: list[MultiwayLoad] = []
    for number, (n_streams, slow, keys, window_s) in enumerate(product(STREAMS, SLOWER, KEYS, WINDOWS_S)):
        for place, share in enumerate(SHARES):
            if keys is not None and (number + number // len(WINDOWS_S)) % 2 != place:
                continue
            is_local = (number + place) % 3 == 2
            loads = (even_many_load(n_streams, rate, window_s, keys, slow, share, is_local) for rate in RATES)
            found += [load for load in loads if _is_feasible(load)][:1]
    return found


def bench_algorithms(
    loads: Sequence[MultiwayLoad], prices: JoinPrices, n_tuples: int, stages: Stages
) -> list[ManyCell]:
    """Measures all algorithms under every load."""
    cells = []
    with stages.stage("measuring every algorithm", len(loads)) as note:
        for number, load in enumerate(loads):
            cells.append(measure_many_cell(load, prices, n_tuples))
            note(number + 1)
    return cells


def measure_many_cell(load: MultiwayLoad, prices: JoinPrices, n_tuples: int) -> ManyCell:
    """What the planner chooses for a load, and what every algorithm takes. Rounds alternate, so that a busy moment of
    the machine spoils one of them only.
    """
    bed, measured, counted = ManyBed(load), dict[str, float](), dict[str, tuple[float, ...]]()
    chosen = choose_algorithm(replace(load, step_s=n_tuples / sum(load.rates)), prices).algorithm
    names = list(dict.fromkeys([chosen, PROBE, *algorithms_for(load)]))
    sizes = {name: step_size(name, load, n_tuples) for name in names}
    for _ in range(N_ROUNDS):
        for name in names:
            ns = bed.measure(name, sizes[name])
            measured[name] = min(ns, measured.get(name, ns))
    for name in names:
        counted[name] = bed.count(name, sizes[name])
    return ManyCell(load, chosen, min(measured, key=lambda name: measured[name]), measured, counted)


def algorithm_facts(cells: Sequence[ManyCell], prices: JoinPrices) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "benchmark": "algorithms",
        "prices": prices.origin,
        "within": MARGIN,
        "good": sum(cell.ratio <= MARGIN for cell in cells),
        "worst": max(cell.ratio for cell in cells),
        "cells": [cell.facts() for cell in cells],
    }


def _is_feasible(load: MultiwayLoad) -> bool:
    n_held = sum(rate * max(line) for rate, line in zip(load.rates, load.reach_s))
    return 1 <= n_held <= MOST_HELD and combinations_per_s(load, range(load.n_inputs)) <= MOST_OUT * sum(load.rates)
