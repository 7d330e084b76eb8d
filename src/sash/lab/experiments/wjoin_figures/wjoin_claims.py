"""What the claims of W-join have in common: how many times as much as another join one takes, per input tuple."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sash.lab.experiments.experiment import Claim, Row, pick, values_of

ORDER = (10**0.5, 10**1.5)
"""An order of magnitude: nearer to 10 than to 1 or 100."""
TITLES = {
    "nlw": "NLW-join",
    "hw": "HW-join",
    "mw": "MW-join",
    "gca": "GCA",
    "lca": "LCA",
    "ripple": "the ripple join",
    "xjoin": "XJoin",
}


class Criterion(NamedTuple):
    """What joins are judged by: its name, and where rows have it."""

    title: str
    column: str


MEASURES = (Criterion("comparisons and checks", "work"), Criterion("time", "cpu_us"))


def ratios(rows: Sequence[Row], worse: str, better: str, measure: Criterion, over: str) -> dict[Any, float]:
    """For each value of a label, how many times as much a join takes as another."""
    return {
        value: pick(rows, measure.column, join=worse, **{over: value})
        / pick(rows, measure.column, join=better, **{over: value})
        for value in values_of(rows, over)
    }


def tell(found: Mapping[Any, float], unit: str) -> str:
    """Ratios by the number of streams or whatever else tells them apart."""
    return ", ".join(f"{ratio:.2f} ({value} {unit})" for value, ratio in found.items())


def is_order(found: Mapping[Any, float]) -> bool:
    return all(ORDER[0] <= ratio <= ORDER[1] for ratio in found.values())


def better_claim(rows: Sequence[Row], worse: str, better: str, measure: Criterion, reason: str) -> Claim:
    """Whether a join takes less than another with any number of streams."""
    found = ratios(rows, worse, better, measure, "n_streams")
    compared = ratios(rows, worse, better, Criterion("comparisons", "comparisons"), "n_streams")
    return Claim(
        f"{TITLES[better]} outperforms {TITLES[worse]} in all cases, by {measure.title}",
        f"{TITLES[worse]} takes {tell(found, 'streams')} times as much",
        min(found.values()) > 1,
        f"{reason}; of comparisons alone {TITLES[worse]} makes {tell(compared, 'streams')} times as many",
    )


def best_claim(
    rows: Sequence[Row], best: str, over: Sequence[str], measure: Criterion, reason: str = "", where: str = ""
) -> Claim:
    """Whether a join takes the least of all, at every point."""
    margins = {}
    for place in dict.fromkeys(tuple(row[label] for label in over) for row in rows):
        here = [row for row in rows if tuple(row[label] for label in over) == place]
        others = [row[measure.column] for row in here if row["join"] != best]
        margins[place] = min(others) / pick(here, measure.column, join=best)
    n_best = sum(margin > 1 for margin in margins.values())
    return Claim(
        f"{TITLES[best]} is the best of all{where}, by {measure.title}",
        f"at {n_best} of {len(margins)} points; the next best takes {min(margins.values()):.2f} to "
        f"{max(margins.values()):.2f} times as much",
        n_best == len(margins),
        reason,
    )
