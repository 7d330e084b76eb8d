"""What EXPLAIN says of why a join of many streams finds its combinations by one algorithm and not by another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sash.cost.choose_multiway import MultiwayChoice, MultiwayEstimate
from sash.cost.multiway_cost import LCA, MW, MultiwayLoad, MultiwayWork
from sash.plan.explain.describe_join import count_text
from sash.plan.query_plan import MULTIWAY_ALGORITHMS

Fact = tuple[str, str]
UNTOLD = ("probes", "turns", "calls", "far")
"""Units of work that say something to the model alone."""


def choice_facts(choice: MultiwayChoice, names: Sequence[str]) -> list[Fact]:
    """The load that a choice was made for, what it is expected to cost, and what the others would."""
    assert choice.load is not None
    chosen, *others = choice.estimates
    return [
        ("chosen", f"by cost; for {load_text(choice.load, names)}"),
        ("estimate", f"{_time(chosen, choice.load)} of CPU per tuple: {_work_text(chosen.work, choice.load)}"),
        ("others", "; ".join(f"{each.algorithm} {_time(each, choice.load)}" for each in others)),
        ("prices", choice.prices.origin),
    ]


def algorithm_text(choice: MultiwayChoice) -> str:
    """An algorithm in words."""
    refined = choice.load is not None and not choice.load.has_one_window and choice.algorithm in (MW, LCA)
    inside = "; what it finds is checked against the windows of all pairs" if refined else ""
    return f"{MULTIWAY_ALGORITHMS[choice.algorithm]}{inside}"


def short_choice(choice: MultiwayChoice | None) -> str:
    """Which algorithm, and by what it is better than the next best one, in a few words; nothing if nobody knows."""
    if choice is None or choice.load is None or len(choice.estimates) < 2:
        return ""
    chosen, next_best = choice.estimates[:2]
    each_us = [each.ns / 1e3 / sum(choice.load.rates) for each in (chosen, next_best)]
    cost, other = (f"{us:.2g}" if us < 100 else f"{us:,.0f}" for us in each_us)
    return f"by {chosen.algorithm} ({cost} µs, {next_best.algorithm} {other})"


def load_text(load: MultiwayLoad, names: Sequence[str]) -> str:
    """Rates, keys, and which share of what is met passes conditions."""
    rates = ", ".join(f"{name} {count_text(rate)}" for name, rate in zip(names, load.rates, strict=True))
    keys = ", ".join(count_text(1 / match) if match else "no equal" for match in load.matches)
    told = [f"{rates} tuples per second", f"{keys} keys" if keys else "no key"]
    told += (
        ["; ".join(f"a condition that {each.share:.0%} pass" for each in load.conditions)] if load.conditions else []
    )
    told += [f"{count_text(load.step_s)} seconds at a time"] if load.step_s else []
    return "; ".join(told)


def _work_text(work: MultiwayWork, load: MultiwayLoad) -> str:
    """Per tuple."""
    counts = {name: count for name, count in asdict(work.times(1 / sum(load.rates))).items() if name not in UNTOLD}
    return ", ".join(f"{count_text(count)} {name}" for name, count in counts.items() if count)


def _time(estimate: MultiwayEstimate, load: MultiwayLoad) -> str:
    """Per tuple."""
    return f"{count_text(estimate.ns / 1e3 / sum(load.rates))} µs"
