"""Exact, Figure 6.7: the average delay of a pair by rate, with indexed nested loops beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import (
    HASHED,
    INL,
    MESH,
    NAMES,
    PARTITIONED,
    RANGED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import (
    LAWS,
    by_rate,
    measure_relation,
    rates_of_all,
    tell_methods,
)
from sash.lab.experiments.relation_figures.relation_picture import draw_by

FAR = 3
SATURATED, CROSSING = 1200, 1500


def run(scale: RelationScale, note: Note) -> Outcome:
    rows = rates_of_all(scale, note)
    rows += measure_relation([(RelationCase(INL, rate), {}) for rate in scale.inl_rates], scale, note)
    claims = {
        "E6.4": [_far_below(rows, method, is_even) for is_even in LAWS for method in PARTITIONED],
        "E6.5": [_turns(rows)],
        "E6.6": [claim for is_even in LAWS for claim in _cross(rows, is_even)],
    }
    return Outcome(rows, numbered(claims))


def _far_below(rows: Sequence[Row], method: str, is_even: bool) -> Claim:
    mesh, own = (by_rate(rows, each, "delay_s", is_even) for each in (MESH, method))
    told = tell_methods({method: own, MESH: mesh}, "{:.0f}", " s")
    return Claim(
        f"The delay of the {NAMES[method]} join is far below that of MESHJOIN at every rate (a third or less), "
        f"{LAWS[is_even]}",
        f"{told}; indexed nested loops keep up with {sustained(rows):.0f} tuples/s",
        all(FAR * own[rate] <= mesh[rate] for rate in mesh),
        "it is saturated from some rate on, too, and then its tuples wait in the input buffer",
    )


def _turns(rows: Sequence[Row]) -> Claim:
    found = by_rate(rows, MESH, "delay_s")
    least = min(found, key=lambda rate: found[rate])
    later = [found[rate] for rate in found if rate >= least]
    return Claim(
        "The delay of MESHJOIN falls with the rate, and rises from 1,200 tuples per second on",
        f"{tell(found, '{:.0f}', ' s')}, by tuples/s",
        1000 <= least <= SATURATED and later == sorted(later) and found[max(found)] > found[least],
    )


def _cross(rows: Sequence[Row], is_even: bool) -> list[Claim]:
    hashed, ranged = (by_rate(rows, method, "delay_s", is_even) for method in (HASHED, RANGED))
    told = tell_methods({HASHED: hashed, RANGED: ranged}, "{:.0f}", " s")
    below, above = [each for each in hashed if each < CROSSING], [each for each in hashed if each > CROSSING]
    return [
        Claim(
            f"Below 1,500 tuples per second the range-partitioned join has the smaller delay, {LAWS[is_even]}",
            told,
            all(ranged[rate] < hashed[rate] for rate in below),
            "the wait buffer is full as often, and has twice as many lists, each of which waits for longer",
        ),
        Claim(
            f"Above 1,500 the hash-partitioned join has, {LAWS[is_even]}",
            told,
            all(hashed[rate] < ranged[rate] for rate in above),
            "its segments are twice as large, so it is saturated first; the thesis explains it by lists that reach "
            "`N_invoke` sooner, which none does: a full wait buffer has about 900 tuples for each",
        ),
    ]


def sustained(rows: Sequence[Row]) -> float:
    """The greatest rate at which indexed nested loops keep up: less than a minute's arrivals are left in the end."""
    left = by_rate(rows, INL, "buffered_end")
    return max((rate for rate in left if left[rate] <= 60 * rate), default=0.0)


EXPERIMENT = Experiment(
    "6-7",
    "delay of joins with a relation, by rate",
    RELATION_PAPER,
    run,
    partial(draw_by, over="rate", axis="tuples/s", columns=("delay_s",), is_log=True),
)
