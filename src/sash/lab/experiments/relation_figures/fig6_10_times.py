"""Exact, Figures 6.10 and 6.11, and §8.1: CPU time, and CPU and disk time together, by rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import nearest
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.relation_figures.relation_cases import (
    HASHED,
    MESH,
    NAMES,
    PARTITIONED,
    RANGED,
    RELATION_PAPER,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_measures import (
    LAWS,
    all_methods,
    by_rate,
    rates_of_all,
    tell_methods,
)
from sash.lab.experiments.relation_figures.relation_picture import draw_by

CLEARLY = 0.9
MAGNITUDE = 10


def run(scale: RelationScale, note: Note) -> Outcome:
    rows = rates_of_all(scale, note)
    claims = {
        "E6.11": [claim for is_even in LAWS for claim in _cpu(rows, is_even)],
        "E6.12": [_least(rows, is_even) for is_even in LAWS],
        "E6.20": [claim for method in PARTITIONED for claim in _all_less(rows, method)],
    }
    return Outcome(rows, numbered(claims))


def _cpu(rows: Sequence[Row], is_even: bool) -> list[Claim]:
    found = all_methods(rows, "cpu_s", is_even)
    told = tell_methods(found, "{:.0f}", " s")
    return [
        Claim(
            f"CPU time of MESHJOIN is the highest, {LAWS[is_even]}",
            told,
            all(found[MESH][rate] > max(found[each][rate] for each in PARTITIONED) for rate in found[MESH]),
            "a tuple meets as many rows in a hash segment as in a bucket, and where MESHJOIN is saturated it does not "
            "get to as many tuples",
        ),
        Claim(
            f"CPU time of the range-partitioned join is below that of the hash-partitioned one, {LAWS[is_even]}",
            told,
            all(found[RANGED][rate] < found[HASHED][rate] for rate in found[MESH]),
        ),
    ]


def _least(rows: Sequence[Row], is_even: bool) -> Claim:
    found = all_methods(rows, "total_s", is_even)
    return Claim(
        "CPU and disk time of the range-partitioned join is clearly the least of the three (by a tenth), "
        f"{LAWS[is_even]}",
        tell_methods(found, "{:.0f}", " s"),
        all(found[RANGED][rate] < CLEARLY * min(found[HASHED][rate], found[MESH][rate]) for rate in found[MESH]),
        "at the highest rates the others are saturated, and busy all the time, with far fewer tuples",
    )


def _all_less(rows: Sequence[Row], method: str) -> list[Claim]:
    """§8.1, at the rate of Table 6.2."""
    rate = nearest(by_rate(rows, MESH, "delay_s"), 1000)
    found = {
        column: {each: by_rate(rows, each, column)[rate] for each in (method, MESH)}
        for column in ("delay_s", "cpu_s", "disk_s")
    }
    told = ", ".join(f"{each[method]:.0f} s against {each[MESH]:.0f} s of {name}" for name, each in _named(found))
    delay, cpu, disk = (each for _, each in _named(found))
    return [
        Claim(
            f"The {NAMES[method]} join responds faster than MESHJOIN by an order of magnitude, at {rate} tuples/s",
            told,
            MAGNITUDE * delay[method] <= delay[MESH],
            "a full wait buffer is 66 s of arrivals, and a pair waits for most of that; MESHJOIN's queue is ten times "
            "as long, but its pairs are found half way through it",
        ),
        Claim(
            f"The {NAMES[method]} join needs less CPU and less disk time, at {rate} tuples/s",
            told,
            cpu[method] < cpu[MESH] and disk[method] < disk[MESH],
            "a read of MESHJOIN is shared by its whole queue, that of a segment by one list: it reads less than "
            "anybody else",
        ),
    ]


def _named(found: dict[str, dict[str, float]]) -> list[tuple[str, dict[str, float]]]:
    return list(zip(("delay", "CPU time", "disk time"), found.values()))


EXPERIMENT = Experiment(
    "6-10",
    "CPU and disk time of joins with a relation, by rate",
    RELATION_PAPER,
    run,
    partial(draw_by, over="rate", axis="tuples/s", columns=("cpu_s", "total_s")),
)
