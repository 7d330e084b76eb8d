"""Exact, Figure 5.9: production delay and the fullest windows of AH-EWJ and RPWJ, by rate; and the memory saved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, MB, MIB, PAPER, RPWJ, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import line, nearest, tell
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import SATURATED, SUSTAINED, measure_rates
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

MEMORY_MB = 20 * MIB / MB
TIMES_MEMORY = (7.5, 10.5)
SAVED = (0.85, 0.95)
WINDOW_S = 600


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure_rates(scale, note)
    claims = {"E5.10": [_steady(rows)], "E5.12": [_high(rows)], "E5.11": [_window(rows)], "E5.30": [_saved(rows)]}
    return Outcome(rows, numbered(claims))


def _steady(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "rate", method=AHEWJ)
    rate = nearest(found, SUSTAINED)
    return Claim(
        f"The average delay of AH-EWJ does not rise significantly up to {SUSTAINED} tuples per second and stream (to "
        "less than twice that at the lowest rate)",
        tell(found, "{:.1f}", " s"),
        found[rate] < 2 * found[min(found)],
        "AH-EWJ compares as much as RPWJ does, and in the burst falls behind at the price that saturates it",
    )


def _high(rows: Sequence[Row]) -> Claim:
    found = {method: line(rows, "delay_s", "rate", method=method) for method in (AHEWJ, RPWJ)}
    rate = nearest(found[RPWJ], SATURATED)
    return Claim(
        f"The delay of RPWJ is very high at {SATURATED} (a quarter of the window, and five times that of AH-EWJ)",
        tell(found[RPWJ], "{:.1f}", " s"),
        found[RPWJ][rate] > max(WINDOW_S / 4, 5 * found[AHEWJ][rate]),
    )


def _window(rows: Sequence[Row]) -> Claim:
    found = line(rows, "window_mb", "rate", method=AHEWJ)
    times = found[nearest(found, SUSTAINED)] / MEMORY_MB
    return Claim(
        f"At {SUSTAINED} both windows have up to nine times the memory, about 190 MB "
        f"({TIMES_MEMORY[0]} to {TIMES_MEMORY[1]} times)",
        f"{times:.2f} times; {tell(found, '{:.0f}', ' MB')}",
        TIMES_MEMORY[0] <= times <= TIMES_MEMORY[1],
        "the bursts of the two streams need not be at one time",
    )


def _saved(rows: Sequence[Row]) -> Claim:
    found = line(rows, "window_mb", "rate", method=AHEWJ)
    saved = 1 - MEMORY_MB / found[nearest(found, SUSTAINED)]
    return Claim(
        f"The join needs about 90 % less memory than the windows at {SUSTAINED} ({SAVED[0]:.0%} to {SAVED[1]:.0%})",
        f"{saved:.1%} less",
        SAVED[0] <= saved <= SAVED[1],
    )


EXPERIMENT = Experiment(
    "5-9",
    "delay and windows of AH-EWJ and RPWJ by rate",
    PAPER,
    run,
    partial(draw_lines, over="rate", axis="tuples/s of a stream", columns=("delay_s", "window_mb")),
)
