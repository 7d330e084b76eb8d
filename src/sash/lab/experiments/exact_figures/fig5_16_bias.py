"""Exact, Figures 5.14 to 5.16: how AH-EWJ and RPWJ do as arrivals become more bursty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_measures import Labelled, falls, line, measure, rises, tell, tell_both
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import METHODS
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE = 1200
FALLING = {"cpu_s": "CPU time", "disk_s": "Disk time", "total_s": "CPU and disk time together"}
_REASONS = {
    "cpu_s": "a tuple is compared with all of its partition, tuple by tuple or in blocks, and a burst meets a fuller "
    "window; what a scan costs beside its comparisons, which blocks would save, has no price",
    "disk_s": "as windows become fuller, every periodic stage reads more; only the largest bursts leave so little "
    "time that there are fewer stages",
    "total_s": "comparisons become more with fuller windows, and fewer stages make up for it only in large bursts",
}


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure(_cases(scale), scale, note)
    return Outcome(rows, [_delay(rows), _gap(rows), _window(rows), *(_falls(rows, column) for column in FALLING)])


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for bias in scale.biases:
        yield from ((ExactCase(method, RATE, bias=bias), {"bias": bias}) for method in METHODS)


def _delay(rows: Sequence[Row]) -> Claim:
    found = {method: line(rows, "delay_s", "bias", method=method) for method in METHODS}
    return Claim(
        "The average delay of AH-EWJ is much lower than that of RPWJ at any bias (less than half)",
        tell_both(found, "{:.1f}", " s"),
        all(2 * delay_s < found[RPWJ][bias] for bias, delay_s in found[AHEWJ].items()),
    )


def _gap(rows: Sequence[Row]) -> Claim:
    found = {method: line(rows, "delay_s", "bias", method=method) for method in METHODS}
    gaps = {bias: found[RPWJ][bias] - found[AHEWJ][bias] for bias in found[RPWJ]}
    return Claim(
        "The more bursty arrivals are, the more it is lower",
        tell(gaps, "{:.1f}", " s"),
        rises(gaps),
        "a trace of another bias has its bursts elsewhere; in the largest AH-EWJ falls behind, too",
    )


def _window(rows: Sequence[Row]) -> Claim:
    found = line(rows, "window_mb", "bias", method=AHEWJ)
    return Claim("The fullest windows grow with the bias", tell(found, "{:.0f}", " MB"), rises(found))


def _falls(rows: Sequence[Row], column: str) -> Claim:
    found = line(rows, column, "bias", method=RPWJ)
    return Claim(
        f"{FALLING[column]} of RPWJ falls as the bias grows",
        tell(found, "{:,.0f}", " s"),
        falls(found),
        _REASONS[column],
    )


EXPERIMENT = Experiment(
    "5-16",
    "delay, windows, CPU and disk time of AH-EWJ and RPWJ by bias",
    PAPER,
    run,
    partial(draw_lines, over="bias", axis="bias b", columns=("delay_s", "window_mb", "cpu_s", "disk_s", "total_s")),
)
