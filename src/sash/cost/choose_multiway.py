"""Which algorithm a join of many streams uses: the one whose work, at this machine's prices, takes the least time.

    time(algorithm) = Σ work(algorithm, load) · price

The work is the cost model's (`multiway_cost`). Probes are made for many tuples at a time, in turns, and conditions are
computed likewise: each time costs as much as thousands of comparisons, so that of algorithms that find little the one
is best that does so the most seldom. Prices are measured by `sash calibrate`.

Probes are what a join begins with, what it goes on with where memory is limited, and what it comes back to if nothing
is known: no other algorithm finds tuples on disk. Another one has to be better by more than `MARGIN`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

from sash.cost.choose_join import MARGIN, JoinPrices
from sash.cost.multiway_cost import HW, LCA, MW, NLW, PROBE, MultiwayLoad, MultiwayWork, multiway_work
from sash.cost.multiway_prices import MultiwayPrices

ALTERNATIVES = (PROBE, HW, MW, LCA, NLW)
"""The algorithms that are compared."""


@dataclass(frozen=True, slots=True)
class MultiwayEstimate:
    """What an algorithm is expected to do, and how long that takes, per second of stream time."""

    algorithm: str
    work: MultiwayWork
    ns: float


@dataclass(frozen=True, slots=True)
class MultiwayChoice:
    """An algorithm, and why it was chosen."""

    algorithm: str
    prices: JoinPrices
    load: MultiwayLoad | None = None
    """What the choice is for; None if nobody knows."""
    is_hinted: bool = False
    estimates: tuple[MultiwayEstimate, ...] = ()
    """Of the algorithm, and of the others, cheapest first."""
    is_limited: bool = False
    """Whether probes are all there is, as memory is limited."""

    def under_limit(self) -> MultiwayChoice:
        """What becomes of it where memory is limited: no other algorithm finds tuples on disk."""
        return MultiwayChoice(PROBE, self.prices, is_limited=True)


def choose_algorithm(load: MultiwayLoad | None, prices: JoinPrices, hint: str | None = None) -> MultiwayChoice:
    """The algorithm of the hint; else the cheapest one, or `probe` if it is hardly dearer or the load is not known."""
    if load is None or hint is not None:
        return MultiwayChoice(hint or PROBE, prices, None, hint is not None)
    found = sorted(estimates_of(load, prices.multiway), key=lambda each: each.ns)
    name = found[0].algorithm if is_algorithm_outrun(PROBE, load, prices.multiway) else PROBE
    own = next(each for each in found if each.algorithm == name)
    return MultiwayChoice(name, prices, load, False, (own, *(each for each in found if each is not own)))


def is_algorithm_outrun(algorithm: str, load: MultiwayLoad, prices: MultiwayPrices) -> bool:
    """Whether another algorithm would serve the load better by more than the margin."""
    own = estimate_multiway(algorithm, load, prices).ns
    return any(own > MARGIN * each.ns for each in estimates_of(load, prices))


def estimates_of(load: MultiwayLoad, prices: MultiwayPrices) -> Iterator[MultiwayEstimate]:
    """Of every algorithm; with one window for all pairs, LCA is MW-join."""
    for algorithm in ALTERNATIVES:
        if algorithm != LCA or not load.has_one_window:
            yield estimate_multiway(algorithm, load, prices)


def estimate_multiway(algorithm: str, load: MultiwayLoad, prices: MultiwayPrices) -> MultiwayEstimate:
    """The work of an algorithm under a load, and its price."""
    work = multiway_work(algorithm, load)
    costs = astuple(getattr(prices, price_list(algorithm, load)))
    return MultiwayEstimate(algorithm, work, sum(units * ns for units, ns in zip(astuple(work), costs, strict=True)))


def price_list(algorithm: str, load: MultiwayLoad) -> str:
    """The name of the prices by which an algorithm's work is paid."""
    if algorithm == PROBE:
        return "product" if load.is_product else "probes"
    return {MW: "merge", LCA: "merge", HW: "hashed", NLW: "nested"}[algorithm]
