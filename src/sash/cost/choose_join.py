"""Which method a window join uses: the one whose work, at this machine's prices, takes the least time.

    time(method) = Σ work(method, load) · price(algorithm)  +  Σ touches · price(algorithm) · log2(held / CACHED)

The work is the cost model's (`join_cost`). The last term is what it leaves out: a window that outgrows the caches makes
every touch of a random place in it dearer, and every tuple that is inserted and every pair that is put out is one.
Prices are measured by `sash calibrate`.

Tuples come in steps. `whj` and `wnl` take them in order of time and invalidate as they go. `hash` lets what has expired
go between steps, so that within one it also scans the step's own tuples; a step of many windows it takes in turns of a
window, or of some tuples, each of which costs something.

A method stays best while rates move a little. `range_of` says how far: until another one is better by more than
`MARGIN`, which is also when a running join changes its method. So two methods that cost the same never take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sash.cost.disk_prices import SHIPPED_DISK, DiskPrices
from sash.cost.join_cost import (
    BUCKETED,
    EXACT_SETTINGS,
    HASH,
    INVALIDATIONS,
    PROBE,
    PROBE_INSERT,
    WHJ,
    WNL,
    JoinCosts,
    JoinLoad,
    JoinMethod,
    JoinWork,
    buffered_tuples,
    cost_ns,
    total_work,
)
from sash.cost.multiway_prices import SHIPPED_MULTIWAY, MultiwayPrices
from sash.index.hash_index import MIN_ROWS_PER_TURN

MARGIN = 1.2
"""How many times dearer than the best method one may be before it is given up."""
FREE = 1.05
"""What so many times as much costs counts as equal: time against memory, and memory against time."""
TURN_NS = 25_000.0
"""What a turn of the hash index costs, whatever is in it."""
CACHED_TUPLES = 1 << 14
"""A window of so many tuples is taken to be in the caches."""
TUPLES_PER_BUCKET = 8
"""A bucket, of both sides, takes the room of so many tuples."""
BUCKETS = tuple(4**exponent for exponent in range(2, 10))
"""The numbers of buckets that are considered for WHJ."""
FACTORS = tuple(2.0**exponent for exponent in range(1, 15))
"""How far rates are moved to find where a choice ends."""


@dataclass(frozen=True, slots=True)
class AlgorithmPrices:
    """Nanoseconds for each unit of an algorithm's work, and what each doubling beyond the caches adds to some."""

    costs: JoinCosts
    far_insert: float = 0.0
    far_output: float = 0.0


@dataclass(frozen=True, slots=True)
class JoinPrices:
    """What the algorithms' work costs on a machine. WNL is WHJ with one bucket, so both have the same prices."""

    hash: AlgorithmPrices
    buckets: AlgorithmPrices
    origin: str = "shipped with Sash"
    """Where they are from, for EXPLAIN."""
    disk: DiskPrices = SHIPPED_DISK
    """Of what does not fit into memory."""
    multiway: MultiwayPrices = SHIPPED_MULTIWAY
    """Of joins of many streams."""

    def of(self, algorithm: str) -> AlgorithmPrices:
        return self.hash if algorithm == HASH else self.buckets


SHIPPED = JoinPrices(
    hash=AlgorithmPrices(JoinCosts(scan=0.5, insert=63.0, invalidate=91.0, check=0.0, output=76.0), 0.0, 17.0),
    buckets=AlgorithmPrices(JoinCosts(scan=0.44, insert=134.0, invalidate=29.0, check=3.8, output=45.0), 33.0, 12.0),
)
"""Measured on a small server."""


@dataclass(frozen=True, slots=True)
class MethodHint:
    """What a query asks for; what it leaves open is chosen."""

    algorithm: str | None = None
    n_buckets: int | None = None
    invalidation: str | None = None
    settings: tuple[tuple[str, float], ...] = ()
    """Of a method that keeps windows on disk; what is left out is as in the paper."""

    def allows(self, method: JoinMethod) -> bool:
        wanted = (self.algorithm, self.n_buckets, self.invalidation)
        got = (method.algorithm, method.n_buckets, method.invalidation)
        return all(want is None or want == has for want, has in zip(wanted, got))


NO_HINT = MethodHint()


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a method is expected to do, and how long that takes, per second of stream time."""

    method: JoinMethod
    work: JoinWork
    ns: float


@dataclass(frozen=True, slots=True)
class RateRange:
    """By which factors rates may move before another method is better by more than the margin; both ends exclusive.

    0 and infinity: however far they were moved, the method stayed good.
    """

    both: tuple[float, float]
    left: tuple[float, float]
    right: tuple[float, float]


@dataclass(frozen=True, slots=True)
class JoinChoice:
    """A method, and why it was chosen."""

    method: JoinMethod
    prices: JoinPrices
    has_keys: bool
    load: JoinLoad | None = None
    """What the choice is for; None if nobody knows."""
    step_s: float = 0.0
    """How many seconds of stream a step brings."""
    is_hinted: bool = False
    estimates: tuple[Estimate, ...] = ()
    """Of the method, and of the best method of every other algorithm, cheapest first."""


def choose_method(
    load: JoinLoad | None,
    has_keys: bool,
    hint: MethodHint = NO_HINT,
    prices: JoinPrices = SHIPPED,
    step_s: float = 0.0,
) -> JoinChoice:
    """The cheapest method that the hint allows; `hash`, which is never far off, if the load is not known.

    Without keys only WNL is possible.
    """
    is_hinted = hint != NO_HINT
    if load is None:
        return JoinChoice(_default(has_keys, hint), prices, has_keys, None, step_s, is_hinted)
    allowed = [method for method in candidates(load, has_keys, hint) if hint.allows(method)]
    chosen = _thriftiest([estimate(method, load, prices, step_s) for method in allowed], load)
    others = _best_of_others(load, has_keys, chosen.method.algorithm, prices, step_s)
    return JoinChoice(chosen.method, prices, has_keys, load, step_s, is_hinted, (chosen, *others))


def is_outrun(method: JoinMethod, load: JoinLoad, has_keys: bool, prices: JoinPrices, step_s: float = 0.0) -> bool:
    """Whether another method would serve the load better by more than the margin."""
    own = estimate(method, load, prices, step_s).ns
    return any(own > MARGIN * estimate(other, load, prices, step_s).ns for other in candidates(load, has_keys))


def estimate(method: JoinMethod, load: JoinLoad, prices: JoinPrices, step_s: float = 0.0) -> Estimate:
    """The work of a method under a load, and its price."""
    work, price = total_work(method, load), prices.of(method.algorithm)
    turns_ns = 0.0
    if method.algorithm == HASH:
        turn_s = max(*load.windows_s, MIN_ROWS_PER_TURN / sum(load.rates))
        turns_ns = TURN_NS / turn_s if step_s >= 2 * turn_s else 0.0
        own_scans = load.rates[0] * load.rates[1] * min(step_s, turn_s) * load.match_rate
        work = replace(work, scans=work.scans + own_scans)
    n_tuples = load.window_tuples(0) + load.window_tuples(1)
    far = far_touches(method, n_tuples, work)
    ns = cost_ns(work, price.costs) + far[0] * price.far_insert + far[1] * price.far_output + turns_ns
    return Estimate(method, work, ns)


def far_touches(method: JoinMethod, n_tuples: float, work: JoinWork) -> tuple[float, float]:
    """Insertions and outputs, each as often as what they touch has doubled since it left the caches.

    A tuple is put somewhere into the index, but for WNL, which puts it at the end. A pair fetches two tuples from
    somewhere in the windows, which hold `n_tuples`.
    """
    n_held = 0.0 if method.algorithm == WNL else n_tuples + TUPLES_PER_BUCKET * method.n_buckets
    return work.insertions * _doublings(n_held), work.outputs * _doublings(n_tuples)


def _doublings(n_held: float) -> float:
    return max(0.0, math.log2(max(n_held, 1.0) / CACHED_TUPLES))


def candidates(load: JoinLoad, has_keys: bool, hint: MethodHint = NO_HINT) -> Iterator[JoinMethod]:
    """The methods that are compared. Far more buckets than keys help nobody, but whoever asks for them gets them.

    A method that keeps windows on disk is one only for those who ask for it.
    """
    if hint.algorithm in EXACT_SETTINGS:
        yield _default(has_keys, hint)
        return
    if has_keys:
        yield JoinMethod(HASH)
        n_useful = 4 * min(load.n_distinct, max(load.window_tuples(0), load.window_tuples(1)))
        numbers = [n_buckets for n_buckets in BUCKETS if n_buckets <= n_useful] or BUCKETS[:1]
        for n_buckets in numbers if hint.n_buckets is None else (hint.n_buckets,):
            yield from (JoinMethod(WHJ, n_buckets, invalidation) for invalidation in INVALIDATIONS)
    # Of one bucket, all buckets are no more than the one.
    for invalidation in (PROBE, PROBE_INSERT) if hint.invalidation is None else (hint.invalidation,):
        yield JoinMethod(WNL, 1, invalidation)


def range_of(choice: JoinChoice) -> RateRange:
    """How far the rates may move, both together and each by itself, while the other one stays. The load is known."""
    load = choice.load
    assert load is not None

    def end(factors: tuple[float, ...], scaled: Callable[[float], JoinLoad], default: float) -> float:
        is_over = (
            is_outrun(choice.method, scaled(each), choice.has_keys, choice.prices, choice.step_s) for each in factors
        )
        return next((each for each, over in zip(factors, is_over) if over), default)

    def bounds(exponents: tuple[int, int]) -> tuple[float, float]:
        def scaled(factor: float) -> JoinLoad:
            rates = [rate * factor**exponent for rate, exponent in zip(load.rates, exponents)]
            return replace(load, rates=(rates[0], rates[1]))

        return end(tuple(1 / factor for factor in FACTORS), scaled, 0.0), end(FACTORS, scaled, math.inf)

    return RateRange(bounds((1, 1)), bounds((1, 0)), bounds((0, 1)))


def _thriftiest(found: list[Estimate], load: JoinLoad) -> Estimate:
    """Of all that cost hardly more than the cheapest, and of these all that hold hardly more than need be, the best."""

    def n_held(each: Estimate) -> float:
        return sum(buffered_tuples(each.method, load, side) for side in (0, 1)) + each.method.n_buckets

    enough = FREE * min(each.ns for each in found)
    cheap = [each for each in found if each.ns <= enough]
    least = FREE * min(map(n_held, cheap))
    return min((each for each in cheap if n_held(each) <= least), key=lambda each: each.ns)


def _best_of_others(
    load: JoinLoad, has_keys: bool, algorithm: str, prices: JoinPrices, step_s: float
) -> list[Estimate]:
    """The best method of every other algorithm, cheapest first."""
    best: dict[str, Estimate] = {}
    for method in candidates(load, has_keys):
        found = estimate(method, load, prices, step_s)
        known = best.get(method.algorithm)
        if method.algorithm != algorithm and (known is None or found.ns < known.ns):
            best[method.algorithm] = found
    return sorted(best.values(), key=lambda each: each.ns)


def _default(has_keys: bool, hint: MethodHint) -> JoinMethod:
    """What is used if the load is not known."""
    algorithm = hint.algorithm or (HASH if has_keys else WNL)
    n_default = DEFAULT_BUCKETS if algorithm == WHJ else DEFAULT_PARTITIONS
    n_buckets = (hint.n_buckets or n_default) if algorithm in BUCKETED else 1
    return JoinMethod(algorithm, n_buckets, hint.invalidation or PROBE_INSERT, hint.settings)


DEFAULT_PARTITIONS = 60
"""Of RPWJ and AH-EWJ (Exact, Table 5.2)."""
DEFAULT_BUCKETS = 1024
"""Of WHJ if it is hinted, without their number, for a load that nobody knows."""
