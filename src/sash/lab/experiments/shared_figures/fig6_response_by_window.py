"""Shared, Figure 6: the average and the maximum response time by window, for two distributions (hash join)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.shared_figures.shared_picture import draw_windows
from sash.lab.experiments.shared_figures.shared_response import DISTRIBUTIONS, PAPER, ResponseCase, SharedScale, measure

CHOSEN = ("uniform", "mostly small")
FLAT = 1.5
SIMILAR = 0.25
HALF = (0.35, 0.65)


def run(scale: SharedScale, note: Note) -> Outcome:
    """A query for each window."""
    rows = measure([ResponseCase({"distribution": name}, DISTRIBUTIONS[name]) for name in CHOSEN], scale, note)
    return Outcome(rows, [_flat(rows), _similar(rows), _largest(rows), _half(rows), _maximum(rows)])


def _means(rows: Sequence[Row], schedule: str, distribution: str = "uniform") -> list[float]:
    return pick(rows, "mean_ms", schedule=schedule, distribution=distribution)


def _flat(rows: Sequence[Row]) -> Claim:
    spreads = {name: max(_means(rows, "lwo", name)) / min(_means(rows, "lwo", name)) for name in CHOSEN}
    return Claim(
        f"LWO lets all windows wait about equally (at most {FLAT} times as long as another)",
        ", ".join(f"{spread:.2f} times ({name})" for name, spread in spreads.items()),
        max(spreads.values()) <= FLAT,
    )


def _ratios(rows: Sequence[Row]) -> list[float]:
    return [mqt / swf for mqt, swf in zip(_means(rows, "mqt"), _means(rows, "swf"))]


def _similar(rows: Sequence[Row]) -> Claim:
    ratios = _ratios(rows)[:-1]
    return Claim(
        f"MQT and SWF are similar for uniform windows, but for the largest (within {SIMILAR:.0%})",
        f"MQT takes {', '.join(f'{each:.2f}' for each in ratios)} times as long",
        all(abs(1 - each) <= SIMILAR for each in ratios),
        "both serve the two smallest windows first; from there on all throughputs are equal, and MQT finishes the "
        "tuple that has scanned the most, so that its middle windows wait like its largest one",
    )


def _largest(rows: Sequence[Row]) -> Claim:
    ratio = _ratios(rows)[-1]
    return Claim(
        f"MQT is better than SWF for the largest of the uniform windows (by more than {SIMILAR:.0%})",
        f"MQT takes {ratio:.2f} times as long",
        ratio < 1 - SIMILAR,
    )


def _half(rows: Sequence[Row]) -> Claim:
    ratio = _means(rows, "swf", "mostly small")[-1] / _means(rows, "swf")[-1]
    return Claim(
        f"SWF takes half as long for the largest window if windows are mostly small ({HALF[0]} to {HALF[1]} times)",
        f"{ratio:.2f} times",
        HALF[0] <= ratio <= HALF[1],
    )


def _maximum(rows: Sequence[Row]) -> Claim:
    found = {
        (name, window): pick(rows, "max_ms", schedule="mqt", distribution=name)[window]
        / pick(rows, "max_ms", schedule="swf", distribution=name)[window]
        for name in CHOSEN
        for window in (-2, -1)
    }
    return Claim(
        "The maximum of MQT is below that of SWF for large windows (the two largest)",
        ", ".join(f"{ratio:.3f} times ({name}, {'2nd ' * (at == -2)}largest)" for (name, at), ratio in found.items()),
        all(ratio < 1 for ratio in found.values()),
        "mostly small windows are further apart the larger they are, so both schedules do the same work in the same "
        "order, and the longest wait is the same",
    )


EXPERIMENT = Experiment(
    6, "response times by window, uniform and mostly small", PAPER, run, partial(draw_windows, part="distribution")
)
