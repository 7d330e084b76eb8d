"""What the claims of Shared have in common: which schedule lets queries wait the least on average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sash.lab.experiments.experiment import Claim, Row, pick, values_of
from sash.lab.experiments.shared_figures.shared_response import TITLES


class Average(NamedTuple):
    """Over what response times are averaged: how it is called, and where rows have it."""

    title: str
    column: str


AVERAGES = (Average("over the queries", "query_ms"), Average("over all pairs", "pair_ms"))
"""The paper says "averaged over all of the windows", and of its averages that they stress the larger windows."""
PAIRS_REASON = (
    "most pairs are of the larger windows, and MQT lets those wait about as long as LWO does, or longer; it wins by "
    "the small windows, which have few pairs"
)


def averages(rows: Sequence[Row], average: Average, over: str) -> dict[Any, dict[str, float]]:
    """By the values of a label, the average response time of each schedule."""
    return {
        value: {schedule: pick(rows, average.column, schedule=schedule, **{over: value}) for schedule in TITLES}
        for value in values_of(rows, over)
    }


def tell(found: dict[Any, dict[str, float]]) -> str:
    """All averages, LWO / SWF / MQT."""
    lines = (f"{value} {' / '.join(f'{each:.1f}' for each in found[value].values())}" for value in found)
    return "LWO / SWF / MQT in ms: " + ", ".join(lines)


def lowest_claim(rows: Sequence[Row], average: Average, over: str, where: str) -> Claim:
    """Whether MQT has the lowest average everywhere."""
    found = averages(rows, average, over)
    return Claim(
        f"MQT has the lowest average response time {where}, {average.title}",
        tell(found),
        all(each["mqt"] == min(each.values()) for each in found.values()),
        PAIRS_REASON if average.column == "pair_ms" else "",
    )


def gain(better: float, worse: float) -> float:
    """How far one is below the other, in percent."""
    return 100 * (1 - better / worse)
