"""Runs of several cases as rows, and words for what they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import SCANNED_NS, TITLES, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_simulator import simulate
from sash.lab.experiments.experiment import Row

Labelled = tuple[ExactCase, Mapping[str, Any]]
"""A case, and what tells its row from others beside method and rate."""


class LateShare(NamedTuple):
    """What "delayed tuples" are a share of: how that is called, and where rows have it."""

    title: str
    column: str


INPUTS = LateShare("of tuples that leave", "late_inputs")
OUTPUTS = LateShare("of pairs", "late_outputs")
GAPS = {False: "a reactive stage every 15 s", True: "a reactive stage of each partition every 15 s"}
"""§5.4.1 has 15 s between reactive stages, which "occur at a partition level" in RPWJ: between any two, or between two
of the same partition."""
LATENESS = (INPUTS, OUTPUTS)
"""Chapter 3 says that a delayed tuple expires later than it should, chapter 4 that an output comes after the window's
limit. Of a tuple that was on disk it is judged when it comes to the invalidation segment, which is what both chapters
blame. Either way a slide later than the window's end is in time."""


def measure(cases: Iterable[Labelled], scale: ExactScale, note: Note) -> list[dict[str, Any]]:
    """A row for each case."""
    rows = []
    for number, (case, labels) in enumerate(cases):
        rows.append({**simulate(case, scale.fraction, scale.length), **labels})
        note(number + 1)
    return rows


def with_scans(rows: Sequence[Row], scanned_ns: float = SCANNED_NS) -> list[dict[str, Any]]:
    """Rows as they would be if a tuple that a scan goes over cost so much, and nothing else changed by that."""
    scans_s = [1e-9 * scanned_ns * row["scanned"] for row in rows]
    return [
        {**row, "cpu_s": row["cpu_s"] + seconds, "total_s": row["total_s"] + seconds}
        for row, seconds in zip(rows, scans_s)
    ]


def line(rows: Sequence[Row], column: str, over: str, **labels: Any) -> dict[Any, Any]:
    """A column of the rows with these labels, by the values of another label."""
    chosen = [row for row in rows if all(row[name] == value for name, value in labels.items())]
    return {row[over]: row[column] for row in chosen}


def tell(values: Mapping[Any, float], form: str = "{:,.0f}", unit: str = "") -> str:
    """All values, each with what it belongs to."""
    return ", ".join(f"{form.format(each)}{unit} ({label})" for label, each in values.items())


def tell_share(values: Mapping[Any, float]) -> str:
    return tell({label: 100 * each for label, each in values.items()}, "{:.2f}", " %")


def tell_both(found: Mapping[str, Mapping[Any, float]], form: str = "{:,.0f}", unit: str = "") -> str:
    """A line for each method."""
    return "; ".join(f"{TITLES[method]} {tell(values, form, unit)}" for method, values in found.items())


def rises(values: Mapping[Any, float]) -> bool:
    """Whether each value is at least the one before, and the last more than the first."""
    found = list(values.values())
    return all(one <= other for one, other in pairwise(found)) and found[0] < found[-1]


def falls(values: Mapping[Any, float]) -> bool:
    return rises({label: -each for label, each in values.items()})


def nearest(values: Mapping[Any, float], wanted: float) -> Any:
    """The label that is nearest to a number: a scale need not have the one of the thesis."""
    return min(values, key=lambda label: abs(label - wanted))
