"""Shared, Figure 9: the average response time of 30 queries, 80 % of which have the same window (small and large)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row
from sash.lab.experiments.shared_figures.shared_claims import AVERAGES, averages, lowest_claim, tell
from sash.lab.experiments.shared_figures.shared_picture import draw_averages
from sash.lab.experiments.shared_figures.shared_response import DISTRIBUTIONS, PAPER, ResponseCase, SharedScale, measure

N_QUERIES, N_CLUSTERED = 30, 24
SMALL, LARGE = (1, 2, 3), (5, 6, 7)


def run(scale: SharedScale, note: Note) -> Outcome:
    """The common window is one after the other; each other window has one query."""
    windows_s = DISTRIBUTIONS["small-large"]
    n_others = (N_QUERIES - N_CLUSTERED) // (len(windows_s) - 1)
    cases = [
        ResponseCase(
            {"window": chosen + 1},
            windows_s,
            [N_CLUSTERED if place == chosen else n_others for place in range(len(windows_s))],
        )
        for chosen in range(len(windows_s))
    ]
    rows = measure(cases, scale, note)
    lowest = [lowest_claim(rows, average, "window", "wherever queries cluster") for average in AVERAGES]
    return Outcome(rows, [*lowest, _better(rows, "swf", "lwo", SMALL), _better(rows, "lwo", "swf", LARGE)])


def _better(rows: Sequence[Row], better: str, worse: str, windows: Sequence[int]) -> Claim:
    found = averages(rows, AVERAGES[0], "window")
    where = "small" if windows == SMALL else "large"
    return Claim(
        f"{better.upper()} is better than {worse.upper()} where queries cluster at a {where} window "
        f"(w{windows[0]} to w{windows[-1]}), {AVERAGES[0].title}",
        tell({f"w{window}": found[window] for window in windows}),
        all(found[window][better] < found[window][worse] for window in windows),
    )


EXPERIMENT = Experiment(
    9,
    "30 queries, 80 % of them with one window",
    PAPER,
    run,
    partial(draw_averages, over="window", axis="window with 80 % of the queries"),
)
