"""What a window join costs per second of stream time: the rate-based model of Kostowski and Claypool (§3).

    C(WNL) = (λA + λB)(C_invalidate + C_insert) + λA λB (T_A + T_B) C_scan           (1)
    C(WHJ) = (λA + λB)(C_invalidate + C_insert) + λA λB (T_A + T_B) C_scan / N       (2)

Both are sums of two half costs, each of the tuples that arrive on one side. The model counts work (`JoinWork`), and
prices come last (`JoinCosts`), so that it can be held against the counters of a join that has run.

Three things are added to the paper's equations. Equation 2 goes down for ever with more buckets, while the paper
measures that it stops at the number of distinct values; `probed_share` says why. An invalidation that looks at a
bucket compares `1 + N_stale` times (§3.2), so looks are counted beside the tuples that are removed. And pairs that
come out are work: no algorithm can save it, so that it bounds what buckets can gain.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Any

from sash.errors import PlanError
from sash.index.circular_buckets import INVALIDATIONS
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, ExactSettings, RpwjSettings

HASH, WHJ, WNL = "hash", "whj", "wnl"
EWJ, RPWJ, AHEWJ = "ewj", "rpwj", "ahewj"
EXACT_SETTINGS: dict[str, type[ExactSettings]] = {EWJ: EwjSettings, RPWJ: RpwjSettings, AHEWJ: AhEwjSettings}
"""The methods that keep windows on disk that are larger than memory, and what can be set of each."""
ALGORITHMS = (HASH, WHJ, WNL, *EXACT_SETTINGS)
BUCKETED = (WHJ, RPWJ, AHEWJ)
"""The methods that have a number of buckets."""
PROBE, PROBE_INSERT, PROBE_ALL, OPTIMAL = INVALIDATIONS
MAX_BUCKETS = 1 << 24
STEADY = math.inf


@dataclass(frozen=True, slots=True)
class JoinMethod:
    """How a window join finds its pairs.

    `hash`: an index with a place for every key value, from which expired tuples go in bulk. `whj`: the paper's windowed
    hash join. `wnl`: the paper's windowed nested loops, a hash join with one bucket. `ewj`, `rpwj` and `ahewj`: the
    joins of Exact, ch. 3 to 5, which keep on disk what does not fit into memory; they run if they are asked for.
    """

    algorithm: str
    n_buckets: int = 1
    invalidation: str = PROBE_INSERT
    settings: tuple[tuple[str, float], ...] = ()
    """What else is set of a method that keeps windows on disk, by name."""

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise PlanError(f"there is no join algorithm `{self.algorithm}`; there are {_listed(ALGORITHMS)}")
        if self.invalidation not in INVALIDATIONS:
            raise PlanError(f"there is no invalidation `{self.invalidation}`; there are {_listed(INVALIDATIONS)}")
        if not 1 <= self.n_buckets <= MAX_BUCKETS:
            raise PlanError(f"a join has 1 to {MAX_BUCKETS} buckets, not {self.n_buckets}")
        if self.algorithm not in BUCKETED and self.n_buckets != 1:
            raise PlanError(
                f"`{self.algorithm}` has no number of buckets; {_listed(BUCKETED)} have, leave {self.n_buckets} out"
            )
        if self.algorithm in EXACT_SETTINGS:
            exact_settings(self)


@dataclass(frozen=True, slots=True)
class JoinLoad:
    """What a join has to do: tuples per second and seconds of window of both sides, and how keys are spread.

    `selectivity` is the chance that two tuples have equal keys; without it the `n_distinct` key values are taken to be
    equally likely on both sides.
    """

    rates: tuple[float, float]
    windows_s: tuple[float, float]
    n_distinct: float
    selectivity: float | None = None

    def __post_init__(self) -> None:
        if not all(0 < each < math.inf for each in (*self.rates, *self.windows_s)):
            raise PlanError(f"rates {self.rates} and windows {self.windows_s} must be more than 0, and finite")
        if not self.n_distinct >= 1:
            raise PlanError(f"a join attribute has at least 1 distinct value, not {self.n_distinct}")
        if self.selectivity is not None and not 0 <= self.selectivity <= 1:
            raise PlanError(f"a selectivity is from 0 to 1, not {self.selectivity}")

    @property
    def match_rate(self) -> float:
        """The chance that two tuples have equal keys."""
        return 1 / self.n_distinct if self.selectivity is None else self.selectivity

    def window_tuples(self, side: int) -> float:
        """How many tuples of a side are in its window: λ T."""
        return self.rates[side] * self.windows_s[side]


@dataclass(frozen=True, slots=True)
class JoinWork:
    """What a join does per second: tuples compared in scans, inserted, removed; comparisons of the removal; pairs."""

    scans: float
    insertions: float
    invalidations: float
    checks: float
    outputs: float

    def __add__(self, other: JoinWork) -> JoinWork:
        return JoinWork(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def times(self, seconds: float) -> JoinWork:
        """The work of so many seconds."""
        return JoinWork(*(seconds * each for each in astuple(self)))


@dataclass(frozen=True, slots=True)
class JoinCosts:
    """Nanoseconds for one tuple scanned, inserted, invalidated, one check of an invalidation, and one pair put out."""

    scan: float
    insert: float
    invalidate: float
    check: float
    output: float

    def __post_init__(self) -> None:
        if any(getattr(self, each.name) < 0 for each in fields(self)):
            raise PlanError(f"costs are not negative: {self}")


def exact_settings(method: JoinMethod) -> ExactSettings:
    """All settings of a method that keeps windows on disk; raises PlanError for those that cannot be."""
    chosen: dict[str, Any] = dict(method.settings)
    if method.algorithm in BUCKETED:
        chosen["n_part"] = method.n_buckets
    return EXACT_SETTINGS[method.algorithm](**chosen)


def cost_ns(work: JoinWork, costs: JoinCosts) -> float:
    """What the work costs: nanoseconds per second of stream time."""
    return (
        work.scans * costs.scan
        + work.insertions * costs.insert
        + work.invalidations * costs.invalidate
        + work.checks * costs.check
        + work.outputs * costs.output
    )


def total_work(method: JoinMethod, load: JoinLoad) -> JoinWork:
    """Equations 1 and 2: the two half costs."""
    return half_work(method, load, 0) + half_work(method, load, 1)


def half_work(method: JoinMethod, load: JoinLoad, side: int) -> JoinWork:
    """The half cost (§3.1): what the tuples that arrive on one side make the join do.

    λA (N_stale C_invalidate + T_B λB share C_scan + C_insert), with the share of the opposite window that is scanned.
    """
    rate, window = load.rates[side], load.window_tuples(1 - side)
    invalidations = removal_rate(method, load, side)
    return JoinWork(
        scans=rate * window * probed_share(method, load),
        insertions=rate,
        invalidations=invalidations,
        checks=0.0 if method.algorithm == HASH else rate * buckets_looked_at(method) + invalidations,
        outputs=rate * window * load.match_rate,
    )


def probed_share(method: JoinMethod, load: JoinLoad) -> float:
    """Which part of the opposite window one probe scans: s + (1 - s) / N with selectivity s, on average over hashes.

    A tuple of the window has the key of the probing tuple with probability s, and then it is in the probed bucket. It
    has another key otherwise, which a random hash sends to the probed bucket with probability 1 / N. With D equally
    likely values this is 1/D + (1 - 1/D)/N: Equation 2's 1/N while N is far below D, and never less than 1/D.
    """
    if method.algorithm == HASH:
        return load.match_rate
    return load.match_rate + (1 - load.match_rate) / method.n_buckets


def removal_rate(method: JoinMethod, load: JoinLoad, side: int) -> float:
    """Tuples per second that arrivals on one side invalidate (§3.2); both sides together remove all that arrive.

    If only the probed side is invalidated, arrivals of A remove what goes stale in B: λB. If both are, whichever
    arrival comes next removes it, and that is one of A with probability λA / (λA + λB): λA in all.
    """
    return load.rates[1 - side] if method.invalidation in (PROBE, PROBE_ALL) else load.rates[side]


def buckets_looked_at(method: JoinMethod) -> int:
    """How many buckets an arrival looks at for stale tuples, of both sides together (§3.2)."""
    n_buckets = method.n_buckets
    return {PROBE: 1, PROBE_INSERT: 2, PROBE_ALL: n_buckets, OPTIMAL: 2 * n_buckets}[method.invalidation]


def stale_per_bucket(method: JoinMethod, load: JoinLoad, side: int, elapsed_s: float = STEADY) -> float:
    """How many stale tuples there are in an occupied bucket of a side when some time has gone by (§3.2).

    The rate at which tuples enter the bucket, times the time since it was last looked at. With Poisson arrivals that
    is 1/r on average when it is looked at r times a second, however often one has waited before. `probe`: λB/λA.
    `probe_insert`: λB/(λA + λB). `probe_all`: every arrival of A looks at all n occupied buckets, λB/(n λA).
    `optimal`: none after an arrival. `elapsed_s` is the time since tuples began to go stale: in a join that began
    `t` seconds ago no tuple has been stale for longer than `t` less the window, which makes it (1 - exp(-r t)) / r.
    """
    if method.algorithm == HASH or method.invalidation == OPTIMAL:
        return 0.0
    n_occupied = occupied_buckets(method, load)
    own, other = load.rates[side], load.rates[1 - side]
    looks = {PROBE: other / n_occupied, PROBE_INSERT: (own + other) / n_occupied, PROBE_ALL: other}[method.invalidation]
    return own / n_occupied * (1 - math.exp(-looks * elapsed_s)) / looks


def stale_tuples(method: JoinMethod, load: JoinLoad, side: int, elapsed_s: float = STEADY) -> float:
    """How many stale tuples a side holds in all its buckets."""
    return occupied_buckets(method, load) * stale_per_bucket(method, load, side, elapsed_s)


def buffered_tuples(method: JoinMethod, load: JoinLoad, side: int, elapsed_s: float = STEADY) -> float:
    """How many tuples a side holds: its window, and what is stale."""
    return load.window_tuples(side) + stale_tuples(method, load, side, elapsed_s)


def occupied_buckets(method: JoinMethod, load: JoinLoad) -> float:
    """How many buckets have key values: N (1 - (1 - 1/N)^D), which is N for D far above N and D for D far below."""
    n_buckets = method.n_buckets
    if n_buckets == 1:
        return 1.0
    return -n_buckets * math.expm1(load.n_distinct * math.log1p(-1 / n_buckets))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
