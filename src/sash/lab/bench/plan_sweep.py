"""Whether what a tuple costs follows its changes, and not how many tuples or groups there are.

window    longer windows, and as many more items, so that a tuple meets as many others and makes as many changes
groups    more items in the same window, where every tuple changes the one group it is in
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sash.lab.bench.plan_costs import PlanBench, bench_plans
from sash.lab.bench.stages import Stages

COMPARED = ("cpu_us_per_tuple", "changes_per_tuple", "state_bytes_per_tuple")
GROUPED = "q4"


def sweep_window(benches: Sequence[PlanBench], factors: Sequence[int], stages: Stages) -> list[dict[str, Any]]:
    """Every query with the window of its bench divided by the largest factor, and with its multiples."""
    swept = []
    for bench in benches:
        base_us = bench.window_us // max(factors)
        steps = [replace(bench, window_us=base_us * factor) for factor in factors]
        swept += _compare("window", steps, factors, stages)
    return swept


def sweep_groups(bench: PlanBench, factors: Sequence[int], stages: Stages) -> list[dict[str, Any]]:
    """The query that groups by item, with the number of items of its bench divided by the largest factor, and so on."""
    grouped = replace(bench, query=GROUPED)
    base = max(1, grouped.retail.items // max(factors))
    return _compare("groups", [replace(grouped, n_items=base * factor) for factor in factors], factors, stages)


def _compare(kind: str, benches: Sequence[PlanBench], factors: Sequence[int], stages: Stages) -> list[dict[str, Any]]:
    """Each step, with its figures as multiples of the first one's."""
    told = [measured.facts() for measured in bench_plans(benches, stages)]
    first = told[0]
    return [
        {
            "sweep": kind,
            "query": bench.query,
            "factor": factor,
            **{name: each[name] for name in COMPARED},
            "ratios": {name: each[name] / first[name] for name in COMPARED if first[name]},
        }
        for bench, factor, each in zip(benches, factors, told)
    ]
