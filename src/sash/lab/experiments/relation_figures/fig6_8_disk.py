"""Exact, Figure 6.8: disk time by rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, nearest, tell
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import (
    HASHED,
    MESH,
    PARTITIONED,
    RANGED,
    RELATION_PAPER,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import (
    LAWS,
    both_partitioned,
    by_rate,
    measure_relation,
    rates_of_all,
    tell_methods,
)
from sash.lab.experiments.relation_figures.relation_picture import draw_by

SLIGHT = 0.2
MAGNITUDE = 10


def run(scale: RelationScale, note: Note) -> Outcome:
    rows = rates_of_all(scale, note)
    speeds = [
        (RelationCase(method, mb_per_s=speed), {"mb_per_s": speed, "is_aside": True})
        for method in PARTITIONED
        for speed in scale.speeds
    ]
    rows += measure_relation(speeds, scale, note)
    more = [_magnitude(rows, is_even) for is_even in LAWS]
    return Outcome(rows, numbered({"E6.7": [_grows_slightly(rows)], "E6.8": more}))


def _grows_slightly(rows: Sequence[Row]) -> Claim:
    found = by_rate(rows, MESH, "disk_s")
    saturated, last = nearest(found, 1200), max(found)
    return Claim(
        "Disk time of MESHJOIN grows only slightly beyond 1,200 tuples per second (less than a fifth up to 2,000)",
        f"{tell(found, '{:.0f}', ' s')}, by tuples/s",
        found[last] < (1 + SLIGHT) * found[saturated],
    )


def _magnitude(rows: Sequence[Row], is_even: bool) -> Claim:
    at_rates = [row for row in rows if not row.get("is_aside")]
    found = both_partitioned(at_rates, "disk_s", is_even)
    at_speeds = [row for row in rows if row.get("is_aside")]
    by_speed = {method: line(at_speeds, "disk_s", "mb_per_s", method=method) for method in PARTITIONED}
    aside = "" if is_even else f"; at 1,000 by MB/s {tell_methods(by_speed, '{:.0f}', ' s')}"
    return Claim(
        f"The hash-partitioned join needs more disk time than the range-partitioned one, by an order of magnitude, "
        f"{LAWS[is_even]}",
        tell_methods(found, "{:.0f}", " s") + aside,
        all(found[HASHED][rate] >= MAGNITUDE * found[RANGED][rate] for rate in found[HASHED]),
        "a full wait buffer has as many tuples for as many megabytes of segments; only what is in memory saves reads, "
        "which is a sixth of the relation, and of its tuples hardly more",
    )


EXPERIMENT = Experiment(
    "6-8",
    "disk time of joins with a relation, by rate",
    RELATION_PAPER,
    run,
    partial(draw_by, over="rate", axis="tuples/s", columns=("disk_s", "from_disk")),
)
