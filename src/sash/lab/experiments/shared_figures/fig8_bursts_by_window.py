"""Shared, Figure 8: response times by window, with bursts of five on average, for small and large windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, pick
from sash.lab.experiments.shared_figures.shared_picture import draw_windows
from sash.lab.experiments.shared_figures.shared_response import DISTRIBUTIONS, PAPER, ResponseCase, SharedScale, measure

BURST = 5
FOUR = (3.0, 5.0)
FLAT = 1.5


def run(scale: SharedScale, note: Note) -> Outcome:
    """A query for each window."""
    rows = measure([ResponseCase({"burst": BURST}, DISTRIBUTIONS["small-large"], burst=BURST)], scale, note)
    return Outcome(rows, [_largest(rows), _flat(rows), _small(rows)])


def _largest(rows: Sequence[Row]) -> Claim:
    swf, mqt = (pick(rows, "mean_ms", schedule=schedule)[-1] for schedule in ("swf", "mqt"))
    return Claim(
        f"SWF takes about four times as long as MQT for the largest window ({FOUR[0]:.0f} to {FOUR[1]:.0f} times)",
        f"{swf / mqt:.2f} times: {swf / 1000:.2f} s and {mqt / 1000:.2f} s",
        FOUR[0] <= swf / mqt <= FOUR[1],
        "how long SWF puts off the largest window depends on how long the join is busy without a pause",
    )


def _flat(rows: Sequence[Row]) -> Claim:
    means = pick(rows, "mean_ms", schedule="lwo")
    return Claim(
        f"LWO lets all windows wait about equally (at most {FLAT} times as long as another)",
        f"{max(means) / min(means):.2f} times: {', '.join(f'{each:.0f}' for each in means)} ms",
        max(means) <= FLAT * min(means),
        "who finds many partners of the last second came when much had come, and so when much was waiting: by LWO the "
        "smallest window waits the longest",
    )


def _small(rows: Sequence[Row]) -> Claim:
    found = {name: pick(rows, "mean_ms", schedule=name)[:3] for name in ("lwo", "swf", "mqt")}
    return Claim(
        "Small windows wait much shorter by SWF and MQT than by LWO (less than a tenth, the three smallest)",
        "; ".join(f"{name.upper()} {', '.join(f'{each:.1f}' for each in line)} ms" for name, line in found.items()),
        all(10 * max(swf, mqt) < lwo for lwo, swf, mqt in zip(*found.values())),
    )


EXPERIMENT = Experiment(8, "response times by window, bursts of five", PAPER, run, partial(draw_windows, part="burst"))
