"""Exact, Figure 3.6: delayed tuples, production delay and the fullest window of EWJ, by rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import MB, MIB, PAPER, ExactScale, nested_case
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import (
    INPUTS,
    LATENESS,
    LateShare,
    line,
    measure,
    nearest,
    rises,
    tell,
    tell_share,
)
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

KNEE, LOW, SATURATED = 150, 200, 250
FEW = 0.004
TIMES_MEMORY = (4.5, 5.5)


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure([(nested_case(rate), {}) for rate in scale.ewj_rates], scale, note)
    late = {"E3.3": _sharp, "E3.4": _small, "E3.5": _few}
    claims = {number: [claim(rows, each) for each in LATENESS] for number, claim in late.items()}
    return Outcome(rows, numbered({**claims, "E3.6": [_delay(rows)], "E3.7": [_window(rows)]}))


def _sharp(rows: Sequence[Row], lateness: LateShare) -> Claim:
    found = line(rows, lateness.column, "rate")
    below, above = (max(each for rate, each in found.items() if is_in(rate)) for is_in in (_is_below, _is_above))
    return Claim(
        f"Delayed tuples rise sharply beyond {KNEE} tuples per second and stream (5 times as many), {lateness.title}",
        tell_share(found),
        above > 5 * below,
        _WAITING,
    )


def _small(rows: Sequence[Row], lateness: LateShare) -> Claim:
    found = {rate: each for rate, each in line(rows, lateness.column, "rate").items() if rate < KNEE}
    return Claim(
        f"Below {KNEE} they are few, but there are some (up to 5 %), {lateness.title}",
        tell_share(found),
        all(0 < each < 0.05 for each in found.values()),
        _WAITING if lateness is INPUTS else "a pair is after the limit only if a tuple has waited for half an hour",
    )


def _few(rows: Sequence[Row], lateness: LateShare) -> Claim:
    found = {rate: each for rate, each in line(rows, lateness.column, "rate").items() if rate <= LOW}
    return Claim(
        f"They are below 0.4 % up to {LOW}, {lateness.title}",
        tell_share(found),
        max(found.values()) < FEW,
        _WAITING if lateness is INPUTS else "in the burst tuples wait for minutes, at the price that saturates at 275",
    )


def _is_below(rate: float) -> bool:
    return rate <= KNEE


def _is_above(rate: float) -> bool:
    return rate > KNEE


_WAITING = (
    "a tuple counts whose block came from disk after its end; at low rates a chunk of the disk waits until it is "
    "whole, and in a burst everybody is late by the backlog, which grows with every rate"
)


def _delay(rows: Sequence[Row]) -> Claim:
    found = line(rows, "delay_s", "rate")
    low, knee, high = (found[rate] for rate in (min(found), nearest(found, SATURATED), max(found)))
    return Claim(
        f"The average delay grows with the rate, but not much up to {SATURATED} (less than from there on)",
        tell(found, "{:.0f}", " s"),
        rises(found) and knee - low < high - knee,
    )


def _window(rows: Sequence[Row]) -> Claim:
    found, memory_mb = line(rows, "stream_mb", "rate"), 20 * MIB / MB
    times = found[nearest(found, SATURATED)] / memory_mb
    return Claim(
        f"At {SATURATED} the window of a stream is up to five times its memory, about 100 MB "
        f"({TIMES_MEMORY[0]} to {TIMES_MEMORY[1]} times)",
        f"{times:.2f} times; {tell(found, '{:.1f}', ' MB')}",
        TIMES_MEMORY[0] <= times <= TIMES_MEMORY[1],
        "a b-model's fullest eighth has 0.6³ of a stream, but at this scale the trace is shorter",
    )


EXPERIMENT = Experiment(
    "3-6",
    "delayed tuples, delay and window of EWJ by rate",
    PAPER,
    run,
    partial(
        draw_lines,
        over="rate",
        axis="tuples/s of a stream",
        columns=("late_inputs", "late_outputs", "delay_s", "stream_mb"),
    ),
)
