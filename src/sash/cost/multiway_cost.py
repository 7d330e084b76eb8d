"""What a join of many streams does per second of stream time, by each algorithm that may be chosen for it.

    probe   each arriving tuple probes the other windows, one after the other (`index/probe_index.py`)
    nlw     a pipeline of joins of two: an arriving tuple goes through the whole buffer opposite (W-join §3.1.1)
    hw      the same through a bucket of it (§3.1.2)
    mw      a tuple is looked at if all streams have tuples in a period; nested loops over those (§3.2)
    lca     the same with a period for each stream's own windows (§5.1)

The model counts work, and prices come last, so that it can be held against the counters of a join that has run. Tuples
are taken to come evenly, and keys to be equally frequent. Of a stream with λ tuples per second an arriving tuple finds
λ · reach in its window; how many of them are also within reach of a third tuple follows from both spans, as far apart
as tuples spread evenly over them are (`_share_within`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from math import prod

import numpy as np

from sash.errors import PlanError
from sash.index.probe_index import MIN_ROWS_PER_TURN, ROWS_PER_TURN, TURNS_PER_WINDOW
from sash.index.probe_order import probe_orders, probe_steps

PROBE, NLW, HW, MW, LCA = "probe", "nlw", "hw", "mw", "lca"
CACHED_TUPLES = 1 << 13
"""Windows of so many tuples are taken to be in the caches."""
STEP_ROWS = 4096
"""So many tuples come at once where nobody knows."""
IN_BUCKET = 2.0
"""HW-join has so many tuples of other keys in a bucket, at most, before it takes more buckets."""


@dataclass(frozen=True, slots=True)
class ManyCondition:
    """A condition beside the keys: the inputs that it reads, and which share of what it sees passes."""

    inputs: tuple[int, ...]
    share: float


@dataclass(frozen=True, slots=True)
class MultiwayLoad:
    """What a join of many has to do: tuples per second of each input, and who meets whom."""

    rates: tuple[float, ...]
    reach_s: tuple[tuple[float, ...], ...]
    """`reach_s[i][j]`: how many seconds newer than a tuple of input i one of input j may be."""
    has_key: tuple[tuple[bool, ...], ...]
    """`has_key[i][k]`: whether input i has key k."""
    matches: tuple[float, ...]
    """For each key the chance that two tuples have the same."""
    conditions: tuple[ManyCondition, ...] = ()
    step_s: float = 0.0
    """How many seconds of stream a step brings; 0 if nobody knows."""

    def __post_init__(self) -> None:
        if not all(0 < rate < math.inf for rate in self.rates):
            raise PlanError(f"the rates {self.rates} of a join must be more than 0, and finite")
        if not all(0 <= share <= 1 for share in self.matches):
            raise PlanError(f"the chances {self.matches} that keys are equal are from 0 to 1")

    @property
    def n_inputs(self) -> int:
        return len(self.rates)

    @property
    def is_product(self) -> bool:
        """Whether probes look up each other stream once, and multiply: all have one key, and there is nothing else."""
        return len(self.matches) == 1 and all(keys[0] for keys in self.has_key) and not self.conditions

    @property
    def has_one_window(self) -> bool:
        return len({each for one, line in enumerate(self.reach_s) for two, each in enumerate(line) if one != two}) == 1

    def keys_met(self, bound: Sequence[int], target: int) -> list[int]:
        """The keys that an input shares with others."""
        own = enumerate(self.has_key[target])
        return [key for key, has in own if has and any(self.has_key[each][key] for each in bound)]

    def match(self, bound: Sequence[int], target: int) -> float:
        """The chance that a tuple has the keys of a combination of others."""
        return prod(self.matches[key] for key in self.keys_met(bound, target))


@dataclass(frozen=True, slots=True)
class MultiwayWork:
    """What a join of many does per second."""

    comparisons: float = 0.0
    """Tuples looked at to find combinations."""
    probes: float = 0.0
    """Tuples and combinations that look into a window, a buffer or a table."""
    insertions: float = 0.0
    """Intermediate results included."""
    checks: float = 0.0
    """Looks to find out what to remove or drop, where they are not comparisons."""
    outputs: float = 0.0
    """Combinations found, before conditions that are checked at the end."""
    tests: float = 0.0
    """Combinations for which conditions are computed."""
    turns: float = 0.0
    """Probes from one window into another are made many at a time; each time costs something."""
    calls: float = 0.0
    """Conditions are computed many at a time, likewise."""
    far: float = 0.0
    """Probes and insertions into tables, as often as what they touch has doubled since it left the caches."""

    def times(self, seconds: float) -> MultiwayWork:
        return MultiwayWork(*(seconds * each for each in astuple(self)))


def multiway_work(algorithm: str, load: MultiwayLoad) -> MultiwayWork:
    """What one of the five algorithms does under a load."""
    if algorithm == PROBE:
        return _far(_product_work(load) if load.is_product else _probe_work(load), load)
    if algorithm in (MW, LCA):
        return _merge_work(load, _spans(algorithm, load), not load.has_one_window)
    return _far(_pipeline_work(load, True), load) if algorithm == HW else _pipeline_work(load, False)


def fanouts_of(load: MultiwayLoad) -> list[list[float | None]]:
    """How many tuples of each other input one of an input meets."""
    every = range(load.n_inputs)
    return [
        [None if one == two else load.rates[two] * load.reach_s[two][one] * load.match((one,), two) for two in every]
        for one in every
    ]


def combinations_per_s(load: MultiwayLoad, inputs: Sequence[int]) -> float:
    """How many combinations of some inputs come per second, by whichever tuple is the last; conditions left out."""
    found = 0.0
    for arriving in inputs:
        bound, n_found = [arriving], load.rates[arriving]
        for target in inputs:
            if target != arriving:
                n_found *= load.rates[target] * _span(load, arriving, bound, target) * load.match(bound, target)
                bound.append(target)
        found += n_found
    return found


def turns_per_s(load: MultiwayLoad) -> float:
    """How many turns probes are made in; see `ProbeIndex`."""
    rate = sum(load.rates)
    step_s = load.step_s or STEP_ROWS / rate
    n_rows, widest_s = rate * step_s, max(map(max, load.reach_s))
    n_windows = step_s / widest_s if widest_s else math.inf
    n_turns = max(n_rows / ROWS_PER_TURN, min(TURNS_PER_WINDOW * n_windows, n_rows / MIN_ROWS_PER_TURN), 1.0)
    return n_turns / step_s


def _product_work(load: MultiwayLoad) -> MultiwayWork:
    """Each arriving tuple is looked up in the other windows, until it meets nothing in one."""
    fanouts, comparisons, probes = fanouts_of(load), 0.0, 0.0
    for arriving, order in enumerate(_orders(load)):
        n_left = load.rates[arriving]
        for target in order:
            fanout = fanouts[arriving][target] or 0.0
            probes += n_left
            comparisons += n_left * fanout
            n_left *= -math.expm1(-fanout)
    n_turns = turns_per_s(load)
    outputs = combinations_per_s(load, range(load.n_inputs))
    return MultiwayWork(comparisons, probes, sum(load.rates), 0.0, outputs, 0.0, n_turns)


def _probe_work(load: MultiwayLoad) -> MultiwayWork:
    """Combinations grow by one window after the other; what fails a condition grows no further."""
    has_key = np.array(load.has_key, np.bool_).reshape(load.n_inputs, len(load.matches))
    comparisons = probes = outputs = tests = turns = calls = 0.0
    n_turns = turns_per_s(load)
    for arriving, order in enumerate(_orders(load)):
        bound, n_left = [arriving], load.rates[arriving]
        # A turn does nothing for an input of which none comes, nor goes on if none of the next one is near.
        n_near = n_turns * -math.expm1(-load.rates[arriving] / n_turns)
        for step in probe_steps(arriving, order, has_key):
            n_seen = load.rates[step.target] * _span(load, arriving, bound, step.target)
            by_first = load.matches[step.keys[0][0]] if step.keys else 1.0
            in_reach = load.rates[step.target] * load.reach_s[step.target][arriving] if step.keys else n_seen
            probes, n_left_before = probes + n_left, n_left
            comparisons += n_left * in_reach * by_first
            n_left *= n_seen * load.match(bound, step.target)
            bound.append(step.target)
            turns += min(n_near, n_left_before)
            near_s = load.reach_s[step.target][arriving] + 1 / n_turns
            n_near *= -math.expm1(-load.rates[step.target] * near_s)
            due = [each for each in load.conditions if step.target in each.inputs and set(each.inputs) <= set(bound)]
            if due:
                tests, calls = tests + n_left, calls + min(n_near, n_left)
                n_left *= prod(each.share for each in due)
        outputs += n_left
    return MultiwayWork(comparisons, probes, sum(load.rates), 0.0, outputs, tests, turns, calls)


def _merge_work(load: MultiwayLoad, spans_s: Sequence[float], is_refined: bool) -> MultiwayWork:
    """Tuples for which some other stream has nothing nearby are dropped; the others go through all buffers."""
    n_held = [rate * span for rate, span in zip(load.rates, spans_s)]
    is_there = [-math.expm1(-each) for each in n_held]
    comparisons = probes = found = 0.0
    for arriving, rate in enumerate(load.rates):
        others, bound = [each for each in range(load.n_inputs) if each != arriving], [arriving]
        n_left = rate
        for place, target in enumerate(others):
            n_going = n_left * prod(is_there[each] for each in others[place:])
            probes += n_going
            comparisons += n_going * n_held[target] / is_there[target] if is_there[target] else 0.0
            n_left *= n_held[target] * load.match(bound, target)
            bound.append(target)
        found += n_left
    outputs = combinations_per_s(load, range(load.n_inputs)) if is_refined else found
    refined = found * load.n_inputs * (load.n_inputs - 1) / 2 if is_refined else 0.0
    # A tuple is admitted if all others may have one in a period before or after it.
    near = [-math.expm1(-2 * each) for each in n_held]
    insertions = sum(rate * prod(near[:one] + near[one + 1 :]) for one, rate in enumerate(load.rates))
    checks = sum(load.rates) + load.n_inputs * insertions
    return _tested(MultiwayWork(comparisons + refined, probes, insertions, checks, outputs), load)


def _pipeline_work(load: MultiwayLoad, is_hashed: bool) -> MultiwayWork:
    """Node k joins combinations of the inputs up to k with those of input k + 1, and keeps both."""
    comparisons = probes = 0.0
    insertions = sum(load.rates)
    for node in range(load.n_inputs - 1):
        right, left = node + 1, range(node + 1)
        n_left = combinations_per_s(load, left)
        left_s = min(load.reach_s[each][right] for each in left) / (node + 1)
        right_s = max(load.reach_s[right][each] for each in left)
        insertions += n_left if node else 0.0
        for n_probing, n_held in ((n_left, load.rates[right] * right_s), (load.rates[right], n_left * left_s)):
            probes += n_probing
            is_bucketed = is_hashed and load.keys_met(left, right)
            in_bucket = n_held * load.match(left, right) + min(n_held, IN_BUCKET)
            comparisons += n_probing * (min(n_held, in_bucket) if is_bucketed else n_held)
    outputs = combinations_per_s(load, range(load.n_inputs))
    return _tested(MultiwayWork(comparisons, probes, insertions, comparisons, outputs), load)


def _tested(work: MultiwayWork, load: MultiwayLoad) -> MultiwayWork:
    """With conditions computed for all that is found."""
    if not load.conditions:
        return work
    step_s = load.step_s or STEP_ROWS / sum(load.rates)
    return replace(work, tests=work.outputs, calls=min(work.outputs, 1 / step_s))


def _far(work: MultiwayWork, load: MultiwayLoad) -> MultiwayWork:
    """With what a window costs that has outgrown the caches; without keys nothing is looked for anywhere."""
    n_held = sum(rate * max(line) for rate, line in zip(load.rates, load.reach_s))
    if not load.matches or n_held <= CACHED_TUPLES:
        return work
    return replace(work, far=(work.probes + work.insertions) * math.log2(n_held / CACHED_TUPLES))


def _orders(load: MultiwayLoad) -> list[list[int]]:
    has_key = np.array(load.has_key, np.bool_).reshape(load.n_inputs, len(load.matches))
    return probe_orders(has_key, fanouts_of(load))


def _spans(algorithm: str, load: MultiwayLoad) -> list[float]:
    """For how long an algorithm that merges has tuples of each stream in its period: the longest window, or its own."""
    own = [max(each for other, each in enumerate(line) if other != one) for one, line in enumerate(load.reach_s)]
    return own if algorithm == LCA else [max(own)] * load.n_inputs


def _span(load: MultiwayLoad, arriving: int, bound: Sequence[int], target: int) -> float:
    """How many seconds of a stream's tuples an arriving one meets that are also within reach of others it has met."""
    span_s = load.reach_s[target][arriving]
    for other in bound:
        if other != arriving:
            spans = span_s, load.reach_s[other][arriving]
            span_s *= _share_within(spans, load.reach_s[target][other], load.reach_s[other][target])
    return span_s


def _share_within(spans: tuple[float, float], behind: float, ahead: float) -> float:
    """Of two times spread evenly, each over its span before now: how often the one is at most so far from the other."""
    one, two = spans
    if one <= 0 or two <= 0:
        return 1.0

    within = _area_within(one, two, behind) + _area_within(two, one, ahead) - one * two
    return min(1.0, max(0.0, within / (one * two)))


def _area_within(one: float, two: float, most: float) -> float:
    """Of the rectangle of both spans, the area where the first exceeds the second by at most so much."""

    def half_square(side: float) -> float:
        return max(0.0, side) ** 2 / 2

    return half_square(most + two) - half_square(most) - half_square(most + two - one) + half_square(most - one)
