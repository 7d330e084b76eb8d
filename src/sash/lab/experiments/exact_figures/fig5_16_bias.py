"""Exact, Figures 5.14 to 5.16: how AH-EWJ and RPWJ do as arrivals become more bursty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sash.lab.bench.measure import Note
from sash.lab.experiments.exact_figures.exact_cases import AHEWJ, PAPER, RPWJ, SCANNED_NS, ExactCase, ExactScale
from sash.lab.experiments.exact_figures.exact_claims import numbered
from sash.lab.experiments.exact_figures.exact_measures import (
    GAPS,
    Labelled,
    falls,
    line,
    measure,
    rises,
    tell,
    tell_both,
    with_scans,
)
from sash.lab.experiments.exact_figures.exact_picture import draw_lines
from sash.lab.experiments.exact_figures.exact_rates import METHODS
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row

RATE = 1200
FALLING = {"cpu_s": "CPU time", "disk_s": "Disk time", "total_s": "CPU and disk time together"}
_REASONS = {
    "cpu_s": "a tuple is compared with all of its partition, alone or in a block, and in a burst windows are fuller; "
    "what a scan costs beside its comparisons, which blocks would save, has no price",
    "disk_s": "as windows become fuller, every periodic stage reads more; only the largest bursts leave so little "
    "time that there are fewer stages",
    "total_s": "comparisons become more with fuller windows, and fewer stages make up for it only in large bursts",
}


def run(scale: ExactScale, note: Note) -> Outcome:
    rows = measure(_cases(scale), scale, note)
    alike = [row for row in rows if not row["is_gap_of_partition"]]
    progressive = {gap: [row for row in rows if row["is_gap_of_partition"] is gap] for gap in GAPS}
    claims = {
        "E5.19": [_delay(alike), _gap(alike)],
        "E5.20": [_window(alike)],
        "E5.21": [_falls(each, gap, name) for gap, each in progressive.items() for name in ("cpu_s", "disk_s")]
        + [_falls_with_scans(each, gap) for gap, each in progressive.items()],
        "E5.22": [_falls(each, gap, "total_s") for gap, each in progressive.items()],
    }
    return Outcome(rows, numbered(claims))


def _cases(scale: ExactScale) -> Iterator[Labelled]:
    for bias in scale.biases:
        for method, gap in ((AHEWJ, False), (RPWJ, False), (RPWJ, True)):
            case = ExactCase(method, RATE, bias=bias, is_gap_of_partition=gap)
            yield case, {"bias": bias, "is_gap_of_partition": gap}


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


def _falls(rows: Sequence[Row], is_of_partition: bool, column: str) -> Claim:
    found, stages = (line(rows, name, "bias", method=RPWJ) for name in (column, "n_reactions"))
    return Claim(
        f"{FALLING[column]} of RPWJ falls as the bias grows, {GAPS[is_of_partition]}",
        f"{tell(found, '{:,.0f}', ' s')}; reactive stages {tell(stages)}",
        falls(found),
        _REASONS[column],
    )


def _falls_with_scans(rows: Sequence[Row], is_of_partition: bool) -> Claim:
    found = line(with_scans(rows), "cpu_s", "bias", method=RPWJ)
    scanned, compared = (line(rows, column, "bias", method=RPWJ) for column in ("scanned", "compared"))
    shares = {bias: scanned[bias] / compared[bias] for bias in scanned}
    return Claim(
        f"So does CPU time if a tuple that a scan goes over costs {SCANNED_NS:.0f} ns, {GAPS[is_of_partition]}",
        f"{tell(found, '{:,.0f}', ' s')}; gone over for each comparison {tell(shares, '{:.3f}')}",
        falls(found),
        "a tuple that is processed alone would go over one for each comparison. From H_mark and L_mark, which are not "
        "given and taken from ch. 6, it follows that tuples are processed in blocks at any bias: scans are shared "
        "already, and a burst has little to save",
    )


EXPERIMENT = Experiment(
    "5-16",
    "delay, windows, CPU and disk time of AH-EWJ and RPWJ by bias",
    PAPER,
    run,
    partial(draw_lines, over="bias", axis="bias b", columns=("delay_s", "window_mb", "cpu_s", "disk_s", "total_s")),
)
