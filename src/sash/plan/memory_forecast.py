"""What a plan keeps under a limit on memory, operator by operator, and how much of it will be on disk.

    joins of streams        segments, whose reads and writes are estimated; see `cost/spill_cost.py` and, of many,
                            `cost/multiway_spill.py`; but a join of many by an algorithm of a paper is as all others
    traces                  segments as well, see `cost/trace_spill.py`; what is kept by key is in mapped files
    rows that wait, ROWS n  segments, written and read once
    all others              mapped files: the part of what they keep for which there is no room

Who keeps little stays in memory. Of the others, mapped files take all that they keep, as a vector is in memory or in a
file, whole; those with segments share equally what is left. Nothing is said of what nobody knows the rates of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sash.cost.choose_join import JoinPrices
from sash.cost.exact_cost import ExactEstimate, estimate_exact
from sash.cost.join_cost import EXACT_SETTINGS
from sash.cost.lookup_cost import relation_room
from sash.cost.multiway_spill import ManyLoad, estimate_multiway_spill
from sash.cost.prices import load_prices
from sash.cost.spill_cost import MemoryShares, SpillEstimate, estimate_spill
from sash.cost.trace_spill import estimate_trace_spill
from sash.operators.reorder import ReorderSpec
from sash.operators.window_join import WindowJoinSpec
from sash.plan.keepers import Keeper, TieredJoin, keepers_of
from sash.plan.lookup_forecast import LookupForecast, forecast_lookups
from sash.plan.physical import Plan
from sash.store.memory_budget import MemoryBudget


@dataclass(frozen=True, slots=True)
class KeeperForecast:
    """What is expected of an operator that keeps rows."""

    keeper: Keeper
    disk_bytes: float | None
    """None if nobody knows."""
    spill: SpillEstimate | None = None
    exact: ExactEstimate | None = None
    """Of a method that has a disk of its own."""


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """What is expected of all that runs under one limit."""

    n_bytes: int
    directory: Path
    prices: JoinPrices
    of_specs: Mapping[int, KeeperForecast]
    """By the `id` of specs."""
    is_of_each_machine: bool = False
    """Whether the limit is for each of several machines."""
    lookups: Mapping[int, LookupForecast] = field(default_factory=dict[int, LookupForecast])
    """By the `id` of specs, how joins look up in relations."""

    @property
    def keepers(self) -> list[KeeperForecast]:
        return list(self.of_specs.values())


def forecast_memory(
    plans: Iterable[Plan],
    budget: MemoryBudget,
    frames: Mapping[str, pa.Table] | None = None,
    n_copies: int = 1,
) -> MemoryForecast:
    """Of plans that share a limit. Streams that are there as tables are looked at for what is not declared, and
    relations for how large they are; `n_copies` processes would have each of these in memory.
    """
    plans = list(plans)
    keepers = [keeper for plan in plans for keeper in keepers_of(plan, frames or {})]
    room = _room_for_large(keepers, budget.state_bytes)
    prices = load_prices()
    looks_at_once = all(isinstance(each.join, TieredJoin) or isinstance(each.spec, ReorderSpec) for each in keepers)
    found = {id(each.spec): _forecast(each, budget, room, prices, looks_at_once) for each in keepers}
    lookups = forecast_lookups(plans, frames or {}, relation_room(budget.state_bytes), n_copies)
    return MemoryForecast(budget.n_bytes, budget.spill, prices, found, lookups=lookups)


def _room_for_large(keepers: Sequence[Keeper], room: float) -> float:
    """Who keeps less than an equal share has it; what is left is for those of the others with segments, equally."""
    known = sorted((each for each in keepers if each.kept_bytes is not None), key=lambda each: each.kept_bytes or 0.0)
    for number, keeper in enumerate(known):
        kept = keeper.kept_bytes or 0.0
        if kept > room / (len(known) - number):
            return room / max(1, sum(each.is_tiered for each in known[number:]))
        room -= kept
    return room + (known[-1].kept_bytes or 0.0 if known else 0.0)


def _forecast(
    keeper: Keeper, budget: MemoryBudget, room: float, prices: JoinPrices, looks_at_once: bool
) -> KeeperForecast:
    """Of an operator that has so much room if it keeps more than others. `looks_at_once`: whether joins look into
    segments for more tuples at once than find room; others keep all of a step at once.
    """
    if keeper.kept_bytes is None:
        return KeeperForecast(keeper, None)
    if keeper.traces:
        is_read = not getattr(keeper.spec, "expires_by_negatives", False)
        spill = estimate_trace_spill(keeper.traces, room, is_read)
        return KeeperForecast(keeper, spill.disk_bytes, spill)
    if keeper.join is None:
        return KeeperForecast(keeper, 0.0 if keeper.kept_bytes <= room else keeper.kept_bytes)
    shares = MemoryShares(room, budget.step_bytes, budget.disk_bytes)
    if isinstance(keeper.join, ManyLoad):
        found = estimate_multiway_spill(keeper.join, shares)
        return KeeperForecast(keeper, found.disk_bytes, found)
    load, widths, step_s = keeper.join
    spill = estimate_spill(load, widths, step_s, shares, looks_at_once)
    exact = None
    if isinstance(keeper.spec, WindowJoinSpec) and keeper.spec.method.algorithm in EXACT_SETTINGS:
        exact = estimate_exact(keeper.spec.method, load, step_s, prices.disk.model)
    return KeeperForecast(keeper, spill.disk_bytes, spill, exact)
