"""Runs of several cases as rows, by which law the relation is drawn, and words for what they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_measures import line, tell
from sash.lab.experiments.experiment import Row
from sash.lab.experiments.relation_figures.relation_cases import (
    COMPARED_METHODS,
    NAMES,
    PARTITIONED,
    RelationCase,
    RelationScale,
)
from sash.lab.experiments.relation_figures.relation_simulator import simulate_relation

LAWS = {False: "if the relation is drawn by the stream's law", True: "if the relation's keys are drawn evenly"}
"""§6.4.1 says that the relation is made by "this technique", too, and not with which numbers. By the same law, a range
that is hot in the stream has as many more rows, so that all segments are equally hot in the long run."""


def measure_relation(
    cases: Iterable[tuple[RelationCase, Mapping[str, Any]]], scale: RelationScale, note: Note
) -> list[dict[str, Any]]:
    """A row for each case, with what tells it from others."""
    rows = []
    for number, (case, labels) in enumerate(cases):
        facts = simulate_relation(case, scale.fraction)
        rows.append({**facts, "is_even_relation": case.is_even_relation, **labels})
        note(number + 1)
    return rows


def rates_of_all(scale: RelationScale, note: Note) -> list[dict[str, Any]]:
    """All methods at all rates, with either law of the relation."""
    cases = [
        RelationCase(method, rate, is_even_relation=is_even)
        for is_even in LAWS
        for method in COMPARED_METHODS
        for rate in scale.rates
    ]
    return measure_relation([(case, {}) for case in cases], scale, note)


def by_rate(rows: Sequence[Row], method: str, column: str, is_even: bool = False) -> dict[Any, float]:
    return line(rows, column, "rate", method=method, is_even_relation=is_even)


def tell_methods(found: Mapping[str, Mapping[Any, float]], form: str = "{:,.0f}", unit: str = "") -> str:
    """A line for each method."""
    return "; ".join(f"{NAMES[method]} {tell(values, form, unit)}" for method, values in found.items())


def both_partitioned(rows: Sequence[Row], column: str, is_even: bool) -> dict[str, dict[Any, float]]:
    return {method: by_rate(rows, method, column, is_even) for method in PARTITIONED}


def all_methods(rows: Sequence[Row], column: str, is_even: bool) -> dict[str, dict[Any, float]]:
    return {method: by_rate(rows, method, column, is_even) for method in COMPARED_METHODS}
