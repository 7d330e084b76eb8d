"""What EXPLAIN says of how a join finds its pairs: the method, why this one, and what is expected of it."""

from __future__ import annotations

import math
from dataclasses import asdict

from sash.cost.choose_join import MARGIN, Estimate, JoinChoice, range_of
from sash.cost.join_cost import (
    AHEWJ,
    BUCKETED,
    EWJ,
    EXACT_SETTINGS,
    HASH,
    OPTIMAL,
    PROBE,
    PROBE_ALL,
    PROBE_INSERT,
    RPWJ,
    WHJ,
    WNL,
    JoinLoad,
    JoinMethod,
    JoinWork,
    exact_settings,
)
from sash.cost.lookup_cost import REPLICATED
from sash.operators.lookup_join import LookupJoinSpec, ValidPeriod
from sash.plan.explain.table_meaning import HINT_ON_SPARK
from sash.plan.query_plan import ALGORITHMS, LOOKUP_METHODS
from sash.store.batch import ARRIVAL

ONE_TABLE = "one table of keys for both sides, each with the chains of its tuples"
GROWING = "circular buckets by key, as many as the tuples need"
LOOKS = {
    PROBE: "where one is probed",
    PROBE_INSERT: "where one is probed or inserted into",
    PROBE_ALL: "everywhere on the side that is probed",
    OPTIMAL: "everywhere",
}
ON_DISK = {
    EWJ: "EWJ (Exact ch. 3): nested loops over {memory:,} blocks of memory per stream, the rest of each on disk",
    RPWJ: "RPWJ (Exact ch. 4): {n_part} partitions in {memory:,} blocks of memory, the rest in runs on disk",
    AHEWJ: "AH-EWJ (Exact ch. 5): {n_part} buckets in {memory:,} blocks of memory, the rest of each stream on disk",
}
UNKNOWN = "rates unknown: declare RATE and DISTINCT, or let the running query observe them"
TAKEN_BACK = "as tuples may be taken back, which only this index finds without a search"


def method_facts(method: JoinMethod, choice: JoinChoice | None, has_identities: bool) -> list[tuple[str, str]]:
    """The lines of EXPLAIN about a join's method; `has_identities`: whether its tuples may be taken back."""
    facts = [("algorithm", _method(method, has_identities))]
    if choice is None:
        return facts
    if choice.load is None:
        return [*facts, ("chosen", "by hint" if choice.is_hinted else TAKEN_BACK if has_identities else UNKNOWN)]
    chosen, *others = choice.estimates
    why = "by hint" if choice.is_hinted else "by cost"
    return [
        *facts,
        ("chosen", f"{why}; for {_load(choice.load)}{_step(choice.step_s)}"),
        ("estimate", f"{work_text(chosen.work)}; {_time(chosen)} of CPU per second of stream"),
        ("others", "; ".join(f"{method_name(each.method)} {_time(each)}" for each in others)),
        ("range", _range(choice)),
        ("prices", choice.prices.origin),
    ]


def method_name(method: JoinMethod) -> str:
    """A method in short, as a hint would ask for it: `whj(1024, probe)`."""
    if method.algorithm == HASH:
        return HASH
    if method.algorithm in EXACT_SETTINGS:
        n_part = [f"{method.n_buckets}"] if method.algorithm in BUCKETED else []
        told = ", ".join([*n_part, *(f"{name}={value:g}" for name, value in method.settings)])
        return f"{method.algorithm}({told})" if told else method.algorithm
    settings = f"{method.n_buckets}, " if method.algorithm == WHJ else ""
    return f"{method.algorithm}({settings}{method.invalidation})"


def work_text(work: JoinWork) -> str:
    """The counts of the cost model, per second."""
    counts = {
        "scans": work.scans,
        "insertions": work.insertions,
        "invalidations": work.invalidations,
        "outputs": work.outputs,
    }
    return ", ".join(f"{count_text(count)} {name}" for name, count in counts.items()) + " per second"


def count_text(count: float) -> str:
    """A number with three digits that matter, and all of a large one."""
    return f"{count:,.0f}" if count >= 100 or count == int(count) else f"{count:.3g}"


def _method(method: JoinMethod, has_identities: bool) -> str:
    name = ALGORITHMS[method.algorithm]
    if method.algorithm == HASH:
        return f"{name}: {GROWING if has_identities else ONE_TABLE}"
    if method.algorithm in EXACT_SETTINGS:
        return f"{name}, {ON_DISK[method.algorithm].format(**asdict(exact_settings(method)))}"
    if method.algorithm == WNL:
        return f"{name} (WNL): every tuple of the other window is looked at"
    looks = LOOKS[method.invalidation]
    return f"{name} (WHJ): {method.n_buckets:,} circular buckets by key, in which stale tuples are looked for {looks}"


def _load(load: JoinLoad) -> str:
    sides = [
        f"{side} {count_text(rate)} tuples per second, {count_text(rate * window)} in the window"
        for side, rate, window in zip(("left", "right"), load.rates, load.windows_s)
    ]
    return f"{'; '.join(sides)}; {count_text(1 / load.match_rate if load.match_rate else load.n_distinct)} keys"


def _step(step_s: float) -> str:
    return f"; {count_text(step_s)} seconds at a time" if step_s else ""


def _time(estimate: Estimate) -> str:
    return f"{count_text(estimate.ns / 1e3)} µs"


def _range(choice: JoinChoice) -> str:
    """When a running query would change its method; a hinted one never does."""
    if choice.is_hinted or not choice.has_keys:
        return ""
    bounds = range_of(choice)
    parts = {"both rates": bounds.both, "the left rate": bounds.left, "the right rate": bounds.right}
    told = [f"{name} at {text}" for name, ends in parts.items() if (text := _ends(ends))]
    if not told:
        return f"at no rate that was tried is another method cheaper by more than {MARGIN - 1:.0%}"
    return f"another method is cheaper by more than {MARGIN - 1:.0%} with {', '.join(told)}"


def _ends(ends: tuple[float, float]) -> str:
    low, high = ends
    below = f"1/{1 / low:,.0f}" if low else ""
    above = f"{high:,.0f}×" if high < math.inf else ""
    return " or ".join(text for text in (below, above) if text)


def arrival_stream(period: ValidPeriod | None) -> str | None:
    """The alias of the stream whose arrival counts, if a relation is read as of that."""
    return period.time.removesuffix(f".{ARRIVAL}") if period and period.time.endswith(f".{ARRIVAL}") else None


def _as_of(period: ValidPeriod | None) -> str:
    if period is None:
        return ""
    if stream := arrival_stream(period):
        return f"the arrival of {stream}: the version that the batch of a tuple has met"
    return f"{period}, where a NULL is no bound"


def _begun(period: ValidPeriod) -> str:
    return "the batch that saw them first" if arrival_stream(period) else period.start


def lookup_facts(spec: LookupJoinSpec) -> list[tuple[str, str]]:
    """How a relation is looked up."""
    algorithm = "hash index over the relation" if spec.keys else "every row of the relation is looked at"
    if spec.period:
        first, among = ("hash index, ", "of each key") if spec.keys else ("", "of the relation")
        algorithm = f"{first}binary search among the rows {among} by {_begun(spec.period)}"
    if spec.method != REPLICATED:
        algorithm = f"{LOOKUP_METHODS[spec.method]}, by hint"
    return [
        ("algorithm", algorithm),
        ("keys", ", ".join(f"{left} = {right}" for left, right in spec.keys) or "none"),
        ("as of", _as_of(spec.period)),
        ("hint on Spark", HINT_ON_SPARK if spec.method != REPLICATED and arrival_stream(spec.period) else ""),
    ]
