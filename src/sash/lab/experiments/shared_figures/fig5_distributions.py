"""Shared, Figure 5: the average response time of each schedule for four distributions of windows.

Also with nested loops, which the paper tells without a figure (§5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.shared_figures.shared_claims import AVERAGES, Average, averages, lowest_claim, tell
from sash.lab.experiments.shared_figures.shared_picture import draw_averages
from sash.lab.experiments.shared_figures.shared_response import DISTRIBUTIONS, PAPER, ResponseCase, SharedScale, measure

JOINS = {"hash": True, "nested loops": False}


def run(scale: SharedScale, note: Note) -> Outcome:
    """Both joins for the windows of Table 1, with a query each."""
    cases = [
        ResponseCase({"join": join, "distribution": name}, windows_s, is_hashed=is_hashed)
        for join, is_hashed in JOINS.items()
        for name, windows_s in DISTRIBUTIONS.items()
    ]
    rows = measure(cases, scale, note)
    lowest = [
        lowest_claim(_of(rows, join), average, "distribution", f"for all distributions ({join})")
        for join in JOINS
        for average in AVERAGES
    ]
    return Outcome(rows, [*lowest, *(_second(rows, average) for average in AVERAGES), _alike(rows)])


def _of(rows: Sequence[Row], join: str) -> list[Row]:
    return [row for row in rows if row["join"] == join]


def _second(rows: Sequence[Row], average: Average) -> Claim:
    found = averages(_of(rows, "hash"), average, "distribution")
    is_second = {name: each["lwo"] < each["swf"] for name, each in found.items()}
    return Claim(
        f"LWO is better than SWF for all distributions but the mostly small one, {average.title}",
        tell(found),
        is_second == {name: name != "mostly small" for name in DISTRIBUTIONS},
        "over the queries SWF is better for the uniform windows as well, and over all pairs LWO for the mostly small "
        "ones, whether the join is busy for 54 % of the time or for 97 %",
    )


def _alike(rows: Sequence[Row]) -> Claim:
    by_join = [averages(_of(rows, join), AVERAGES[0], "distribution") for join in JOINS]
    ranks = [{name: sorted(each, key=each.__getitem__) for name, each in found.items()} for found in by_join]
    n_same = sum(ranks[0][name] == ranks[1][name] for name in DISTRIBUTIONS)
    return Claim(
        "With nested loops at 15 tuples per second the averages resemble those of hashing: the same order of schedules",
        f"for {n_same} of {len(DISTRIBUTIONS)} distributions; nested loops: {tell(by_join[1])}",
        n_same == len(DISTRIBUTIONS),
    )


def draw(rows: Sequence[Row], path: Path) -> None:
    """The hash join alone."""
    draw_averages(_of(rows, "hash"), path, "distribution", "distribution of windows")


EXPERIMENT = Experiment(5, "LWO, SWF and MQT by the distribution of windows", PAPER, run, draw)
